"""Calls the Placement API in this process, on a real ledger, without a socket."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message

from roost.placement.api import routes
from roost.placement.service.ledger import Ledger
from roost.platform.auth import Unrestricted
from roost.platform.mounts import mount

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Api:
    """The Placement API in this process, without a socket."""

    def __init__(self, ledger: Ledger) -> None:
        self.app: ASGIApp = Starlette(routes=[mount("/placement", routes(ledger, Unrestricted()))])
        self.headers: dict[str, str] = {}
        self.ledger = ledger

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: str | None = "1.39",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> tuple[int, Any]:
        """(status, decoded body or None); the answer's headers are kept."""
        path, _, query = path.partition("?")
        lines = [(b"host", b"localhost"), *((name.lower().encode(), text.encode()) for name, text in headers.items())]
        if body is not None:
            lines.append((b"content-type", b"application/json"))
        if version:
            lines.append((b"openstack-api-version", f"placement {version}".encode()))
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": f"/placement{path}", "raw_path": path.encode(), "root_path": "", "query_string": query.encode(),
            "headers": lines, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": msgspec.json.encode(body), "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        self.headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        answer = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], msgspec.json.decode(answer) if answer else None
