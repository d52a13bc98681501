"""Which Placement a test's Roost uses: TEST_PLACEMENT=local (the ledger next door), http, or upstream.

http: Roost's own Placement API on the test's ledger, behind a real socket. upstream: `openstack-placement` in a process
of its own, on an empty SQLite database; its state is copied into the test's ledger before records are compared.
"""

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, cast

from aiohttp import web
from tests.cli.upstream import upstream_running

from roost.cli.managing.placement_source import Source, read_placement
from roost.clients.local_placement import LocalPlacement
from roost.clients.placement import RemotePlacement
from roost.placement import api as placement_api
from roost.placement.service.imports import import_ledger
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.auth import Unrestricted
from roost.platform.database import Database
from roost.platform.settings import PlacementClientSettings
from roost.seams.audit import AuditedPlacement

Arrangement = Literal["local", "http", "upstream"]
ARRANGEMENT = cast("Arrangement", os.environ.get("TEST_PLACEMENT", "local"))
assert ARRANGEMENT in ("local", "http", "upstream"), f"TEST_PLACEMENT={ARRANGEMENT}: expected local, http or upstream"
ADMIN_TOKEN = "admin"
"""Of upstream's `noauth2`."""

_ENDS = contextlib.AsyncExitStack()
"""What the fixture `database` ends after its test."""

_upstream_urls: dict[int, str] = {}
"""By the database of a test: where its upstream Placement is."""


async def open_placement(ledger: Ledger, arrangement: Arrangement = ARRANGEMENT) -> AuditedPlacement:
    """The ledger as the services of a test know it, until the test is over."""
    if arrangement == "local":
        return LocalPlacement(ledger)
    settings = await _ENDS.enter_async_context(_service(ledger, arrangement))
    placement = RemotePlacement.connect(settings)
    _ENDS.push_async_callback(placement.close)
    return placement


async def close_placements() -> None:
    """End what the test that is over opened."""
    await _ENDS.aclose()


@asynccontextmanager
async def _service(ledger: Ledger, arrangement: Arrangement) -> AsyncIterator[PlacementClientSettings]:
    if arrangement == "http":
        async with serving(asgi_app(ledger)) as url:
            yield PlacementClientSettings(url=url, timeout_s=20)
        return
    with tempfile.TemporaryDirectory(prefix="roost-upstream-") as directory, upstream_running(Path(directory)) as up:
        _upstream_urls[id(ledger.database)] = up.url
        try:
            yield PlacementClientSettings(url=up.url, token=ADMIN_TOKEN, timeout_s=60)
        finally:
            del _upstream_urls[id(ledger.database)]


async def copy_records(database: Database, url: str = "") -> None:
    """Have the ledger of this database say what the Placement says that its test uses instead; nothing without one."""
    url = url or _upstream_urls.get(id(database), "")
    if not url:
        return
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    async with Source.connect(url, token=ADMIN_TOKEN) as source:
        read = await read_placement(source, lambda *_: None)
    await import_ledger(ledger, read.state, delete=True, overwrite=True)


def asgi_app(ledger: Ledger) -> Any:
    """Roost's Placement API on a ledger."""
    from starlette.applications import Starlette

    return Starlette(routes=placement_api.routes(ledger, Unrestricted()))


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """An ASGI application behind a socket of 127.0.0.1, in this very process; yields its address."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        body, sent = await request.read(), []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method,
            "scheme": "http", "path": request.path, "raw_path": request.rel_url.raw_path.encode(),
            "query_string": request.rel_url.raw_query_string.encode(), "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.raw_headers],
            "server": ("127.0.0.1", 0), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        await app(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return web.Response(status=sent[0]["status"], body=content, headers=headers)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
