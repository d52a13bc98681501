"""How a list's name, ip and ip6 are looked for: as part of a text, or as a regular expression.

Source: PostgreSQL, "POSIX Regular Expressions", which Nova's filters are there.
"""

import re

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.errors import FilterInvalid
from roost.compute.model.server import ServerFilter

SPECIAL = re.compile(r"[][\\^$.|?*+(){}]")
BACK_REFERENCE = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]")
LIKE_SPECIAL = re.compile(r"[\\%_]")


class Search(Struct, frozen=True, kw_only=True):
    """Which servers are looked for. by_patterns: name, ip and ip6 are regular expressions; else what LIKE takes.

    texts: name, ip and ip6 as they were asked for, for people.
    """

    only: ServerFilter
    by_patterns: bool
    texts: str


def read_search(only: ServerFilter) -> Search:
    """Return how to look for the servers. Raises FilterInvalid for a back reference, which may take for ever."""
    texts_asked = {name: text for name in ("name", "ip", "ip6") if (text := getattr(only, name)) is not None}
    texts = ", ".join(f"{name}={text}" for name, text in texts_asked.items())
    if any(BACK_REFERENCE.search(text) for text in texts_asked.values()):
        raise FilterInvalid(f"{texts}: expected no back reference (a backslash before a digit)")
    by_patterns = any(SPECIAL.search(text) for text in texts_asked.values())
    if not by_patterns:
        only = replace(only, **{name: f"%{LIKE_SPECIAL.sub(_escape, text)}%" for name, text in texts_asked.items()})
    return Search(only=only, by_patterns=by_patterns, texts=texts)


def _escape(special: re.Match[str]) -> str:
    return f"\\{special[0]}"
