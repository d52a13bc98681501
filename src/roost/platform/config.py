"""Options from `roost.toml` and the environment: every option has a default, an unknown one is an error.

A section of the file is a struct of the part that uses it. `[conductor] lease_s = 10` and ROOST_CONDUCTOR_LEASE_S=10
say the same; the environment wins over files, and a later file over an earlier one. An option that is a list is written
with commas in the environment. A section or a ROOST_… variable that nothing reads is an error: it is a slip of the pen,
or of an older or newer Roost.
"""

import difflib
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_origin

import msgspec
from msgspec import Meta, Struct

from roost.platform.errors import BadRequest, reason_of
from roost.platform.mismatch import explain_mismatch, find_mismatch

T = TypeVar("T")

ConfigPath = Annotated[str, Meta(extra={"is_path": True})]
"""The type of an option that names a file or a folder, from the folder of the roost.toml on; "" for none."""

OTHER_VARIABLES = frozenset({
    "ROOST_AGENT_TOKEN", "ROOST_API", "ROOST_CRASH_AT", "ROOST_DATABASE", "ROOST_PG_TEMPLATE",
    # Of the tests, whose processes inherit them.
    "ROOST_AGENT_CONNECTIONS", "ROOST_FUZZ_SEEDS", "ROOST_HELD",
    "ROOST_LEDGER_STORM_S", "ROOST_MODEL_EXAMPLES", "ROOST_NETWORK_STORM_PORTS",
    "ROOST_FLEET_S", "ROOST_PYTHON", "ROOST_ROLLING_RATE", "ROOST_STORM_HOSTS",
    "ROOST_SCHEMATHESIS_EXAMPLES", "ROOST_SILENT_RACKS", "ROOST_STORM_S", "ROOST_STORM_SEED", "ROOST_TEST_PG_BIN",
})  # fmt: skip
"""The ROOST_… variables that are no option of a section; `tests/cli/test_settings.py` finds one that is missing."""


class Problem(Struct, frozen=True):
    """What is wrong, as one sentence, and where: a file, or a variable. section, option: "" where it is not of one."""

    source: str
    section: str
    option: str
    text: str


class OptionValue(Struct, frozen=True):
    """What an option is set to. source: the file, or the variable."""

    section: str
    option: str
    value: Any
    source: str


class Configuration(Struct, Generic[T], frozen=True):
    """What files and environment say. sections: None where there are problems."""

    files: tuple[Path, ...]
    values: tuple[OptionValue, ...]
    problems: tuple[Problem, ...]
    sections: T | None


def read_config(kind: type[T], *, sources: Sequence[Path], environment: Mapping[str, str]) -> T:
    """Return the configuration as a struct whose fields are the sections.

    sources: files, and folders whose `*.toml` are read by name. Raises BadRequest with everything that is wrong.
    """
    configuration = gather(kind, sources=sources, environment=environment)
    if configuration.sections is None:
        raise BadRequest("\n".join(problem.text for problem in configuration.problems))
    return configuration.sections


def gather(kind: type[T], *, sources: Sequence[Path], environment: Mapping[str, str]) -> Configuration[T]:
    """Return what `read_config` does, with where each value is from and all that is wrong."""
    structs = {section.name: section.type for section in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
    problems: list[Problem] = []
    files = tuple(_files(sources, problems))
    values: dict[tuple[str, str], OptionValue] = {}
    for file in files:
        values |= {(value.section, value.option): value for value in _values_of(file, structs, problems)}
    values |= {(value.section, value.option): value for value in _variables(structs, environment, problems)}
    sections = {name: _convert(struct, name, values, problems) for name, struct in structs.items()}
    return Configuration(files, tuple(values.values()), tuple(problems), None if problems else kind(**sections))


def read_secret(file: str, *, option: str) -> str:
    """Return what a file has that has one secret and nothing else. Raises BadRequest, which names the option."""
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{option} {file} cannot be read: {reason_of(error)}") from error


def variable_of(section: str, option: str) -> str:
    """Return the variable that says the same as an option of a section."""
    return f"ROOST_{section}_{option}".upper()


def _files(sources: Sequence[Path], problems: list[Problem]) -> Iterator[Path]:
    for source in sources:
        if not source.is_dir():
            yield source
            continue
        try:
            yield from sorted(file for file in source.iterdir() if file.suffix == ".toml")
        except OSError as error:
            problems.append(Problem(str(source), "", "", f"{source} cannot be read: {reason_of(error)}"))


def _values_of(file: Path, structs: Mapping[str, Any], problems: list[Problem]) -> Iterator[OptionValue]:
    """Yield what a file says of options that there are; a relative path begins at the file's folder."""
    for section, options in _read(file, problems).items():
        if section not in structs:
            text = f"{file}: there is no section [{section}]{_nearest(section, structs, 'the sections are')}"
            problems.append(Problem(str(file), section, "", text))
            continue
        if not isinstance(options, dict):
            problems.append(Problem(str(file), section, "", f"{file}: {section}: expected a section, [{section}]"))
            continue
        types = _types(structs[section])
        if unknown := sorted(options.keys() - types):
            text = f"{file}: [{section}] has no option {', '.join(unknown)}; it has {', '.join(sorted(types))}"
            problems.append(Problem(str(file), section, unknown[0], text))
        for option in options.keys() & types:
            value = options[option]
            if _is_path(types[option]) and isinstance(value, str) and value:
                value = str(file.absolute().parent / value)
            yield OptionValue(section, option, value, str(file))


def _variables(
    structs: Mapping[str, Any], environment: Mapping[str, str], problems: list[Problem]
) -> Iterator[OptionValue]:
    """Yield what the environment says."""
    known = {
        variable_of(section, option): (section, option, type_)
        for section, struct in structs.items()
        for option, type_ in _types(struct).items()
    }
    for name in sorted(environment):
        if name in known:
            section, option, type_ = known[name]
            value: Any = environment[name]
            if get_origin(type_) is tuple:
                value = [word.strip() for word in environment[name].split(",") if word.strip()]
            yield OptionValue(section, option, value, name)
        elif name.startswith("ROOST_") and name not in OTHER_VARIABLES:
            text = f"{name} in the environment is no option of Roost{_nearest(name, OTHER_VARIABLES | known.keys())}"
            problems.append(Problem(name, "", "", text))


def _convert(struct: Any, section: str, values: Mapping[tuple[str, str], OptionValue], problems: list[Problem]) -> Any:
    """Return the section's struct; None, and a problem for each option that is wrong."""
    options_given = {value.option: value for value in values.values() if value.section == section}
    errors = len(problems)
    for option, type_ in _types(struct).items():
        if option not in options_given:
            continue
        try:
            msgspec.convert(options_given[option].value, type_, strict=False)
        except msgspec.ValidationError as error:
            place = option + find_mismatch(error)
            problems.append(_problem(options_given[option], f"{place}: {explain_mismatch(error)}"))
    if len(problems) > errors:
        return None
    try:
        return msgspec.convert({name: value.value for name, value in options_given.items()}, struct, strict=False)
    except msgspec.ValidationError as error:  # of options that do not go together
        text = explain_mismatch(error)
        named = text.partition(" ")[0].rstrip(":")
        problems.append(_problem(options_given.get(named) or next(iter(options_given.values())), text))
    return None


def _problem(value: OptionValue, text: str) -> Problem:
    return Problem(value.source, value.section, value.option, f"{value.source}: [{value.section}] {text}")


def _types(struct: Any) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def _is_path(type_: Any) -> bool:
    return any((mark.extra or {}).get("is_path") for mark in getattr(type_, "__metadata__", ()))


def _nearest(name: str, known: Collection[str], all_of_them: str = "") -> str:
    """Return the one that was probably meant, else all of them."""
    if nearest := difflib.get_close_matches(name, known, n=1, cutoff=0.75):
        return f": is {nearest[0]} meant?"
    return f": {all_of_them} {', '.join(sorted(known))}" if all_of_them else ""


def _read(file: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        text = f"{file} cannot be read: {error.strerror}"
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        text = f"{file} is not TOML: {error}"
    problems.append(Problem(str(file), "", "", text))
    return {}
