"""Who calls, and whether the caller may: the words that the APIs and the ways to authenticate share."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct
from starlette.types import Scope

from roost.platform.errors import RoostError

CALLER_KEY = "roost.caller"
"""Where a request's scope holds its Caller."""


class Caller(Struct, frozen=True):
    """Who makes a request. project_id is None for one that is scoped to the whole system, or to nothing."""

    user_id: str | None
    project_id: str | None
    roles: tuple[str, ...] = ()
    system_scope: str | None = None


OPERATOR = Caller("operator", "operator", ("admin",))
"""Every caller, where nobody is asked who they are."""


class Forbidden(RoostError):
    """Policy does not allow this to be done."""


class Policy(Protocol):
    """Which rules let which callers in."""

    def enforce(self, caller: Caller, rule: str, target: Mapping[str, str] | None = None) -> None:
        """Raise Forbidden unless the rule lets the caller do this to the target; None: what is the caller's own."""


class Unrestricted:
    """The policy where nobody is asked who they are."""

    def enforce(self, caller: Caller, rule: str, target: Mapping[str, str] | None = None) -> None:
        """Let everybody in."""


def caller_of(scope: Scope) -> Caller:
    """The caller that authentication found, the operator without any."""
    caller: Caller = scope.get(CALLER_KEY, OPERATOR)
    return caller
