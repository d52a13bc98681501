"""Options from `roost.toml` and the environment: every option has a default, an unknown one is an error.

A section of the file is a struct of the part that uses it. `[conductor] lease_s = 10` and ROOST_CONDUCTOR_LEASE_S=10
say the same; the environment wins. An option that is a list is written with commas in the environment. A section or a
ROOST_… variable that nothing reads is an error: it is a slip of the pen, or of an older or newer Roost.
"""

import difflib
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_origin

import msgspec

from roost.platform.errors import BadRequest
from roost.platform.mismatch import explain_mismatch, find_mismatch

T = TypeVar("T")

OTHER_VARIABLES = frozenset({
    "ROOST_AGENT_TOKEN", "ROOST_CRASH_AT", "ROOST_DATABASE", "ROOST_PG_TEMPLATE",
    # Of the tests, whose processes inherit them.
    "ROOST_AGENT_CONNECTIONS", "ROOST_FUZZ_SEEDS", "ROOST_HELD",
    "ROOST_LEDGER_STORM_S", "ROOST_MODEL_EXAMPLES", "ROOST_NETWORK_STORM_PORTS",
    "ROOST_FLEET_S", "ROOST_PYTHON", "ROOST_ROLLING_RATE", "ROOST_STORM_HOSTS",
    "ROOST_SCHEMATHESIS_EXAMPLES", "ROOST_SILENT_RACKS", "ROOST_STORM_S", "ROOST_STORM_SEED", "ROOST_TEST_PG_BIN",
})  # fmt: skip
"""The ROOST_… variables that are no option of a section; `tests/cli/test_settings.py` finds one that is missing."""


def read_config(kind: type[T], *, file: Path | None, environment: Mapping[str, str]) -> T:
    """Return the configuration as a struct whose fields are the sections.

    Raises BadRequest with every section and variable that nothing reads; else with the option, and what was expected.
    """
    content = _read(file) if file else {}
    sections = {section.name: section.type for section in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
    variables = OTHER_VARIABLES | {
        variable_of(section, option.name)
        for section, struct in sections.items()
        for option in msgspec.structs.fields(struct)
    }
    unknown = [
        f"{file}: there is no section [{name}]{_nearest(name, sections, 'the sections are')}"
        for name in content
        if name not in sections
    ]
    unknown += [
        f"{name} in the environment is no option of Roost{_nearest(name, variables)}"
        for name in sorted(environment)
        if name.startswith("ROOST_") and name not in variables
    ]
    if unknown:
        raise BadRequest("\n".join(unknown))
    return kind(**{
        name: _read_section(struct, name, dict(content.get(name, {})), source=str(file), environment=environment)
        for name, struct in sections.items()
    })  # fmt: skip


def variable_of(section: str, option: str) -> str:
    """Return the variable that says the same as an option of a section."""
    return f"ROOST_{section}_{option}".upper()


def _nearest(name: str, known: Collection[str], all_of_them: str = "") -> str:
    """Return the one that was probably meant, else all of them."""
    if nearest := difflib.get_close_matches(name, known, n=1, cutoff=0.75):
        return f": is {nearest[0]} meant?"
    return f": {all_of_them} {', '.join(sorted(known))}" if all_of_them else ""


def _read_section(
    kind: type[T], section: str, options: dict[str, Any], *, source: str, environment: Mapping[str, str]
) -> T:
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(options.keys() - fields):
        text = f"[{section}] has no option {', '.join(unknown)}; it has {', '.join(sorted(fields))}"
        raise BadRequest(f"{source}: {text}")
    for name, type_ in fields.items():
        variable = variable_of(section, name)
        if variable in environment:
            options[name], source = environment[variable], variable
            if get_origin(type_) is tuple:
                options[name] = [word.strip() for word in environment[variable].split(",") if word.strip()]
    try:
        return msgspec.convert(options, kind, strict=False)
    except msgspec.ValidationError as error:
        place = f"{option}: " if (option := find_mismatch(error)) else ""
        raise BadRequest(f"{source}: [{section}] {place}{explain_mismatch(error)}") from error


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"{file} is not TOML: {error}") from error
