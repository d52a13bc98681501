"""Makes a roost.toml of an upstream placement.conf, by the table of upstream_options.py."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from msgspec import Struct
from oslo_config.iniparser import BaseParser, ParseError

from roost.cli.managing.upstream_options import OPTIONS, Said, To, Value, target_of
from roost.platform.errors import BadRequest, reason_of

DONE, DECIDE = 0, 4
DEPTH_MAX = 20
"""How many options may refer to one another in a row."""

LOG_NAME = "placement-api.log"
"""What upstream's log is called in `log_dir`: after its program."""

POLICY_FILE = "policy.yaml"

Upstream = dict[tuple[str, str], str]
"""(section, option) -> what it says, as it is written."""


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
        self.options: Upstream = {}

    def new_section(self, section: str) -> None:
        """Begin a section."""
        self.section = section

    def assignment(self, key: str, value: list[str]) -> None:
        """Keep an option; dashes are underscores."""
        self.options[self.section, key.replace("-", "_")] = " ".join(value).strip()


class _Interpolation(Template):
    """`$option`, `${option}` and `$group.option`; `$$` is a dollar. Source: oslo.config, ConfigOpts.Template."""

    idpattern = r"[_a-z][\._a-z0-9]*"


class _Interpolated(dict[str, str]):
    """What the references in a value of one section mean, each looked up when it is met."""

    def __init__(self, upstream: Upstream, section: str, depth: int) -> None:
        super().__init__()
        self.upstream, self.section, self.depth = upstream, section, depth

    def __missing__(self, name: str) -> str:
        """Return the value of `group.option`, or of an option of this section, or else of [DEFAULT]."""
        group, _, option = name.rpartition(".")
        for section in (group,) if group else (self.section, "DEFAULT"):
            if (section, option) in self.upstream:
                return interpolate(self.upstream, section, option, depth=self.depth + 1)
        raise ValueError("it refers to an option that the file does not have; a `$` of its own is written `$$`")


def interpolate(upstream: Upstream, section: str, option: str, *, depth: int = 0) -> str:
    """Return the value of an option as oslo.config has it.

    Raises ValueError where a reference leads nowhere, or back to itself. Its text shows nothing of the value.
    """
    if depth > DEPTH_MAX:
        raise ValueError("it refers to itself")
    value = upstream[section, option].replace(r"\$", "$$")
    return _Interpolation(value).safe_substitute(_Interpolated(upstream, section, depth))


def read_upstream(files: Sequence[Path]) -> Upstream:
    """Return (section, option) -> what the files say, of which a later one wins. Raises BadRequest.

    A policy.yaml beside the first is what upstream reads without being told.
    """
    parser = _Parser()
    for file in files:
        parser.section = "DEFAULT"
        try:
            parser.parse(file.read_text().splitlines())
        except (OSError, UnicodeDecodeError) as error:
            raise BadRequest(f"{file} cannot be read: {reason_of(error)}") from error
        except ParseError as error:
            raise BadRequest(f"{file}, line {error.lineno}: {error.msg}: {error.line}") from error
    if (files[0].parent / POLICY_FILE).exists():
        parser.options.setdefault(("oslo_policy", "policy_file"), POLICY_FILE)
    return parser.options


def convert(upstream: Upstream) -> Converted:
    """Return the same for Roost, and what cannot be said there.

    Of two options that say the same, such as `www_authenticate_uri` and `auth_uri`, the table's first counts.
    """
    options: dict[str, dict[str, Value]] = {}
    remarks = []
    order = {place: number for number, place in enumerate(OPTIONS)}
    for section, option in sorted(upstream, key=lambda place: (order.get(place, len(order)), place)):
        target = target_of(section, option)
        remark = target if isinstance(target, Said) else _carry(upstream, section, option, target, options)
        if remark:
            remarks.append(Remark(section, option, remark.text, remark.decide and _is_on(upstream[section, option])))
    if "auth_url" in options.get("keystone", {}):
        options.setdefault("serve", {}).setdefault("auth", "keystone")  # upstream's default
    options["log"] = _log(upstream, options.get("log", {}))
    return Converted(options, tuple(remarks))


def _carry(
    upstream: Upstream, section: str, option: str, target: To, options: dict[str, dict[str, Value]]
) -> Said | None:
    """Put a value into `options`, unless it is empty or said there; return what has to be said instead."""
    try:
        value = interpolate(upstream, section, option)
    except ValueError as error:
        return Said(str(error), decide=True)
    try:
        converted = target.convert(value) if value else value
    except ValueError:
        return Said(f"its value {value!r} is not as upstream has it", decide=True)
    if isinstance(converted, Said):
        return converted
    if value:
        options.setdefault(target.section, {}).setdefault(target.option, converted)
    return None


def _log(upstream: Upstream, log: dict[str, Value]) -> dict[str, Value]:
    """Return the section [log]: `log_dir`, `use_json` and `debug` change what the others mean. Source: oslo.log."""
    log = {"format": "oslo", **log}
    if directory := _known(upstream, "log_dir"):
        log["file"] = str(Path(directory, str(log.get("file", LOG_NAME))))
    if _is_true(_known(upstream, "use_json")):
        log["format"] = "json"
    if _is_true(_known(upstream, "debug")):
        log["level"] = "debug"
    return log


def _known(upstream: Upstream, option: str) -> str:
    """Return the value of an option of [DEFAULT]; "" where it is not said, or cannot be known."""
    try:
        return interpolate(upstream, "DEFAULT", option)
    except (KeyError, ValueError):
        return ""


def _is_true(value: str) -> bool:
    return value.strip().lower() in ("true", "1", "on", "yes")


def _is_on(value: str) -> bool:
    """Return whether a value asks for anything: an option that is empty or false leaves nothing to decide."""
    return value.strip().lower() not in ("", "false", "0", "off", "no")


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
    for decide, heading in ((True, "To be decided:"), (False, "Inert, or said elsewhere:")):
        remarks = [remark for remark in converted.remarks if remark.decide is decide]
        if remarks:
            yield f"# {heading}"
            yield from (f"#   [{remark.section}] {remark.option}: {remark.text}" for remark in remarks)
