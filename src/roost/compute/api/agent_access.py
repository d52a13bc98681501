"""Who may call the agent API: where callers are asked who they are, every request needs an agent's token.

`AgentAuthentication` stands in front of the agents' listener and asks before a body is read; the handlers ask
`hosts_allowed` which hosts the request may speak for.
"""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from roost.compute.service.agent_tokens import AgentTokens, HostsAllowed, every_host
from roost.platform.auth import Unauthorized
from roost.platform.errors import RoostError
from roost.platform.http import Api, Problem, json_response, problem_details
from roost.platform.metrics import observe_unserved

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/healthcheck", "/metrics"})
"""For who watches over the process."""

HOSTS_ALLOWED_KEY = "roost.hosts_allowed"
"""Where a request's scope holds its HostsAllowed."""

PROBLEMS: Mapping[type[Exception], Problem] = {Unauthorized: Problem(401, title="Unauthorized")}


def agent_problem(problem: Problem, detail: str, request: Request) -> Any:
    """Return the error's answer; a 401 says what kind of token is expected. Source: RFC 9457, RFC 6750."""
    body = problem_details(problem, detail, request)
    if problem.status != 401:
        return body
    return json_response(body, 401, {"WWW-Authenticate": 'Bearer realm="roost agents"'})


API = Api(problems=PROBLEMS, dialect=agent_problem)


class AgentAuthentication:
    """The outermost layer of the agents' listener: 401 without a token that counts."""

    def __init__(self, app: ASGIApp, tokens: AgentTokens) -> None:
        self.app = app
        self.tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 or 503, or pass the request on with the hosts that it may speak for."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            begun_s = time.perf_counter()
            try:
                allowed = partial(self.tokens.verify, _bearer_token(Headers(scope=scope)))
                await allowed()
            except RoostError as error:
                response = API.problem_response(error, Request(scope))
                observe_unserved(response.status_code, time.perf_counter() - begun_s)
                return await response(scope, receive, send)
            scope[HOSTS_ALLOWED_KEY] = allowed
        await self.app(scope, receive, send)


def hosts_allowed(request: Request) -> HostsAllowed:
    """Return what tells which hosts the request may speak for: all, where nobody is asked for a token."""
    allowed: HostsAllowed = request.scope.get(HOSTS_ALLOWED_KEY, every_host)
    return allowed


def _bearer_token(headers: Headers) -> str:
    """Return the token that a request brings. Raises Unauthorized."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized("an agent's token is needed: Authorization: Bearer TOKEN")
    return token.strip()
