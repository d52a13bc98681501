"""Starts the servers, each with two workers and a PostgreSQL of its own, and says which processes are which."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.costs import postmaster_of, socket_dir_of
from benchmarks.disk import disk_of, temporary_directory
from benchmarks.placement.client import Client, Closed
from benchmarks.processes import Roost

SCRIPT = Path(__file__).parent / "upstream_server.sh"
PG_BIN = "PG_BIN"
"""The variable that names the programs of another PostgreSQL than Roost brings, for both servers."""
WORKERS = 2
START_TIMEOUT_S, STOP_TIMEOUT_S, LOOK_S = 120.0, 30.0, 0.1


@dataclass(frozen=True)
class Server:
    """One that answers. roots: process id by name, of the tree of the web's processes and of the database's."""

    name: str
    url: str
    roots: Mapping[str, int]
    dsn: str = ""

    @property
    def disk(self) -> str:
        """What the database's data lies on: a postmaster works in its data directory."""
        return str(disk_of(Path(f"/proc/{self.roots['db']}/cwd")))


@contextmanager
def roost(
    *, workers: int = WORKERS, database_of: Server | None = None, implied_addresses: bool = False
) -> Iterator[Server]:
    """`roost serve placement` with as little to ask of its callers as upstream's noauth2."""
    options: dict[str, int | str] = {"workers": workers, "auth": "noauth2", "policy": "default"}
    with temporary_directory() as directory:
        if implied_addresses:
            options["config"] = str(directory / "roost.toml")
            (directory / "roost.toml").write_text("[placement]\nimplied_addresses = true\n")
        if database_of is not None:
            options["database"] = database_of.dsn
        elif os.environ.get(PG_BIN):
            options["pg-bin"] = os.environ[PG_BIN]
        made = Roost(directory)
        try:
            made.serve("placement", **options)
            dsn = database_of.dsn if database_of else f"postgresql://roost@/roost?host={socket_dir_of(made.data_dir)}"
            db = database_of.roots["db"] if database_of else postmaster_of(socket_dir_of(made.data_dir))
            yield Server("Roost", made.url, {"web": made.supervisor, "db": db}, dsn=dsn)
        finally:
            made.close()


@contextmanager
def upstream(venv: Path, *, postgres_like: Server) -> Iterator[Server]:
    """Upstream Placement from a virtual environment, on the PostgreSQL programs that the other server runs."""
    programs = Path(f"/proc/{postgres_like.roots['db']}/exe").resolve().parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with temporary_directory() as workdir:
        log = workdir / "start.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(SCRIPT), "--port", str(port), "--workdir", str(workdir), "--venv", str(venv.absolute())],
                stdout=output, stderr=output, start_new_session=True,
                env={**os.environ, PG_BIN: str(programs), "PYTHONPATH": ""},
            )  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url, process, log)
            yield Server("upstream", url, {each: int((workdir / f"{each}.pid").read_text()) for each in ("web", "db")})
        finally:
            _stop(process)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with Client(url, timeout_s=5) as client:
                if client.request("GET", "/")[0] == 200:
                    return
        except (OSError, Closed):
            pass
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"upstream Placement did not come up:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(LOOK_S)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """The script ends what it started; what does not end in time is killed with its whole group."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
