"""What an agent's token is good for: the hosts that it was made for, by name or by shell-style pattern."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import cached_property
from hashlib import sha256

from roost.compute.errors import HostNotCovered
from roost.platform.errors import BadRequest

PATTERN = r"[^\s/\x00-\x1f\x7f]{1,255}"
"""A host's name, or a pattern of names: no blanks, no slashes, no control characters."""


NO_NAME = r"(?!)"
"""An expression that fits nothing; an empty one would fit every name."""


class HostPatterns:
    """The hosts that a request may speak for."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)

    def covers(self, host: str) -> bool:
        """Return whether a name or a pattern fits the whole name; capital letters differ from small ones."""
        return host in self._names or self._expression.match(host) is not None

    def check(self, hosts: Iterable[str]) -> None:
        """Raise HostNotCovered, which names the hosts, unless all of them are covered."""
        uncovered = sorted({host for host in hosts if not self.covers(host)})
        if uncovered:
            raise HostNotCovered(f"this token is for {', '.join(self.patterns)}, and not for {', '.join(uncovered)}")

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.patterns)

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile("|".join(translate(pattern) for pattern in self.patterns) or NO_NAME)


EVERY_HOST = HostPatterns(("*",))
"""What a request may speak for where agents are asked for no token."""


def check_patterns(patterns: Sequence[str]) -> None:
    """Raise BadRequest, which names the first pattern that no host's name can fit."""
    if not patterns:
        raise BadRequest("expected at least one host's name or pattern")
    for pattern in patterns:
        if not re.fullmatch(PATTERN, pattern):
            raise BadRequest(f"{pattern!r} is neither a host's name nor a pattern such as rack1-* or *")


def token_hash(token: str) -> bytes:
    """Return the SHA-256 of a token, by which it is found; nobody can try out its 256 random bits."""
    return sha256(token.encode(errors="surrogateescape")).digest()
