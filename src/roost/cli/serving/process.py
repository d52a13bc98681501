"""The processes of `roost serve`, forks of `python -m roost.cli.serving.process SERVICE...` (fork_server.py).

That imports what its services need while the database starts. A fork reads its configuration from a line on its
standard input, waits for the database, wires its parts (wiring.py), and serves or works until SIGTERM. SIGHUP has it
read the certificates and the log's level again; it looks at a policy file by itself. It ends at once when its
supervisor is gone: its standard input is a socket whose other end only the supervisor holds.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec
import structlog
import uvloop

from roost.cli.lifeline import end_with_stdin
from roost.cli.serving.crash_points import CRASH_POINTS
from roost.cli.serving.fork_server import fork_on_request
from roost.cli.serving.listeners import Listener, list_listeners
from roost.cli.serving.roles import ProcessConfig, is_placement_alone
from roost.cli.serving.wiring import Parts, background_tasks
from roost.cli.settings import read_settings
from roost.platform.crash import check_crash_point, disarm_crash_point
from roost.platform.database import Database
from roost.platform.errors import BadRequest, DatabaseUnavailable
from roost.platform.logs import configure_logging, set_level

STOP_TIMEOUT_S = 4.0
DATABASE_RETRY_S = 0.2

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
    listeners = list_listeners(config, parts)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _read_again, config, listeners)
    watches = [listener.limits.watch() for listener in listeners if listener.limits]
    async with asyncio.TaskGroup() as group:
        work = [group.create_task(_must_not_end(task)) for task in (*background_tasks(config, parts), *watches)]
        serving = [group.create_task(listener.server.serve()) for listener in listeners]
        for task in serving:
            task.add_done_callback(lambda _task: stopping.set())
        await stopping.wait()
        if serving:
            if not any(task.done() for task in serving):
                await parts.drain.hold(parts.settings.listeners.drain_s, hurried)
            for listener in listeners:
                listener.server.stop()  # type: ignore[no-untyped-call]
            _, cut = await asyncio.wait(serving, timeout=STOP_TIMEOUT_S)
            if cut:
                log.warning("requests were cut", timeout_s=STOP_TIMEOUT_S)
            work += cut
        for task in work:
            task.cancel()


def _read_again(config: ProcessConfig, listeners: Sequence[Listener]) -> None:
    """Take up the log's level and the certificates as the files are now; the supervisor has checked them."""
    try:
        set_level(config.log_level or read_settings(config.config).log.level)
    except BadRequest as error:
        log.error("the configuration cannot be read again: the log's level stays", reason=str(error))
    for listener in listeners:
        listener.renew_certificates()


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
