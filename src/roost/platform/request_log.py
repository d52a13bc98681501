"""Writes one line for each request: who asked for what, what it was answered, how long that took, and why not.

The line has the request's own and its global id (request_ids.py binds them). A path is written as it was sent, without
the values of parameters that may be secrets. What watches over a process is only written when it fails.
"""

import re
import time
from collections.abc import Awaitable, Mapping
from typing import Any
from urllib.parse import quote

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roost.platform.auth import CALLER_KEY, Caller
from roost.platform.oslo_lines import REQUEST_EVENT
from roost.platform.settings import LogSettings
from roost.platform.time_spent import count_phases

NOTES_KEY = "roost.notes"
"""Where a request's scope holds what its line is to say besides; the same dict in every copy of the scope."""
QUIET_PATHS = frozenset({"/healthz", "/readyz", "/healthcheck", "/metrics", "/metrics/openstack"})
PATH_MAX, REASON_MAX = 2_000, 1_000
SECRET = re.compile("token|passw|secret|credential|signature", re.IGNORECASE)
"""In the name of a parameter. No more is looked for: strangers write what is looked through."""
HARMLESS = re.compile(rb"[\w/%:@!$&'()*+,;=~.?\[\]-]*")
LEFT = 499
"""The status of a request whose client left before the answer began, as nginx has it."""

log = structlog.get_logger()


def note_reason(scope: Scope, reason: str) -> None:
    """Add to the request's line why it was refused, without the body that jsonschema repeats."""
    reason = reason.partition("Failed validating")[0].rstrip()
    notes: dict[str, Any] | None = scope.get(NOTES_KEY)
    if notes is not None:
        notes["reason"] = reason if len(reason) <= REASON_MAX else f"{reason[:REASON_MAX]} ..."


class RequestLog:
    """A layer below RequestIds. quiet: only what fails is written, as for agents, which poll all the time."""

    def __init__(self, app: ASGIApp, settings: LogSettings, *, quiet: bool = False) -> None:
        self.app = app
        self.slow_request_s = settings.slow_request_s
        self.quiet = quiet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and write its line when it is over."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun_s = time.perf_counter()
        notes: dict[str, Any] = {}
        scope[NOTES_KEY] = notes
        answer: dict[str, Any] = {"status": LEFT, "bytes": 0, "microversion": ""}

        def counted(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                answer["status"] = message["status"]
                answer["microversion"] = _microversion(message)
            else:
                answer["bytes"] += len(message.get("body", b""))
            return send(message)

        with count_phases() as phases:
            try:
                await self.app(scope, receive, counted)
            finally:
                self._write(scope, answer, notes, time.perf_counter() - begun_s, phases)

    def _write(
        self, scope: Scope, answer: dict[str, Any], notes: dict[str, Any], seconds: float, phases: Mapping[str, float]
    ) -> None:
        status = answer["status"]
        quiet = self.quiet or scope["path"] in QUIET_PATHS
        if quiet and status < 400:
            return
        is_slow = seconds >= self.slow_request_s and not quiet
        write = log.warning if is_slow or status >= 500 else log.info
        client = scope.get("client")
        write(
            REQUEST_EVENT,
            client=client[0] if client else "-",
            method=scope["method"],
            path=path_without_secrets(scope),
            status=status,
            bytes=answer["bytes"],
            ms=_ms(seconds),
            microversion=answer["microversion"],
            **_identity(scope.get(CALLER_KEY)),
            **({"slow": True} | {f"{name}_ms": _ms(spent_s) for name, spent_s in phases.items()} if is_slow else {}),
            **notes,
        )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def path_without_secrets(scope: Scope) -> str:
    """Return the path and the query as they were sent, in ASCII; what may be a secret in the query is `***`."""
    sent: bytes = scope.get("raw_path") or scope["path"].encode()
    path, query = _in_ascii(sent.partition(b"?")[0]), _in_ascii(scope.get("query_string", b"")[: PATH_MAX + 1])
    if SECRET.search(query):
        query = "".join(map(_without_secret, re.split("([&;])", query)))
    text = f"{path}?{query}" if query else path
    return text if len(text) <= PATH_MAX else f"{text[:PATH_MAX]}..."


def _without_secret(part: str) -> str:
    """Return a parameter with `***` for all that comes after a name that is one of secrets."""
    *names, _value = part.split("=")
    for number, name in enumerate(names, 1):
        if SECRET.search(name):
            return "=".join([*names[:number], "***"])
    return part


def _in_ascii(sent: bytes) -> str:
    """Return what clients send as it is; anything else, such as a line feed, is percent-encoded."""
    return sent.decode("ascii") if HARMLESS.fullmatch(sent) else quote(sent, safe="/%:@!$&'()*+,;=~-._?[]")


def _identity(caller: Caller | None) -> dict[str, str]:
    """Return what is known of the caller, in oslo.context's words."""
    if caller is None:
        return {}
    known = {
        "user": caller.user_id,
        "project": caller.project_id,
        "domain": caller.domain_id,
        "system_scope": caller.system_scope,
        "user_domain": caller.user_domain_id,
        "project_domain": caller.project_domain_id,
    }
    return {name: value for name, value in known.items() if value}


def _microversion(message: Message) -> str:
    """Return the one that answered, as its header says: `1.36`; "" where the API has none."""
    for name, value in message.get("headers", ()):
        if name == b"openstack-api-version":
            return str(value.decode("latin-1").rpartition(" ")[2])
    return ""
