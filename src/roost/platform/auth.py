"""Who calls, and whether the caller may: the words that the APIs, the ways to authenticate and policy share."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct
from starlette.types import Scope

from roost.platform.errors import Retry, RoostError

CALLER_KEY = "roost.caller"
"""Where a request's scope holds its Caller."""


class Caller(Struct, frozen=True):
    """Who makes a request. project_id is None for one that is scoped to the whole system, a domain, or nothing.

    domain_id: the domain that the caller is scoped to. user_domain_id, project_domain_id: where the two belong.
    service: who passes the request on, by a service token of its own.
    """

    user_id: str | None
    project_id: str | None
    roles: tuple[str, ...] = ()
    system_scope: str | None = None
    domain_id: str | None = None
    user_domain_id: str | None = None
    project_domain_id: str | None = None
    service: "Caller | None" = None


OPERATOR = Caller("operator", "operator", ("admin",))
"""Every caller, without authentication."""

ANONYMOUS = Caller(None, None)
"""The caller of a path that needs no authentication."""


NOT_COUNTED_ROLES = frozenset({"admin", "service"})
"""Of operators, and of services that ask on behalf of all projects."""


def project_counted(caller: Caller) -> str | None:
    """Return the project whose share of a process a request of the caller uses; None: nobody's."""
    exempt = NOT_COUNTED_ROLES.intersection(caller.roles) or caller.system_scope is not None
    return None if exempt else caller.project_id


class Unauthorized(RoostError):
    """The request you have made requires authentication."""


class AuthenticationUnavailable(RoostError):
    """Who calls cannot be found out at the moment; the request can be repeated."""

    retry = Retry.NOW
    is_confidential = True


class Forbidden(RoostError):
    """Policy does not allow this to be done."""


class Policy(Protocol):
    """Which rules let which callers in."""

    def enforce(self, caller: Caller, rule: str, target: Mapping[str, str | None] | None = None) -> None:
        """Raise Forbidden unless the rule lets the caller do this to the target; None: what is the caller's own."""


class Unrestricted:
    """The policy without authentication."""

    def enforce(self, caller: Caller, rule: str, target: Mapping[str, str | None] | None = None) -> None:
        """Allow everything to everybody."""


UNRESTRICTED = Unrestricted()


def allows(policy: Policy, caller: Caller, rule: str, target: Mapping[str, str | None] | None = None) -> bool:
    """Return whether the rule lets the caller do this to the target, as `enforce` says it."""
    try:
        policy.enforce(caller, rule, target)
    except Forbidden:
        return False
    return True


def caller_of(scope: Scope) -> Caller:
    """Return the caller that authentication found, the operator without any."""
    caller: Caller = scope.get(CALLER_KEY, OPERATOR)
    return caller
