"""Finds out the caller of every request before anything else sees it; policy decides later what that caller may do.

`Authentication` wraps the main listener. How a caller is known is a function from headers to a Caller: `noauth2`, which
believes the headers, or Keystone's (keystone.py).
"""

import time
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from roost.platform.auth import (
    ANONYMOUS,
    CALLER_KEY,
    AuthenticationUnavailable,
    Caller,
    Unauthorized,
    project_counted,
)
from roost.platform.http import json_response
from roost.platform.metrics import observe_unserved
from roost.platform.shares import count_for

Identify = Callable[[Headers, str], Awaitable[Caller]]
"""(a request's headers, the address that it is from) -> its caller. Raises Unauthorized, AuthenticationUnavailable."""

RETRY_AFTER_S = 1


class Authentication:
    """The outermost layer of a listener: 401 for a request whose caller is unknown.

    open_paths: asked for by clients that have no token yet, and by who watches over the process; each is compared
    whole. challenge: the WWW-Authenticate of a 401, where there is one.
    """

    def __init__(
        self, app: ASGIApp, identify: Identify, *, open_paths: frozenset[str], challenge: str | None = None
    ) -> None:
        self.app = app
        self.identify = identify
        self.open_paths = open_paths
        self.challenge = challenge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 or 503, or pass the request on with its caller."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if scope["path"] in self.open_paths:
            scope[CALLER_KEY] = ANONYMOUS
            return await self.app(scope, receive, send)
        begun_s = time.perf_counter()
        try:
            scope[CALLER_KEY] = await self.identify(Headers(scope=scope), (scope.get("client") or ("",))[0])
        except Unauthorized as error:
            headers = {"WWW-Authenticate": self.challenge} if self.challenge else {}
            response = json_response(_keystone_error(401, "Unauthorized", error), 401, headers)
        except AuthenticationUnavailable as error:
            body = _keystone_error(503, "Service Unavailable", error)
            response = json_response(body, 503, {"Retry-After": str(RETRY_AFTER_S)})
        else:
            count_for(project_counted(scope[CALLER_KEY]))
            return await self.app(scope, receive, send)
        observe_unserved(response.status_code, time.perf_counter() - begun_s)
        await response(scope, receive, send)


async def noauth2(headers: Headers, _address: str = "") -> Caller:
    """Believe the headers: X-Auth-Token USER or USER:PROJECT, X-Project-Id, X-Roles, OpenStack-System-Scope.

    Without X-Roles the user `admin` has the role `admin` and others have none. A system scope leaves no project.
    Source: upstream Placement, `[api] auth_strategy = noauth2`; its tests add X-Project-Id.
    """
    user_id, _, project_id = headers.get("x-auth-token", "").strip().partition(":")
    if not user_id:
        raise Unauthorized
    roles_sent = headers.get("x-roles")
    roles = (
        [role.strip() for role in roles_sent.split(",")] if roles_sent is not None else ["admin"] * (user_id == "admin")
    )
    named = tuple(role for role in roles if role)
    if system_scope := headers.get("openstack-system-scope"):
        return Caller(user_id, None, named, system_scope)
    return Caller(user_id, headers.get("x-project-id") or project_id or user_id, named)


def _keystone_error(status: int, title: str, error: Exception) -> dict[str, object]:
    """Return the body of a refusal. Source: keystonemiddleware, auth_token: the body of its 401."""
    return {"error": {"code": status, "title": title, "message": str(error)}}
