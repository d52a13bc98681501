"""Answers only who asks for this machine by a name of its own: where nobody needs a token, everybody here has it all.

A web page whose name was pointed at this machine names itself in Host, and is refused (DNS rebinding).
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from roost.platform.http import Problem, json_response, problem_details
from roost.platform.loopback import is_loopback
from roost.platform.metrics import observe_unserved

MISDIRECTED = Problem(421, title="Misdirected Request")


class LocalHosts:
    """The outermost layer of a listener without authentication."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 421 where Host is no loopback's, or pass the request on."""
        if scope["type"] != "http" or _names_this_machine(Headers(scope=scope).get("host")):
            return await self.app(scope, receive, send)
        text = "Host: expected localhost or a loopback address: without a token this machine alone is served"
        observe_unserved(MISDIRECTED.status, 0)
        await json_response(problem_details(MISDIRECTED, text, Request(scope)), MISDIRECTED.status)(
            scope, receive, send
        )


def _names_this_machine(host: str | None) -> bool:
    try:
        return not host or is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
