"""Asks an ASGI app in this process, without a socket."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roost.platform.auth import caller_of


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None


async def ask(
    app: ASGIApp, path: str, headers: Mapping[str, str] | None = None, *, method: str = "GET", body: bytes = b""
) -> Answer:
    """The app's answer; header names are sent as a server hands them on, in lower case."""
    path, _, query = path.partition("?")
    sent_headers = ({"content-type": "application/json"} if body else {}) | dict(headers or {})
    raw = [(name.lower().encode(), value.encode()) for name, value in sent_headers.items()]
    scope: Scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "root_path": "", "query_string": query.encode(), "headers": raw,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    text = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], answered, msgspec.json.decode(text) if text else None)


async def send_raw(
    app: ASGIApp,
    method: str,
    target: bytes,
    headers: Sequence[tuple[bytes, bytes]] = (),
    body: Sequence[bytes] = (b"",),
) -> Answer:
    """The app's answer to any bytes whatever: a percent-encoded path, perhaps with a query; the chunks of a body.

    What is not JSON is answered as text.
    """
    path, _, query = target.partition(b"?")
    scope: Scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace"), "raw_path": path, "root_path": "",
        "query_string": query, "headers": [(name.lower(), value) for name, value in headers],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    left, sent = list(body), list[Message]()

    async def receive() -> Message:
        chunk = left.pop(0) if left else b""
        return {"type": "http.request", "body": chunk, "more_body": bool(left)}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    answered = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    text = b"".join(message.get("body", b"") for message in sent[1:])
    if text and answered.get("content-type") == "application/json":
        return Answer(sent[0]["status"], answered, msgspec.json.decode(text))
    return Answer(sent[0]["status"], answered, text.decode() or None)


async def say_who(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that answers with its caller; OPTIONS it does not know, as Roost's APIs."""
    status = 405 if Request(scope).method == "OPTIONS" else 200
    await Response(msgspec.json.encode(caller_of(scope)), status)(scope, receive, send)
