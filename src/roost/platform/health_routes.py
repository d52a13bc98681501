"""`/healthz`, `/readyz` and `/healthcheck`: whether a process can serve, and whether new requests should come to it.

Source: oslo.middleware, healthcheck, for the last one, as its defaults answer it.
"""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.platform.drain import Drain
from roost.platform.health import Health
from roost.platform.http import Api, json_response

RETRY_AFTER = {"Retry-After": "1"}
DRAINING = "this process is about to end, and serves what still comes"
API = Api()
"""Roost's own paths."""


def health_routes(
    health: Health,
    drain: Drain,
    tell: Callable[[], Awaitable[str | None]] | None = None,
    can_serve: Callable[[], bool] = lambda: False,
) -> list[Route]:
    """Return the routes of a listener.

    tell: returns what operators should know of one that is ready all the same. can_serve: returns whether it is ready
    whatever the database does, which then is not looked at, but for `/readyz?database`.
    """

    async def find_hindrance() -> str | None:
        return None if can_serve() else await health.find_hindrance()

    async def answer_healthz(_request: Request) -> Response:
        return _status(await health.find_fault(), "unavailable")

    async def answer_readyz(request: Request) -> Response:
        look = health.find_hindrance if "database" in request.query_params else find_hindrance
        reason, status = (DRAINING, "draining") if drain.begun else (await look(), "unavailable")
        note = await tell() if reason is None and tell is not None else None
        return _status(reason, status) if note is None else json_response({"status": "ok", "note": note})

    async def answer_healthcheck(request: Request) -> Response:
        reason = DRAINING if drain.begun else await find_hindrance()
        return _as_oslo(request, reason)

    return [
        API.route("/healthz", {"GET": answer_healthz}),
        API.route("/readyz", {"GET": answer_readyz}),
        API.route("/healthcheck", {"GET": answer_healthcheck}),
    ]


def _status(reason: str | None, status: str) -> Response:
    if reason is None:
        return json_response({"status": "ok"})
    return json_response({"status": status, "reason": reason}, 503, RETRY_AFTER)


def _as_oslo(request: Request, reason: str | None) -> Response:
    """Return plain text, or JSON where only that is accepted; HEAD has no body, and 204 for 200."""
    status = 200 if reason is None else 503
    if request.method == "HEAD":
        return Response(status_code=204 if reason is None else 503)
    if "application/json" in request.headers.get("accept", "") and "text/plain" not in request.headers["accept"]:
        return json_response({"detailed": False, "reasons": [reason or "OK"]}, status)
    return Response(reason or "OK", status, media_type="text/plain")
