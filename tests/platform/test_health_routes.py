"""`/healthz`, `/readyz`, and `/healthcheck` beside oslo.middleware's own; a drain; and what systemd hears."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
import webob
from oslo_middleware.healthcheck import Healthcheck
from starlette.applications import Starlette
from starlette.responses import Response
from tests.platform.asgi import ask, send_raw

from roost.platform.drain import Drain
from roost.platform.health_routes import health_routes
from roost.platform.systemd import notify


class Looked:
    """A database that was looked at."""

    def __init__(self, fault: str | None) -> None:
        self.fault = fault

    async def find_fault(self) -> str | None:
        return self.fault

    find_hindrance = find_fault


def listener(*, fault: str | None = None, draining: bool = False, can_serve: bool = False) -> Starlette:
    health: Any = Looked(fault)
    drain = Drain()
    drain.begun = draining
    return Starlette(routes=health_routes(health, drain, can_serve=lambda: can_serve))


@pytest.mark.parametrize(
    ("fault", "draining", "healthz", "readyz"),
    [(None, False, 200, 200), (None, True, 200, 503), ("gone", False, 503, 503), ("gone", True, 503, 503)],
)
async def test_readyz_is_healthz_and_no_drain(fault: str | None, draining: bool, healthz: int, readyz: int) -> None:
    app = listener(fault=fault, draining=draining)
    assert (await ask(app, "/healthz")).status == healthz
    assert (await ask(app, "/readyz")).status == readyz
    if readyz == 503:
        answer = await ask(app, "/readyz")
        assert answer.body["status"] == ("draining" if draining else "unavailable")
        assert answer.body["reason"]


@pytest.mark.parametrize(
    ("path", "draining", "status"),
    [
        ("/readyz", False, 200),
        ("/healthcheck", False, 200),
        ("/readyz?database", False, 503),
        ("/healthz", False, 503),
        ("/readyz", True, 503),
    ],
)
async def test_who_can_serve_without_the_database_is_ready(path: str, draining: bool, status: int) -> None:
    app = listener(fault="gone", draining=draining, can_serve=True)
    assert (await send_raw(app, "GET", path.encode())).status == status


async def test_one_that_is_ready_says_what_operators_should_know() -> None:
    async def tell() -> str | None:
        return notes.pop()

    health: Any = Looked(None)
    notes = ["hosts are waited for", None]
    app = Starlette(routes=health_routes(health, Drain(), tell))
    bodies = [(await ask(app, "/readyz")).body for _ in range(2)]
    assert bodies == [{"status": "ok"}, {"status": "ok", "note": "hosts are waited for"}]


@pytest.mark.parametrize("healthy", [True, False])
@pytest.mark.parametrize(("method", "accept"), [("GET", "*/*"), ("GET", "application/json"), ("HEAD", "*/*")])
async def test_healthcheck_is_oslo_middlewares(tmp_path: Path, healthy: bool, method: str, accept: str) -> None:
    disabled = tmp_path / "disabled"
    if not healthy:
        disabled.touch()
    upstream = Healthcheck(None, {"backends": "disable_by_file", "disable_by_file_path": str(disabled)})
    request = webob.Request.blank("/healthcheck", method=method, headers={"Accept": accept})
    theirs = request.get_response(upstream)
    app = listener(fault=None if healthy else "DISABLED BY FILE")
    ours = await send_raw(app, method, b"/healthcheck", [(b"Accept", accept.encode())])
    assert ours.status == theirs.status_int
    if method == "GET":
        assert ours.headers["content-type"].partition(";")[0] == theirs.content_type
        assert ours.body == (theirs.json if accept == "application/json" else theirs.text)


async def test_answers_close_their_connections_once_the_drain_has_begun() -> None:
    drain = Drain()
    app = drain.layer(Response("x"))
    assert "connection" not in (await send_raw(app, "GET", b"/")).headers
    await drain.hold(0, asyncio.Event())
    assert (await send_raw(app, "GET", b"/")).headers["connection"] == "close"


async def test_a_drain_ends_when_somebody_is_in_a_hurry() -> None:
    hurried = asyncio.Event()
    hurried.set()
    await asyncio.wait_for(Drain().hold(3600, hurried), 30)


@pytest.mark.parametrize("abstract", [True, False])
def test_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    address = f"@roost-{tmp_path.name}-{id(tmp_path)}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address.replace("@", "\0"))
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify("READY=1")
        systemd.settimeout(10)
        assert systemd.recv(100) == b"READY=1"
    notify("STOPPING=1")  # nobody listens any more
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")
