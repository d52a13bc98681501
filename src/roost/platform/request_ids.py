"""Gives every request an id of its own, and keeps the caller's as the global one, which ties services' logs together.

Source: oslo.middleware, request_id; Nova, nova/api/compute_req_id.py, for the second header.
"""

import re
import uuid
from collections.abc import Sequence

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST_ID = "X-Openstack-Request-Id"
COMPUTE_REQUEST_ID = "X-Compute-Request-Id"
ID_FORMAT = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SCOPE_KEY = "roost.request_id"
"""Where a request's scope holds its id."""


def request_id_of(scope: Scope) -> str:
    """Return the request's id, made at the first question."""
    request_id: str = scope.setdefault(SCOPE_KEY, f"req-{uuid.uuid4()}")
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
        caller_id = Headers(scope=scope).get(REQUEST_ID, "")
        caller_ids = {"global_request_id": caller_id} if ID_FORMAT.fullmatch(caller_id) else {}
        path = f"{scope['path']}/"
        by_compute = any(path.startswith(f"{prefix}/") for prefix in self.compute_paths)
        names = (REQUEST_ID, COMPUTE_REQUEST_ID) if by_compute else (REQUEST_ID,)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name in names:
                    headers[name] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id, **caller_ids):
            await self.app(scope, receive, marked)
