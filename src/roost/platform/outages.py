"""What a request does while the database is away: it waits, and begins anew, until its time is nearly over."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from roost.platform.errors import DatabaseAway

PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 1.0
"""Between two tries of a request; each pause is twice the one before."""

Endpoint = Callable[[Request], Awaitable[Response]]


def waiting(endpoint: Endpoint, is_gone: Callable[[Request], Awaitable[bool]]) -> Endpoint:
    """Return the endpoint, begun anew for as long as the database is away and the request's time is not over.

    What raises DatabaseAway has written nothing. is_gone: returns whether the client has gone, for whom nothing is
    begun anew. A listener without a time-out has nobody wait.
    """

    async def answer(request: Request) -> Response:
        begun_s, pause_s = time.monotonic(), PAUSE_FIRST_S
        while True:
            try:
                return await endpoint(request)
            except DatabaseAway:
                over_at_s = begun_s + (timeout_of(request) or 0)
                if time.monotonic() + pause_s > over_at_s or await is_gone(request):
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    return answer


def timeout_of(request: Request) -> float | None:
    """Return how many seconds the listener gives a request, None for any number."""
    state = getattr(request.scope.get("app"), "state", None)
    timeout_s: float | None = getattr(state, "request_timeout_s", None)
    return timeout_s
