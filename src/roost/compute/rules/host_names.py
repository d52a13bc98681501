"""What is a host name: whoever names a host, an agent, a cloud file or the command line, is held to this one rule."""

import re
from collections.abc import Iterable

from roost.platform.errors import BadRequest

LABEL_CHARS_MAX = 63
NAME_CHARS_MAX = 255
LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?")
SHOWN_MAX = 80

EXPECTED = (
    f"labels of letters, digits, - and _ with dots between them, none longer than {LABEL_CHARS_MAX}, "
    f"{NAME_CHARS_MAX} characters in all"
)


def find_bad_host_name(names: Iterable[str]) -> str | None:
    """Return what is wrong with the first name that is no host name, and what was expected; None if all are.

    Source: RFC 1123 section 2.1, and the underscore, which the Compute API's `hostname` allows as well.
    """
    for name in names:
        if (flaw := _flaw(name)) is not None:
            shown = name if len(name) <= SHOWN_MAX else f"{name[:SHOWN_MAX]}…"
            return f"{shown!r} is no host name: {flaw}; expected {EXPECTED}"
    return None


def check_host_names(names: Iterable[str]) -> None:
    """Raise BadRequest, which names the first that is no host name."""
    if (flaw := find_bad_host_name(names)) is not None:
        raise BadRequest(flaw)


def _flaw(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > NAME_CHARS_MAX:
        return f"it has {len(name)} characters"
    for label in name.split("."):
        if not label:
            return "there is nothing before, after or between its dots"
        if len(label) > LABEL_CHARS_MAX:
            return f"one of its labels has {len(label)} characters"
        if LABEL.fullmatch(label):
            continue
        odd = next((character for character in label if not re.match(r"[A-Za-z0-9_-]", character)), None)
        return f"it has the character {odd!r}" if odd is not None else f"its label {label!r} begins or ends with -"
    return None
