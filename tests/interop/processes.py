"""The processes of a run in the cloud: Roost, its PostgreSQL, and the cloud's own services.

Only the standard library is used, for the cloud's Python runs this; INTEROP_ROOST_PYTHON names the one that has Roost.
"""

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

BASE = int(os.environ.get("INTEROP_PORT_BASE", "17000"))
PLACEMENT_PORT = BASE + 9
"""Where Nova and Neutron find Placement."""
SECOND_PORT = BASE + 19
PASSWORD = os.environ.get("INTEROP_PASSWORD", "interop")
AMQP_URL = f"amqp://interop:{PASSWORD}@127.0.0.1:{BASE + 6}/neutron"
ADMIN = {
    "OS_AUTH_URL": f"http://127.0.0.1:{BASE}/v3", "OS_USERNAME": "admin", "OS_PASSWORD": PASSWORD,
    "OS_PROJECT_NAME": "admin", "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default",
}  # fmt: skip
SETTINGS = {
    "ROOST_NEUTRON_URL": f"http://127.0.0.1:{BASE + 2}",
    "ROOST_PLACEMENT_IMPLIED_ADDRESSES": "true",
    "ROOST_KEYSTONE_AUTH_URL": f"http://127.0.0.1:{BASE}",
    "ROOST_KEYSTONE_USERNAME": "roost",
    "ROOST_KEYSTONE_PASSWORD": PASSWORD,
    "ROOST_METRICS_TOKEN": PASSWORD,
}
START_S = 900


def cloud_shell(script: str) -> None:
    """Run a script with the cloud's functions: spawn, halt, wait_port and those of its databases."""
    subprocess.run(
        ["bash", "-ec", f'. "$INTEROP_SRC/env.sh"; . "$INTEROP_SRC/infra.sh"; {script}'], check=True, timeout=START_S
    )


def start_keystone() -> None:
    """Start Keystone and what it needs, and make the services' users and the catalogue's entry of Placement."""
    cloud_shell(
        '"$VENV/bin/python" "$INTEROP_SRC/render.py"; infra_start; "$INTEROP_SRC/serve.sh" keystone; '
        'wait_port "$KEYSTONE_PORT"; ROOST_ROLES=service "$INTEROP_SRC/users.sh"'
    )


def start_cloud() -> None:
    """Start all that does not run yet; Placement must answer by then."""
    cloud_shell('exec "$INTEROP_SRC/start.sh"')


def stop_cloud() -> None:
    """Stop all of it."""
    cloud_shell('exec "$INTEROP_SRC/stop.sh"')


class Database:
    """Roost's PostgreSQL."""

    def __init__(self, directory: Path) -> None:
        self._process = _start_python("-m", "tests.interop.database", str(directory))
        self.url = _read_line(self._process)

    def stop(self) -> None:
        """Stop it: every session ends, and new ones are refused."""
        self._tell("stop")

    def start(self) -> None:
        """Start it again."""
        self._tell("start")

    def ask(self, sql: str) -> str:
        """Return what psql prints."""
        command = ["psql", self.url, "-Atc", sql]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def close(self) -> None:
        """Stop it for good."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        answer = _read_line(self._process)
        assert answer == "done", answer


class Roost:
    """A `roost serve placement --with-neutron` on a database."""

    def __init__(self, database: Database, log: Path, port: int = PLACEMENT_PORT) -> None:
        self._database, self.log, self.url = database, log, f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[str] | None = None

    def start(self, **settings: str) -> None:
        """Start it, with settings by their names in the environment, and wait until it answers."""
        serve = [
            "serve", "placement", "--with-neutron", "--auth=keystone", f"--listen={self.url.partition('//')[2]}",
            f"--database={self._database.url}", f"--log-file={self.log}", "--log-format=json",
        ]  # fmt: skip
        self._process = _start_python("-c", "from roost.cli.entry import run_roost; run_roost()", *serve, **settings)
        _read_line(self._process)

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def worker(self) -> int:
        """Return the process id of its first worker, which may poll."""
        assert self._process is not None
        (pid,) = (pid for pid in _descendants(self._process.pid) if _name(pid) == "api-1")
        return pid

    def manage(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `roost-manage` on its database as the cloud's administrator; returns what it said."""
        code = "from roost.cli.entry import run_manage; run_manage()"
        command = [_python(), "-c", code, *words, f"--database={self._database.url}"]
        variables = {**os.environ, **ADMIN, **environment}
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=START_S)

    def metric(self, name: str) -> float | None:
        """Return a figure of its OpenStack metrics, None where it is not among them."""
        for line in self.get("/metrics/openstack").splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        return None

    def get(self, path: str) -> str:
        """Return what it answers to anybody, or, of its metrics, to who collects them, whatever the status."""
        request = urllib.request.Request(self.url + path)
        if path.startswith("/metrics"):
            request.add_header("Authorization", f"Bearer {PASSWORD}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read().decode()}"


@contextmanager
def roost_running(directory: Path, log: Path) -> Iterator[tuple[Roost, Database]]:
    """A Roost that serves an empty ledger."""
    database = Database(directory)
    roost = Roost(database, log)
    try:
        roost.start()
        yield roost, database
    finally:
        roost.stop()
        database.close()


def _python() -> str:
    return os.environ["INTEROP_ROOST_PYTHON"]


def _start_python(*words: str, **settings: str) -> subprocess.Popen[str]:
    environment: Mapping[str, str] = {**os.environ, **SETTINGS, **settings}
    pipe = subprocess.PIPE
    return subprocess.Popen([_python(), *words], stdin=pipe, stdout=pipe, text=True, env=environment)


def _read_line(process: subprocess.Popen[str]) -> str:
    output: IO[str] | None = process.stdout
    assert output is not None
    line = output.readline().strip()
    assert line, f"{process.args!r} ended: {process.poll()}"
    return line


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield int(word)
            yield from _descendants(int(word))


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def kill(pid: int) -> None:
    """End a process at once."""
    os.kill(pid, signal.SIGKILL)


def until(said: str, limit_s: float, *, every_s: float = 0.25) -> Iterator[float]:
    """Give the seconds since the beginning over and over; raises AssertionError after the limit."""
    began_s = time.monotonic()
    while (waited_s := time.monotonic() - began_s) < limit_s:
        yield waited_s
        time.sleep(every_s)
    raise AssertionError(f"not within {limit_s:g} s: {said}")
