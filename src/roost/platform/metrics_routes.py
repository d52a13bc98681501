"""The routes of metrics: who may read a text that takes long to make, and that it is made once for all who ask."""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.platform.http import Api, Problem, json_response, problem_details

KEEP_S = 5.0
UNAUTHORIZED = Problem(401, title="Unauthorized")
API = Api()
"""Roost's own paths."""


class MetricsText:
    """A text that is kept for KEEP_S after it was made. Who asks while it is made waits for the same one."""

    def __init__(self, make: Callable[[], Awaitable[bytes]], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._making: asyncio.Task[bytes] | None = None
        self._kept_until_s = 0.0

    async def read(self) -> bytes:
        """Return the text. Raises what making it raises, which is not kept."""
        making = self._making
        if making is None or (making.done() and (self._clock() >= self._kept_until_s or making.exception())):
            making = self._making = asyncio.create_task(self._make_once())
        return await asyncio.shield(making)

    async def _make_once(self) -> bytes:
        text = await self._make()
        self._kept_until_s = self._clock() + KEEP_S
        return text


def metrics_routes(texts: Mapping[str, MetricsText], *, token: str, open_paths: Collection[str]) -> list[Route]:
    """Return the routes of a listener.

    texts: by path. token: what opens a path that is not in open_paths, as a bearer's; "": such a path is not served.
    """
    readable = [path for path in texts if path in open_paths or token]
    return [_route(path, texts[path], token="" if path in open_paths else token) for path in readable]


def _route(path: str, text: MetricsText, *, token: str) -> Route:
    async def answer(request: Request) -> Response:
        if token and not _shows(request, token):
            body = problem_details(UNAUTHORIZED, "Authorization: expected Bearer and the token of [metrics].", request)
            return json_response(body, UNAUTHORIZED.status, {"WWW-Authenticate": "Bearer"})
        return Response(await text.read(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return API.route(path, {"GET": answer})


def _shows(request: Request, token: str) -> bool:
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())
