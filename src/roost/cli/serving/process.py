"""The processes of `roost serve`, forks of `python -m roost.cli.serving.process SERVICE...` (fork_server.py).

That imports what its services need while the database starts. A fork reads its configuration from a line on its
standard input, waits for the database, wires its parts (wiring.py), and serves or works until SIGTERM. It ends at
once when its supervisor is gone: its standard input is a socket whose other end only the supervisor holds.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import structlog
import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server
from starlette.types import ASGIApp

from roost.cli.lifeline import end_with_stdin
from roost.cli.serving.crash_points import CRASH_POINTS
from roost.cli.serving.fork_server import fork_on_request
from roost.cli.serving.roles import ProcessConfig, is_placement_alone
from roost.cli.serving.wiring import Parts, agent_listener, background_tasks, main_listener, metrics_listener
from roost.cli.settings import read_settings
from roost.platform.connection_limits import ConnectionLimits, raise_descriptor_limit, reserve
from roost.platform.crash import check_crash_point, disarm_crash_point
from roost.platform.database import Database
from roost.platform.errors import DatabaseUnavailable
from roost.platform.logs import configure_logging
from roost.platform.loopback import is_loopback
from roost.platform.tls import ListenerTls

STOP_TIMEOUT_S = 4.0
DATABASE_RETRY_S = 0.2
METRICS_CONNECTIONS_MAX = 64
BACKLOG = 4096
"""Connections that wait to be accepted; the kernel may allow fewer (net.core.somaxconn)."""

log = structlog.get_logger()


async def run(config: ProcessConfig) -> None:
    """Run the configured role until SIGTERM. A listener then drains; a second SIGTERM ends that.

    Requests in flight at the end have STOP_TIMEOUT_S to finish.
    """
    stopping, hurried = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: (hurried if stopping.is_set() else stopping).set())
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # a terminal's, meant for the supervisor
    database = await _open_database(config, stopping)
    if database is None:
        return
    try:
        parts = await Parts.wire(database, config)
        try:
            await _run_parts(config, parts, stopping, hurried)
        finally:
            await parts.close()
    finally:
        await database.close()


async def _run_parts(config: ProcessConfig, parts: Parts, stopping: asyncio.Event, hurried: asyncio.Event) -> None:
    limits, server = _listener(config, parts) or (None, None)
    tasks = background_tasks(config, parts)
    if limits:
        tasks.append(limits.watch())
    if config.metrics_host:
        tasks.append(_metrics_server(config, parts).serve())
    async with asyncio.TaskGroup() as group:
        work = [group.create_task(_must_not_end(task)) for task in tasks]
        serving = group.create_task(server.serve()) if server else None
        if serving:
            serving.add_done_callback(lambda _task: stopping.set())
        await stopping.wait()
        if server and serving:
            if not serving.done():
                await parts.drain.hold(parts.settings.listeners.drain_s, hurried)
            server.stop()  # type: ignore[no-untyped-call]
            try:
                await asyncio.wait_for(serving, STOP_TIMEOUT_S)
            except TimeoutError:
                log.warning("requests were cut", timeout_s=STOP_TIMEOUT_S)
        for task in work:
            task.cancel()


async def _must_not_end(work: Coroutine[Any, Any, None]) -> None:
    """Raise RuntimeError when a background task returns: it is as dead as one that fails."""
    await work
    raise RuntimeError("a background task ended by itself")


async def _open_database(config: ProcessConfig, stopping: asyncio.Event) -> Database | None:
    """Connect, however long the database takes; None after SIGTERM."""
    lease_s = read_settings(config.config).conductor.lease_s
    warned = False
    while not stopping.is_set():
        try:
            return await Database.open(config.dsn, size=config.pool_size, lease_s=lease_s)
        except DatabaseUnavailable as error:
            if not warned:
                log.warning("waiting for the database", error=str(error))
                warned = True
            await asyncio.sleep(DATABASE_RETRY_S)
    return None


def _listener(config: ProcessConfig, parts: Parts) -> tuple[ConnectionLimits, Server] | None:
    """Return the listener of this role, None for one without. Processes of a role share one port (SO_REUSEPORT)."""
    if config.role == "api":
        app, host, port = main_listener(config, parts), config.host, config.port
    elif config.role == "agent-api":
        app, host, port = agent_listener(config, parts), config.agent_host, config.agent_port
    else:
        return None
    connections_max = raise_descriptor_limit(parts.settings.listeners)
    limits = ConnectionLimits(
        parts.drain.layer(app), parts.settings.listeners, port=port, connections_max=connections_max
    )
    connections_accepted = connections_max + reserve(connections_max)
    tls = _tls_options(config.tls, for_agents=config.role == "agent-api")
    return limits, _new_server(limits, host, port, parts, connections_max=connections_accepted, tls=tls)


def _metrics_server(config: ProcessConfig, parts: Parts) -> Server:
    """Return the listener of the metrics; it speaks TLS where others than this machine reach it."""
    host, port = config.metrics_host, config.metrics_port
    tls = _tls_options(None if is_loopback(host) else config.tls)
    app = metrics_listener(config, parts)
    return _new_server(app, host, port, parts, connections_max=METRICS_CONNECTIONS_MAX, tls=tls)


def _new_server(
    app: ASGIApp, host: str, port: int, parts: Parts, *, connections_max: int, tls: dict[str, Any]
) -> Server:
    """Return a listener. HTTP/1.1 alone: granian waits for ever for the first bytes of what may become HTTP/2."""
    idle_timeout_ms = int(parts.settings.listeners.idle_timeout_s * 1000)
    return Server(
        app,
        host,
        port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=idle_timeout_ms),
        websockets=False,
        log_enabled=False,
        backlog=BACKLOG,
        backpressure=connections_max,
        **tls,
    )


def _tls_options(tls: ListenerTls | None, *, for_agents: bool = False) -> dict[str, Any]:
    """Return granian's options for TLS; its own minimum, TLS 1.3, stays."""
    if tls is None:
        return {}
    options: dict[str, Any] = {"ssl_cert": Path(tls.cert), "ssl_key": Path(tls.key)}
    if for_agents and tls.agent_ca is not None:
        options |= {"ssl_ca": Path(tls.agent_ca), "ssl_client_verify": True}
    return options


def main() -> None:
    """Fork, and run one role in each fork. Exit status 0 after SIGTERM, 1 after a failure, which is logged."""
    if not is_placement_alone(sys.argv[1:]):
        import roost.cli.serving.cloud_wiring  # noqa: F401 - while the supervisor waits for the database
    fork_on_request()
    line = sys.stdin.buffer.readline()
    if not line:
        return  # the supervisor is gone
    config = msgspec.json.decode(line, type=ProcessConfig)
    if config.restarted:
        disarm_crash_point()
    check_crash_point(CRASH_POINTS)
    configure_logging(config.name, config.log)
    end_with_stdin(patience_s=STOP_TIMEOUT_S + 1)
    try:
        uvloop.run(run(config))
    except Exception:
        log.exception("the process failed")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
