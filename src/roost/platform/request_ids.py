"""Gives every request an id of its own, and keeps the caller's as the global one, which ties services' logs together.

Source: oslo.middleware, request_id; Nova, nova/api/compute_req_id.py, for the second header.
"""

import re
import uuid
from collections.abc import Awaitable, Sequence

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST_ID = b"x-openstack-request-id"
COMPUTE_REQUEST_ID = b"x-compute-request-id"
ID_FORMAT = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OWN, GLOBAL = "request_id", "global_request_id"
"""What log lines call a request's ids."""
SCOPE_KEY = "roost.request_id"
"""Where a request's scope holds its id."""


def request_id_of(scope: Scope) -> str:
    """Return the request's id, made at the first question."""
    request_id: str | None = scope.get(SCOPE_KEY)
    if request_id is None:
        request_id = scope[SCOPE_KEY] = f"req-{uuid.uuid4()}"
    return request_id


def global_request_id() -> str | None:
    """Return what its caller calls the request that is answered now; None where it does not say, or there is none."""
    caller_id: str | None = structlog.contextvars.get_contextvars().get(GLOBAL)
    return caller_id


def own_request_id() -> str | None:
    """Return what Roost calls the request that is answered now; None where there is none."""
    request_id: str | None = structlog.contextvars.get_contextvars().get(OWN)
    return request_id


class RequestIds:
    """The outermost layer of a listener: answers carry the request's id, its log lines the caller's as well.

    compute_paths: below these the answers carry it by the Compute API's own name too; "" is every path.
    """

    def __init__(self, app: ASGIApp, compute_paths: Sequence[str] = ()) -> None:
        self.app = app
        self.compute_paths = compute_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its ids."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request_id = request_id_of(scope)
        ids = {OWN: request_id}
        if caller_id := _caller_id(scope):
            ids[GLOBAL] = caller_id
        value = request_id.encode("ascii")
        marks = [(REQUEST_ID, value)]
        if self.compute_paths and self._is_compute(scope["path"]):
            marks.append((COMPUTE_REQUEST_ID, value))

        def marked(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message["headers"] += marks
            return send(message)

        tokens = structlog.contextvars.bind_contextvars(**ids)
        try:
            await self.app(scope, receive, marked)
        finally:
            structlog.contextvars.reset_contextvars(**tokens)

    def _is_compute(self, path: str) -> bool:
        return any(f"{path}/".startswith(f"{prefix}/") for prefix in self.compute_paths)


def _caller_id(scope: Scope) -> str | None:
    """Return the caller's own id, if it is one: it is written to logs."""
    for name, value in scope["headers"]:
        if name == REQUEST_ID:
            text: str = value.decode("latin-1")
            return text if ID_FORMAT.fullmatch(text) else None
    return None
