"""Takes from a proxy's headers where clients came to, so that links lead there again, and where they came from. Off
unless an operator says so: without a proxy that sets these headers, any client could.

Source: oslo.middleware, http_proxy_to_wsgi; RFC 7239.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

SCHEMES = ("http", "https", "ws", "wss")
HOST = re.compile(r"[A-Za-z0-9._~\-\[\]:%]+")
PREFIX = re.compile(r"(/[A-Za-z0-9._~\-%]+)+")


class ProxyHeaders:
    """Inside of authentication, whose paths are those that the proxy asks for."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on as the client sent it to the proxy."""
        if scope["type"] == "http":
            scope = _as_sent(scope)
        await self.app(scope, receive, send)


class ProxyAddress:
    """Outside of authentication and of the log: a request is of the address that the proxy in front was asked from."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on as its client's. Of several addresses the last counts: others its client may make up."""
        if scope["type"] == "http" and (address := _last_address(Headers(scope=scope))):
            scope = {**scope, "client": (address, 0)}
        await self.app(scope, receive, send)


def _last_address(headers: Headers) -> str:
    """Return the address that the last proxy names; "" for none."""
    name = "forwarded" if "forwarded" in headers else "x-forwarded-for"
    text = ",".join(headers.getlist(name)).rpartition(",")[2].strip()
    if name == "forwarded":
        text = _read_forwarded(text).get("for", "")
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:  # IPv4 with its port
        text = text.partition(":")[0]
    try:
        return str(ip_address(text))
    except ValueError:
        return ""


def _as_sent(scope: Scope) -> Scope:
    """Return the scope with the scheme, host and prefix that the first proxy saw; what is malformed says nothing."""
    headers = Headers(scope=scope)
    forwarded = _read_forwarded(headers["forwarded"]) if "forwarded" in headers else _read_old_headers(headers)
    changes: dict[str, Any] = {}
    if forwarded.get("proto") in SCHEMES:
        changes["scheme"] = forwarded["proto"]
    if HOST.fullmatch(forwarded.get("host", "")):
        others = [(name, value) for name, value in scope["headers"] if name != b"host"]
        changes["headers"] = [*others, (b"host", forwarded["host"].encode())]
    prefix = headers.get("x-forwarded-prefix", "").rstrip("/")
    if PREFIX.fullmatch(prefix):
        changes["root_path"] = f"{prefix}{scope.get('root_path', '')}"
        changes["path"] = f"{prefix}{scope['path']}"
    return {**scope, **changes}


def _read_forwarded(text: str) -> Mapping[str, str]:
    """Return what the first of the proxies says, by RFC 7239."""
    pairs = (part.partition("=") for part in text.partition(",")[0].split(";"))
    return {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}


def _read_old_headers(headers: Headers) -> Mapping[str, str]:
    """Return the same from the headers that were there before; the first of several proxies counts."""
    return {name: headers.get(f"x-forwarded-{name}", "").partition(",")[0].strip() for name in ("proto", "host")}
