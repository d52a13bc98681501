"""Makes a roost.toml of an upstream placement.conf, by the table of upstream_options.py."""

import json
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from oslo_config.iniparser import BaseParser, ParseError

from roost.cli.managing.upstream_options import OPTIONS, Said, To, Value
from roost.platform.errors import BadRequest, reason_of

DONE, DECIDE = 0, 4


class Remark(Struct, frozen=True):
    """Something that was said and has no option. decide: an operator has to look at it."""

    section: str
    option: str
    text: str
    decide: bool


class Converted(Struct, frozen=True):
    """A configuration of Roost: section -> option -> value, and what is not in it."""

    options: dict[str, dict[str, Value]]
    remarks: tuple[Remark, ...]

    @property
    def exit_status(self) -> int:
        """Return 4 where an operator has to decide something, else 0."""
        return DECIDE if any(remark.decide for remark in self.remarks) else DONE


class _Parser(BaseParser):
    """Reads the options as oslo.config does: the last of several counts."""

    def __init__(self) -> None:
        super().__init__()
        self.section = "DEFAULT"
        self.options: dict[tuple[str, str], str] = {}

    def new_section(self, section: str) -> None:
        """Begin a section."""
        self.section = section

    def assignment(self, key: str, value: list[str]) -> None:
        """Keep an option; dashes are underscores."""
        self.options[self.section, key.replace("-", "_")] = " ".join(value).strip()


def read_upstream(file: Path) -> dict[tuple[str, str], str]:
    """Return (section, option) -> what a placement.conf says. Raises BadRequest."""
    parser = _Parser()
    try:
        parser.parse(file.read_text().splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{file} cannot be read: {reason_of(error)}") from error
    except ParseError as error:
        raise BadRequest(f"{file}, line {error.lineno}: {error.msg}: {error.line}") from error
    return parser.options


def convert(upstream: dict[tuple[str, str], str]) -> Converted:
    """Return the same for Roost, and what cannot be said there."""
    options: dict[str, dict[str, Value]] = {}
    remarks = []
    for (section, option), value in upstream.items():
        target = OPTIONS.get((section, option))
        match target:
            case To():
                try:
                    converted = target.convert(value)
                except ValueError:
                    remarks.append(Remark(section, option, f"its value {value!r} is not as upstream has it", True))
                    continue
                if value:
                    options.setdefault(target.section, {})[target.option] = converted
            case Said():
                remarks.append(Remark(section, option, target.text, target.decide))
            case None:
                remarks.append(Remark(section, option, "Roost has nothing like it, or does not know it", True))
    options.setdefault("log", {}).setdefault("format", "oslo")
    if _is_true(upstream.get(("DEFAULT", "use_json"), "")):
        options["log"]["format"] = "json"
    if _is_true(upstream.get(("DEFAULT", "debug"), "")):
        options["log"]["level"] = "debug"
    return Converted(options, tuple(remarks))


def _is_true(value: str) -> bool:
    return value.strip().lower() in ("true", "1", "on", "yes")


def as_toml(converted: Converted) -> str:
    """Return a roost.toml; what is not in it is told in comments at its end, without secrets."""
    return "\n".join([*_sections(converted), *_comments(converted)]).strip() + "\n"


def _sections(converted: Converted) -> Iterator[str]:
    for section, options in sorted(converted.options.items()):
        yield f"[{section}]"
        # A text of JSON is one of TOML too, and so are numbers, booleans and lists.
        yield from (f"{option} = {json.dumps(value, ensure_ascii=False)}" for option, value in sorted(options.items()))
        yield ""


def _comments(converted: Converted) -> Iterator[str]:
    for decide, heading in ((True, "To be decided:"), (False, "Not needed, or always so:")):
        remarks = [remark for remark in converted.remarks if remark.decide is decide]
        if remarks:
            yield f"# {heading}"
            yield from (f"#   [{remark.section}] {remark.option}: {remark.text}" for remark in remarks)
