"""What a measured stretch costs each thing that it does: CPU by process, transactions, statements, WAL and fsyncs.

PostgreSQL counts: statements in pg_stat_statements, which its `shared_preload_libraries` must name, the others in its
own views. Sessions tell those views of their last transactions late, at the latest when they end.
"""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

PRELOADED = {"shared_preload_libraries": "pg_stat_statements"}
WATCHER = "watcher"
"""Whose statements are the benchmark's own and not counted."""
STILL_S = 10.5
"""A session that is idle so long has told all. Source: PostgreSQL 18, PGSTAT_IDLE_INTERVAL."""
ENDED_MS = 5000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
NUMBERED = re.compile(r"([a-z-]+)-\d+$")
NAME = re.compile(r"-- ([a-z_.]+)")

GET_COUNTS = """-- benchmarks.get_counts
SELECT xact_commit + xact_rollback
           - (SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE dbid = datid AND userid = $2::text::regrole)
           AS transactions,
       (SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE dbid = datid AND userid <> $2::text::regrole)
           AS statements,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') AS wal_bytes,
       (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal') AS fsyncs
FROM pg_stat_database WHERE datname = $1
"""
LIST_STATEMENTS = """-- benchmarks.list_statements
SELECT query, sum(calls)::bigint FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1) AND userid <> $2::text::regrole GROUP BY query
"""
END_SESSIONS = """-- benchmarks.end_sessions
SELECT pg_terminate_backend(pid, $2) FROM pg_stat_activity WHERE datname = $1
"""
FIGURES = ("cpu_ms", "transactions", "statements", "wal_bytes", "fsyncs")
"""What two versions are compared by."""


@dataclass
class Stretch:
    """What a measured stretch took, filled when its block ends; all but `seconds` for each thing that was done.

    cpu: milliseconds by process. statements_by_name: the first words of the statement, or the name that it begins with.
    """

    thing: str
    seconds: float = 0.0
    cpu: Mapping[str, float] = field(default_factory=dict)
    transactions: float = 0.0
    statements: float = 0.0
    wal_bytes: float = 0.0
    fsyncs: float = 0.0
    statements_by_name: Mapping[str, float] = field(default_factory=dict)

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of CPU of all processes."""
        return sum(self.cpu.values())


@dataclass(frozen=True)
class Meter:
    """Measures stretches of a Roost. processes: by process id, the name under which its CPU is counted.

    socket_dir: where its PostgreSQL listens, whose processes are counted with them.
    """

    socket_dir: Path
    processes: Callable[[], dict[int, str]]

    @asynccontextmanager
    async def stretch(self, amount: int, thing: str) -> AsyncIterator[Stretch]:
        """Measure the block, which does `amount` things. Every session of the database is ended afterwards."""
        stretch = Stretch(thing)
        async with self.watch("postgres") as connection:
            await asyncio.sleep(STILL_S)
            counts, names = await _counts(connection), await _statements(connection)
            cpu, started = self._cpu(), time.perf_counter()
            yield stretch
            stretch.seconds = time.perf_counter() - started
            stretch.cpu = _each(cpu, self._cpu(), amount / 1000)
            grown = _each(names, await _statements(connection), amount)
            stretch.statements_by_name = {name: count for name, count in grown.items() if count}
            await connection.fetch(END_SESSIONS, "roost", ENDED_MS)
            for name, value in _each(counts, await _counts(connection), amount).items():
                setattr(stretch, name, value)

    @asynccontextmanager
    async def watch(self, database: str = "roost") -> AsyncIterator[Any]:
        """Yield a connection whose statements are not counted."""
        connection = await asyncpg.connect(host=str(self.socket_dir), user=WATCHER, database=database)
        try:
            yield connection
        finally:
            with contextlib.suppress(asyncpg.PostgresError, OSError):  # a stretch has ended it
                await connection.close()

    def _cpu(self) -> dict[str, float]:
        used: dict[str, float] = {}
        for pid, name in (self.processes() | family_of(postmaster_of(self.socket_dir), "postgres")).items():
            used[name] = used.get(name, 0.0) + cpu_s(pid)
        return used


async def prepare(socket_dir: Path) -> None:
    """Have a PostgreSQL count statements for a watcher, who is known apart."""
    connection = await asyncpg.connect(host=str(socket_dir), user="roost", database="postgres")
    await connection.execute(f"CREATE ROLE {WATCHER} SUPERUSER LOGIN; CREATE EXTENSION pg_stat_statements")
    await connection.close()


def socket_dir_of(data_dir: Path) -> Path:
    """Return where the PostgreSQL of a data directory listens. Source: PostgreSQL, the fifth line of postmaster.pid."""
    return Path((data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[4])


def postmaster_of(socket_dir: Path) -> int:
    """Return the process id of the PostgreSQL that listens there."""
    return int((socket_dir / ".s.PGSQL.5432.lock").read_text().splitlines()[0])


def family_of(root: int, name: str) -> dict[int, str]:
    """Return the process and all that descend from it, by process id, each with that name."""
    parents = {pid: int(fields[1]) for pid, fields in _stats()}
    family: dict[int, str] = {}
    more = {root} & parents.keys()
    while more:
        family |= dict.fromkeys(more, name)
        more = {pid for pid, parent in parents.items() if parent in more}
    return family


def processes_of(supervisor: int) -> dict[int, str]:
    """Return the processes of a `roost serve`, by process id, with what each is: api, conductor, …"""
    return {pid: _role(pid) or "other" for pid in family_of(supervisor, "")}


def cpu_s(pid: int) -> float:
    """Return the CPU that a process and those of its children that have ended have used. Source: proc(5), stat."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_PER_S


def _role(pid: int) -> str:
    if match := NUMBERED.fullmatch(_read(f"/proc/{pid}/comm").strip()):
        return match[1]
    words = _read(f"/proc/{pid}/cmdline").split("\0")  # before processes had names
    return words[words.index("roost.cli.process") + 1] if "roost.cli.process" in words else ""


def _stats() -> list[tuple[int, list[str]]]:
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    stats = [(pid, _read(f"/proc/{pid}/stat").rpartition(")")[2].split()) for pid in pids]
    return [(pid, fields) for pid, fields in stats if fields]


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # the process has ended
        return ""


async def _counts(connection: Any) -> dict[str, float]:
    return {name: float(value) for name, value in (await connection.fetchrow(GET_COUNTS, "roost", WATCHER)).items()}


async def _statements(connection: Any) -> dict[str, float]:
    calls: dict[str, float] = {}
    for query, count in await connection.fetch(LIST_STATEMENTS, "roost", WATCHER):
        match = NAME.match(query)
        name = match[1] if match else " ".join(query.split())[:60]
        calls[name] = calls.get(name, 0.0) + count
    return calls


def _each(before: Mapping[str, float], after: Mapping[str, float], amount: float) -> dict[str, float]:
    return {name: (value - before.get(name, 0.0)) / amount for name, value in after.items()}
