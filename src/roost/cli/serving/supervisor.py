"""`roost serve`: holds the private PostgreSQL, and keeps one child process for each role and worker alive.

Children do the work (process.py), forks of one process (fork_server.py). The supervisor has them started, those that
die again with a growing pause, starts a killed PostgreSQL again, and stops everything in order. It serves nothing
itself, so that it never fails with them, and imports little, so that it is there at once.
"""

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from roost.cli.managing.ledger_target import LedgerTarget, connect
from roost.cli.serving.fork_server import ForkedProcess, ForkServer
from roost.cli.serving.process_counts import choose_pool_size, choose_workers, count_connections, count_cores
from roost.cli.serving.roles import PRESETS, SCHEMAS, ProcessConfig, Serving, is_placement_alone
from roost.cli.settings import Settings, read_settings
from roost.platform.errors import RoostError
from roost.platform.logs import set_level
from roost.platform.loopback import is_loopback
from roost.platform.migrate import bring_up_to_date
from roost.platform.postgres import PostgresError, PrivatePostgres
from roost.platform.systemd import notify
from roost.platform.tls import ListenerTls, unverified_context

READY_TIMEOUT_S = 60.0
READY_CHECK_S = 0.01
ANSWER_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 6.0
POSTMASTER_CHECK_S = 0.5
PAUSE_FIRST_S, PAUSE_MAX_S = 0.1, 5.0
SETTLED_S = 10.0
DEATHS_BEFORE_READY_MAX = 5

log = structlog.get_logger()


class ServeError(RoostError):
    """Roost cannot be served."""


class ServeOptions(Serving, frozen=True, kw_only=True):
    """What `roost serve` is asked for.

    port, agent_port: 0 takes a free one. listens: False for a conductor alone, which answers nobody. workers,
    agent_workers, conductors: processes of each role; workers 0: as process_counts.py says. beside: an older release
    goes on with the same database.
    """

    target: LedgerTarget
    pg_template: Path | None
    workers: int
    conductors: int
    agent_workers: int
    listens: bool
    beside: bool


Opening = asyncio.Task[str]
"""Starts the database, if it is a private one, and migrates it; its result is the address where children connect."""


@dataclass
class Child:
    """One child process and how often it died. config: without the database's address, until that is known."""

    config: ProcessConfig
    process: ForkedProcess | None = None
    deaths: int = 0
    started_at_s: float = field(default_factory=time.monotonic)
    stop_timeout_s: float = STOP_TIMEOUT_S


async def serve(options: ServeOptions, *, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is called once, with the address, when everything answers.

    SIGHUP has certificates, policy and the log's level read again, or ends this when its terminal is gone. At the end
    the listeners drain ([listeners] drain_s), unless a second signal comes.
    Raises BadRequest for the configuration, ServeError, PostgresError: the sentence says what to change.
    """
    stopping = asyncio.Event()
    children: list[Child] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, children, stopping)
    hear = partial(_hear_hangup, at_terminal=os.isatty(0))
    loop.add_signal_handler(signal.SIGHUP, hear, children, options, stopping)
    settings = _check_settings(options)
    if settings.placement_client.url:
        from roost.cli.serving.placement_check import check_placement  # an HTTP client takes long to import

        await check_placement(settings, options.services)
    _check_listeners(options)
    await _check_credentials(options)
    with contextlib.ExitStack() as stack:
        ports = _hold_ports(stack, options)
        metrics_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="roost-metrics-"))
        connections = await count_connections(options.target)
        children += [Child(config) for config in _configs(options, ports, metrics_dir, connections)]
        for child in children:
            child.stop_timeout_s += settings.listeners.drain_s
        async with _database(options) as (opening, postgres):
            fork_server = ForkServer(options.services)
            await _supervise(children, fork_server, opening, postgres, stopping, ready)


def _end(children: Sequence[Child], stopping: asyncio.Event) -> None:
    """Begin to stop; the second time, end the children's drains."""
    if stopping.is_set():
        for child in children:
            if child.process is not None:
                child.process.send_signal(signal.SIGTERM)
    stopping.set()


def _hear_hangup(
    children: Sequence[Child], options: ServeOptions, stopping: asyncio.Event, *, at_terminal: bool
) -> None:
    """Read again what may change; end where the terminal in which this began was closed."""
    if at_terminal and not os.isatty(0):
        _end(children, stopping)
    else:
        _read_again(children, options)


def _read_again(children: Sequence[Child], options: ServeOptions) -> None:
    """Have the children read again what may change, if it can be used; nobody ends, and what is in flight goes on."""
    try:
        settings = _check_settings(options)
        _check_listeners(options)
    except RoostError as error:
        log.error("nothing is read again: the configuration cannot be used", reason=str(error))
        return
    level = options.log_level or settings.log.level
    set_level(level)
    for child in children:
        child.config = msgspec.structs.replace(
            child.config, log=msgspec.structs.replace(child.config.log, level=level)
        )  # of the next one, if it dies
        if child.process is not None:
            child.process.send_signal(signal.SIGHUP)
    log.info("certificates, policy and the log's level are read again", level=level)


def _check_settings(options: ServeOptions) -> Settings:
    """Return what the children will read, so that a mistake ends this with one sentence. Raises BadRequest."""
    settings = read_settings(options.config, placement_url=options.placement_url)
    settings.metrics.read_token()
    if options.auth != "none" and options.policy not in PRESETS and (options.policy or settings.placement.policy_file):
        from roost.cli.serving.access import read_policy  # oslo.policy, which only a file that may be wrong is worth

        for service in ("placement",) if is_placement_alone(options.services) else SCHEMAS:
            read_policy(service, settings, auth=options.auth, policy=options.policy)
    if options.auth == "keystone":
        settings.keystone.check()
    if options.with_neutron:
        from roost.cli.serving.neutron import check_with_neutron

        check_with_neutron(settings, options.services)
    if options.auth == "noauth2":
        log.warning("--auth noauth2 believes whatever a client says of itself: it is for tests only")
    return settings


def _check_listeners(options: ServeOptions) -> None:
    """Raise BadRequest for TLS files that cannot be used; warn of a listener that its callers do not reach."""
    if options.tls is not None:
        options.tls.check()
    if "compute" in options.services and is_loopback(options.agent_host) and not is_loopback(options.host):
        log.warning("only agents of this machine reach their listener: --agent-listen gives it another address")


async def _check_credentials(options: ServeOptions) -> None:
    """Raise CredentialsMissing, BadRequest where the conductors could not work with the network service they must."""
    settings = read_settings(options.config).network
    if settings.url and "conductor" in options.services:
        from roost.cli.network_access import require_credentials

        await require_credentials(settings, os.environ)


@contextlib.asynccontextmanager
async def _database(options: ServeOptions) -> AsyncIterator[tuple[Opening, PrivatePostgres | None]]:
    """Yield the opening of the database, which is always brought to its end."""
    postgres = None
    target = options.target
    if target.data_dir is not None:
        postgres = PrivatePostgres(target.data_dir, pg_bin=target.pg_bin, template=options.pg_template)
    opening = asyncio.create_task(_open_database(options, postgres))
    try:
        yield opening, postgres
    finally:
        await asyncio.wait([opening])
        if postgres is not None:
            await asyncio.to_thread(postgres.stop)


async def _open_database(options: ServeOptions, postgres: PrivatePostgres | None) -> str:
    dsn = options.target.database
    if postgres is not None:
        await asyncio.to_thread(postgres.start)
        dsn = postgres.dsn
    assert dsn is not None
    schemas = ("placement",) if is_placement_alone(options.services) else SCHEMAS
    async with connect(dsn) as database:  # so that no migration begins that could not end
        await bring_up_to_date(database, schemas, contract=not options.beside)
    return dsn


def _hold_ports(stack: contextlib.ExitStack, options: ServeOptions) -> dict[str, int]:
    """Keep the port of each listener, as Serving names them; 0 where there is none. Raises ServeError."""
    ports = {"port": 0, "agent_port": 0, "metrics_port": 0}
    if options.listens:
        ports["port"] = _hold_port(stack, options.host, options.port, option="--listen")
    if "compute" in options.services:
        ports["agent_port"] = _hold_port(stack, options.agent_host, options.agent_port, option="--agent-listen")
    if host := options.metrics_host:
        ports["metrics_port"] = _hold_port(stack, host, options.metrics_port, option="--metrics-listen")
        log.info("the metrics have a listener", host=host, port=ports["metrics_port"])
    return ports


def _hold_port(stack: contextlib.ExitStack, host: str, port: int, *, option: str) -> int:
    """Keep a port for the children, who share it, for as long as this runs; 0 takes a free one. Raises ServeError."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as alone:  # refused if any process listens there
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind((host, port))
        shared = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind((host, port))
    except OSError as error:
        advice = f"; {option} names another address or port"
        raise ServeError(f"cannot listen on {host}:{port}: {error.strerror or error}{advice}") from error
    return int(shared.getsockname()[1])


def _configs(options: ServeOptions, ports: dict[str, int], metrics_dir: str, connections: int) -> list[ProcessConfig]:
    """Return what each child does, the API's first, which serves the metrics. connections: that the database allows."""
    roles: list[tuple[str, int]] = []
    if "compute" in options.services:
        roles += [("agent-api", number) for number in range(1, options.agent_workers + 1)]
    if "conductor" in options.services:
        roles += [("conductor", number) for number in range(1, options.conductors + 1)]
    elif "network" in options.services:
        roles.append(("reconciler", 1))
    if options.listens:
        cores = count_cores()
        workers = options.workers or choose_workers(cores=cores, connections=connections, others=len(roles))
        roles = [*(("api", number) for number in range(1, workers + 1)), *roles]
    pool_size = choose_pool_size(connections=connections, processes=len(roles))
    serving = {name: getattr(options, name) for name in Serving.__struct_fields__}
    serving |= ports | {"dsn": "", "pool_size": pool_size, "metrics_dir": metrics_dir}
    configs = [ProcessConfig(**serving, role=role, number=number) for role, number in roles]
    return [configs[0], *(msgspec.structs.replace(config, metrics_host="") for config in configs[1:])]


async def _supervise(
    children: Sequence[Child],
    fork_server: ForkServer,
    opening: Opening,
    postgres: PrivatePostgres | None,
    stopping: asyncio.Event,
    ready: Callable[[str], None],
) -> None:
    """Run the children until `stopping` is set; raises ServeError, or what opening the database raised."""
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    all_ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_keep_alive(child, fork_server, opening, stopping, all_ready, failed))
            for child in children
        ]
        if postgres:
            tasks.append(group.create_task(_keep_postgres(postgres, opening, stopping)))
        stop = asyncio.create_task(stopping.wait())
        come_up = asyncio.create_task(_wait_until_ready(children, opening))
        ends: tuple[asyncio.Future[Any], ...] = (come_up, stop, failed)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if come_up.done() and not stopping.is_set() and not failed.done():
                address = come_up.result()
                all_ready.set()
                notify("READY=1")
                ready(address)
                await stop
        except RoostError as error:
            if not failed.done():
                failed.set_exception(error)
        finally:
            stopping.set()
            notify("STOPPING=1")
            for end in (stop, come_up):
                end.cancel()
            await asyncio.gather(*(_stop(child) for child in children))
            for task in tasks:
                task.cancel()
            await fork_server.close()
    if failed.done():
        failed.result()
    failed.cancel()


async def _keep_alive(
    child: Child,
    fork_server: ForkServer,
    opening: Opening,
    stopping: asyncio.Event,
    all_ready: asyncio.Event,
    failed: "asyncio.Future[None]",
) -> None:
    """Start a child whenever it is not there; one that dies over and over before all are ready ends everything."""
    pause_s = PAUSE_FIRST_S
    while not stopping.is_set():
        child.started_at_s = time.monotonic()
        child.process = await fork_server.fork(child.config.name)
        if not await _is_open(opening):
            return
        config = msgspec.structs.replace(child.config, dsn=opening.result(), restarted=child.deaths > 0)
        await _tell(child.process, config)
        status = await child.process.wait()
        if stopping.is_set():
            return
        child.deaths += 1
        log.error("process died", child=child.config.name, pid=child.process.pid, status=status, deaths=child.deaths)
        if not all_ready.is_set() and child.deaths >= DEATHS_BEFORE_READY_MAX and not failed.done():
            text = f"the {child.config.name} process died {child.deaths} times while starting; the log has the reason"
            failed.set_exception(ServeError(text))
            return
        if time.monotonic() - child.started_at_s > SETTLED_S:
            pause_s = PAUSE_FIRST_S
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, PAUSE_MAX_S)


async def _is_open(opening: Opening) -> bool:
    """Return whether there is a database, once that is known."""
    await asyncio.wait([opening])
    return not opening.cancelled() and opening.exception() is None


async def _tell(process: ForkedProcess, config: ProcessConfig) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is dead already, and will be waited for
        process.stdin.write(msgspec.json.encode(config) + b"\n")
        await process.stdin.drain()


async def _stop(child: Child) -> None:
    """Stop a child: by SIGTERM, then by SIGKILL."""
    process = child.process
    if process is None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), child.stop_timeout_s)
    except TimeoutError:
        log.error("process does not stop and is killed", child=child.config.name, pid=process.pid)
        process.send_signal(signal.SIGKILL)
        await process.wait()


async def _keep_postgres(postgres: PrivatePostgres, opening: Opening, stopping: asyncio.Event) -> None:
    while await _is_open(opening) and not stopping.is_set():
        await asyncio.sleep(POSTMASTER_CHECK_S)
        if postgres.is_running():
            continue
        log.error("PostgreSQL is gone and is started again", data_dir=str(postgres.data_dir))
        try:
            await asyncio.to_thread(postgres.ensure_running)
        except PostgresError as error:
            log.error("PostgreSQL does not start", error=str(error))


async def _wait_until_ready(children: Sequence[Child], opening: Opening) -> str:
    """Wait until every listener answers 200; returns the main one's address, "" without one.

    Raises ServeError, and what opening the database raised.
    """
    await asyncio.shield(opening)
    listeners = {}
    for child in children:
        config = child.config
        if config.role == "api":
            listeners["api"] = (_here(config.host), config.port, config.tls)
        if config.role == "agent-api":
            listeners["agent-api"] = (_here(config.agent_host), config.agent_port, config.tls)
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    for role, (host, port, tls) in listeners.items():
        asks_for_certificate = role == "agent-api" and tls is not None and tls.agent_ca is not None
        while not await _answers(host, port, tls, asks_for_certificate=asks_for_certificate):
            if time.monotonic() > deadline_s:
                raise ServeError(f"the {role} at {_url(host, port, tls)} did not answer within {READY_TIMEOUT_S:.0f} s")
            await asyncio.sleep(READY_CHECK_S)
    while any(child.process is None for child in children):
        await asyncio.sleep(READY_CHECK_S)
    return _url(*listeners["api"]) if "api" in listeners else ""


async def _answers(host: str, port: int, tls: ListenerTls | None, *, asks_for_certificate: bool) -> bool:
    """Return whether `GET /healthz` is answered 200. By hand: an HTTP client takes long to import.

    asks_for_certificate: the listener wants one that this process has not; that it says so is answer enough.
    """
    context = None if tls is None else unverified_context()
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                if asks_for_certificate:
                    return await reader.read(1) != b""
                writer.write(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        return asks_for_certificate and getattr(error, "reason", None) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"


def _here(host: str) -> str:
    """Return where this machine itself reaches a listener."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _url(host: str, port: int, tls: ListenerTls | None) -> str:
    scheme = "http" if tls is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
