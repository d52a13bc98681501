"""A Roost of real processes for a row: all that is used of it is its commands, its APIs and its tables.

So the source of another commit runs as well, where PYTHONPATH names it.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any

import aiohttp

from benchmarks.costs import PRELOADED, Meter, prepare, processes_of, socket_dir_of
from benchmarks.disk import temporary_directory

ROOST, MANAGE = "roost.cli.main:main", "roost.cli.manage:main"
HEADERS = {"OpenStack-API-Version": "compute 2.41, placement 1.39"}
PATIENCE_S = 120.0
STOP_S = 30.0
LOOK_S = 0.02
COUNT_UNREADY = """-- benchmarks.count_unready
SELECT count(*) FROM compute.host WHERE published < wanted OR seen_at IS NULL
"""
Process = Any
"""A `subprocess.Popen`, or what tests start instead."""


def start(*arguments: str, stderr: IO[str], program: str = ROOST) -> Process:
    """Start one of Roost's programs, whose standard output is a pipe to here."""
    command = [sys.executable, "-c", f"import pkgutil; pkgutil.resolve_name({program!r})()", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)


class Roost:
    """Processes on one data directory; all that was started is ended by `close`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.url = ""
        self.supervisor = 0
        self._running: list[tuple[str, Process]] = []

    def spawn(self, name: str, *arguments: str, program: str = ROOST) -> Process:
        """Start a program, whose log is the file NAME.log."""
        with (self.directory / f"{name}.log").open("a") as log:
            process = start(*arguments, stderr=log, program=program)
        self._running.append((name, process))
        return process

    def run(self, name: str, *arguments: str, program: str = ROOST) -> int:
        """Run a program to its end and return its exit status."""
        process = self.spawn(name, *arguments, program=program)
        (self.directory / f"{name}.out").write_text(process.stdout.read())
        return int(process.wait(PATIENCE_S))

    def serve(self, *services: str, **options: int | str) -> None:
        """Have `roost serve` on a free port; up when this returns."""
        where: dict[str, int | str] = {} if "database" in options else {"data-dir": str(self.data_dir)}
        where["workers"] = 1
        words = [f"--{name}={value}" for name, value in (where | options).items()]
        process = self.spawn("serve", "serve", *services, "--json", "--listen=127.0.0.1:0", *words)
        line = process.stdout.readline()
        assert line, self.logs()
        self.url, self.supervisor = json.loads(line)["url"], process.pid

    def load(self, cloud: str) -> None:
        """Create what a cloud file's text names."""
        file = self.directory / "cloud.yaml"
        file.write_text(cloud)
        assert self.run("load", "load", str(file), f"--api={self.url}") == 0, self.logs()

    def agent(self, *options: str) -> None:
        """Have one agent for every declared host."""
        state = self.directory / "agent"
        self.spawn("agent", "agent", f"--api={self.url}", f"--state={state}", "--fleet=all", *options)

    def meter(self) -> Meter:
        """Return what measures this Roost."""
        return Meter(socket_dir_of(self.data_dir), self._processes)

    def _processes(self) -> dict[int, str]:
        return processes_of(self.supervisor) | {
            process.pid: "agent" for name, process in self._running if name == "agent"
        }

    def assert_records_agree(self) -> None:
        """Wait until ledger, addresses, ports and servers agree, as `roost-manage audit` sees them."""
        deadline = time.monotonic() + PATIENCE_S
        while self.run("audit", "audit", f"--data-dir={self.data_dir}", program=MANAGE) != 0:
            assert time.monotonic() < deadline, f"{(self.directory / 'audit.out').read_text()}\n{self.logs()}"

    def logs(self) -> str:
        """Return the end of what each process said."""
        return "\n".join(f"== {log.name}\n{log.read_text()[-2000:]}" for log in sorted(self.directory.glob("*.log")))

    def close(self) -> None:
        """End all of it, agents first."""
        for _, process in reversed(self._running):
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self._running.clear()


@contextmanager
def prepared() -> Iterator[Path]:
    """Yield a data directory with every table, not in use, of which others are copies; their PostgreSQL counts."""
    with temporary_directory() as directory:
        roost = Roost(directory)
        try:
            roost.serve()
            asyncio.run(prepare(socket_dir_of(roost.data_dir)))
        finally:
            roost.close()
        with (roost.data_dir / "postgres" / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in PRELOADED.items())
        yield roost.data_dir


@contextmanager
def launched(data_dir: Path) -> Iterator[Roost]:
    """Yield a Roost on a copy of a prepared data directory; nothing runs yet, and nothing is left afterwards."""
    with temporary_directory() as directory:
        roost = Roost(directory)
        subprocess.run(["cp", "-a", str(data_dir), str(roost.data_dir)], check=True)  # with owners
        try:
            yield roost
        finally:
            roost.close()


class Client:
    """Who asks a Roost."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer's JSON, None without any. path: below the main listener, or a full address."""
        url = path if path.startswith("http") else self._url + path
        async with self._session.request(method, url, json=body) as response:
            text = await response.text()
            assert response.status < 400, f"{method} {path}: {response.status} {text}"
            return json.loads(text) if text else None


@asynccontextmanager
async def client_of(url: str, connections: int = 100) -> AsyncIterator[Client]:
    """Yield a client of a Roost."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections), headers=HEADERS) as session:
        yield Client(session, url)


async def until_hosts_take_servers(meter: Meter) -> None:
    """Wait until the ledger has heard of all hosts, which is after they are up."""
    async with asyncio.timeout(PATIENCE_S), meter.watch() as connection:
        while await connection.fetchval(COUNT_UNREADY):
            await asyncio.sleep(LOOK_S)
