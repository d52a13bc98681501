"""A whole Roost of real processes for a test: `roost serve`, agents, a cloud from a file, and hands to break them."""

import asyncio
import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import launching
from tests.cli.upstream import upstream_running
from tests.invariants import assert_books_agree, list_problems
from tests.launching import AT_END
from tests.memory import roomy_memory
from tests.placements import ADMIN_TOKEN, ARRANGEMENT, Arrangement, copy_records
from tests.postgres_servers import PG_BIN
from tests.world import list_up, list_world_problems, read_addresses

from roost.cli.asking.cloud_client import CloudClient
from roost.cli.asking.cloudfile import parse_cloud
from roost.cli.asking.loading import load
from roost.cli.serving.roles import SCHEMAS
from roost.platform.database import Database
from roost.platform.errors import DatabaseUnavailable
from roost.platform.migrate import upgrade
from roost.platform.postgres import PrivatePostgres

ROOST = [sys.executable, "-c", "from roost.cli.entry import run_roost; run_roost()"]
PATH = os.pathsep.join([str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1])])
Process = launching.Process | subprocess.Popen[str]
SETTLE_TIMEOUT_S = 60.0
RECONCILED_S = 10.0
"""Several rounds of the reconcilers with the times of QUICK, and far fewer than an audit's."""


QUICK = {
    "ROOST_CONDUCTOR_LEASE_S": "2",
    "ROOST_CONDUCTOR_RECONCILE_S": "1",
    "ROOST_CONDUCTOR_RECHECK_S": "0.5",
    "ROOST_CONDUCTOR_POLL_S": "0.2",
    "ROOST_NETWORK_RECONCILE_S": "1",
    "ROOST_NETWORK_INTENT_S": "2",
    "ROOST_NETWORK_PUBLISH_LEASE_S": "3",
}
"""Times that a test can wait for."""

UPSTREAM_LEASE_S = "10"
"""Upstream on SQLite, on a busy machine, takes seconds for a claim: a lease that is shorter is lost each time."""


REQUEST_LINE = '"event":"request"'
"""What the log's line of a request has, and no other."""


class Cluster:
    """Processes on one data directory; everything that was started is ended by `close`."""

    def __init__(
        self, directory: Path, environment: Mapping[str, str] = QUICK, arrangement: Arrangement = ARRANGEMENT
    ) -> None:
        self.directory = directory
        self.environment = environment
        self.arrangement = arrangement
        self.upstream_url = ""
        self._ends = contextlib.ExitStack()
        self.data_dir = directory / "data"
        self.url = ""
        self.processes: list[Process] = []
        self._agents = 0
        self._spawned = 0
        self._hosts: set[str] = set()
        self._log_by_pid: dict[int, Path] = {}

    @property
    def dsn(self) -> str:
        """The cluster's database."""
        return PrivatePostgres(self.data_dir).dsn

    def spawn(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        on_machine: str | None = None,
    ) -> Process:
        """A `roost` process, in that directory. Its log goes to a file of the cluster's directory.

        on_machine: the network namespace that it runs in.
        """
        self._spawned += 1
        log = (self.directory / f"{arguments[0]}-{self._spawned}.log").open("w")
        variables = {
            **os.environ,
            "PYTHONPATH": PATH,
            "ROOST_PG_TEMPLATE": _template(),
            **self.environment,
            **(environment or {}),
        }
        process: Process
        with log:
            if on_machine:
                command = ["ip", "netns", "exec", on_machine, *ROOST, *arguments]
                process = subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    cwd=directory,
                    env=variables,
                )
            else:
                process = launching.start(*arguments, environment=variables, stderr=log, directory=directory)
        self._log_by_pid[process.pid] = Path(log.name)
        self.processes.append(process)
        return process

    def serve(self, *services: str, environment: Mapping[str, str] | None = None, **options: int | str) -> None:
        """`roost serve` on a free port, up when this returns; with the option `database`, on that one."""
        if self.arrangement != "local" and services != ("placement",):
            self._serve_placement(**{name: options[name] for name in options if name == "database"})
            everything = not services or "all" in services
            services = ("network", "compute", "conductor") if everything else tuple(set(services) - {"placement"})
        if "database" not in options:
            options = {"data-dir": str(self.data_dir), **({"pg-bin": str(PG_BIN)} if PG_BIN else {}), **options}
        words = [f"--{name}={value}" for name, value in options.items()]
        listens = services != ("conductor",)
        one = ["--workers=1"] if listens and "workers" not in options else []
        arguments = ("serve", *services, "--json", *one, *words)
        listening = ["--listen", "127.0.0.1:0"] if listens and "listen" not in options else []
        process = self.spawn(*arguments, *listening, environment=environment)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, self.logs()
        if listens:
            self.url = json.loads(line)["url"]

    def _serve_placement(self, **options: int | str) -> None:
        """A Placement service elsewhere, for all processes from now on."""
        if "ROOST_PLACEMENT_CLIENT_URL" in self.environment:
            return
        if self.arrangement == "http":
            self.serve("placement", **options)
            elsewhere = {"ROOST_PLACEMENT_CLIENT_URL": f"{self.url}/placement"}
        else:
            upstream = self._ends.enter_context(upstream_running(self.directory))
            self.upstream_url = upstream.url
            elsewhere = {
                "ROOST_PLACEMENT_CLIENT_URL": upstream.url,
                "ROOST_PLACEMENT_CLIENT_TOKEN": ADMIN_TOKEN,
                "ROOST_PLACEMENT_CLIENT_TIMEOUT_S": "60",
                "ROOST_CONDUCTOR_LEASE_S": UPSTREAM_LEASE_S,
            }
        self.environment = {**self.environment, **elsewhere}

    def agent(
        self, *options: str, environment: Mapping[str, str] | None = None, state: str = "", wait: bool = True
    ) -> Process:
        """`roost agent` for every declared host, with guests in a directory of its own or in `state`.

        wait: until the hosts that were loaded, or those of the options, are up.
        """
        self._agents += 1
        directory = self.directory / (state or f"agent-{self._agents}")
        words = (
            options if any("fleet" in option or "host" in option for option in options) else ("--fleet=all", *options)
        )
        process = self.spawn("agent", "--api", self.url, "--state", str(directory), *words, environment=environment)
        if wait:
            named = {word.removeprefix("--host=") for word in words if word.startswith("--host=")}
            self.wait_for_hosts(named or self._hosts)
        return process

    def hosts_up(self) -> set[str]:
        """The hosts that the Compute API shows as up."""
        with urllib.request.urlopen(f"{self.url}/compute/v2.1/os-services", timeout=10) as response:
            services = json.load(response)["services"]
        return {service["host"] for service in services if service["state"] == "up"}

    def wait_for_hosts(self, names: set[str]) -> None:
        """Until these hosts are up: servers go to no other."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while not names <= self.hosts_up():
            assert time.monotonic() < deadline, f"not all hosts are up\n{self.logs()}"
            time.sleep(0.05)  # another process is at work; nothing here can move its clock

    def run(self, *arguments: str) -> str:
        """A `roost` command that comes to an end, and must end well."""
        done = launching.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def load(self, cloud: str) -> None:
        """Create what a cloud file's text names, as `roost load` does, without a process that imports all of it."""
        declared = parse_cloud(cloud, name="cloud.yaml")[0]
        self._hosts |= {name for hosts in declared.hosts for name in hosts.names()}

        async def work() -> None:
            async with CloudClient.connect(self.url) as client:
                await load(client, declared, servers=False, progress=lambda *_: None)

        with ThreadPoolExecutor() as elsewhere:  # a test's event loop may be running here
            elsewhere.submit(asyncio.run, work()).result()

    def launches(self) -> list[dict[str, Any]]:
        """Every launch that any agent of this cluster tried."""
        lines = []
        for journal in self.directory.glob("agent-*/launches.journal"):
            lines += [json.loads(line) for line in journal.read_text().splitlines()]
        return lines

    def logs(self) -> str:
        """What all processes said lately, for a failed assertion; without the lines of requests, which are too many."""
        said = {log.name: log.read_text().splitlines(keepends=True) for log in self.directory.glob("*.log")}
        events = {name: "".join(line for line in lines if REQUEST_LINE not in line) for name, lines in said.items()}
        return "\n".join(f"== {name}\n{text[-4000:]}" for name, text in events.items())

    def said(self, words: str) -> bool:
        """Whether a process that was not stopped since has these words in its log."""
        return any(words in self.log_of(process) for process in self.processes)

    def log_of(self, process: Process) -> str:
        """What a process has in its log."""
        return self._log_by_pid[process.pid].read_text()

    def stop(self, process: Process, number: int = signal.SIGTERM) -> None:
        """End a process that was started here."""
        process.send_signal(number)
        process.wait(30)
        if process.stdout:
            process.stdout.close()
        self.processes.remove(process)

    def close(self) -> None:
        """End everything, agents first."""
        for process in reversed(list(self.processes)):
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()
        self.processes.clear()
        self._ends.close()


@functools.cache
def _template() -> str:
    """What every cluster's data directory begins as a copy of: an empty database with all schemas."""
    directory = Path(tempfile.mkdtemp(prefix="roost-template-", dir=roomy_memory()))
    AT_END.append(lambda: shutil.rmtree(directory, ignore_errors=True))
    atexit.register(AT_END[-1])
    directory.chmod(0o711)
    server = PrivatePostgres(directory, pg_bin=PG_BIN)
    server.start()
    with ThreadPoolExecutor() as elsewhere:  # a test's event loop may be running here
        elsewhere.submit(upgrade, server.dsn, SCHEMAS).result()
    server.stop()
    return str(directory)


@contextmanager
def cluster(environment: Mapping[str, str] = QUICK, *, arrangement: Arrangement = ARRANGEMENT) -> Iterator[Cluster]:
    """A cluster in a temporary directory that PostgreSQL's user may enter. environment: of all its processes."""
    with tempfile.TemporaryDirectory(prefix="roost-cluster-", dir=roomy_memory()) as name:
        directory = Path(name)
        directory.chmod(0o711)
        made = Cluster(directory, environment, arrangement)
        try:
            yield made
        finally:
            made.close()


async def until(fact: Callable[[], Awaitable[bool]], *, timeout_s: float = SETTLE_TIMEOUT_S, what: str = "") -> None:
    """Wait until other processes have made it so."""
    deadline = time.monotonic() + timeout_s
    while not await fact():
        assert time.monotonic() < deadline, what or "it did not become so in time"
        await asyncio.sleep(0.05)  # other processes are at work; nothing here can move their clocks


async def settle(cluster: Cluster, *, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
    """Wait until no work is left and nothing is on its way back to the ledger; then everything must agree.

    If not at once, then when reconcilers have found what nobody wrote down: the claim of a port that went meanwhile.
    The hosts' own guests must agree too.
    """
    await until(functools.partial(_answers, cluster.dsn), timeout_s=timeout_s, what="no PostgreSQL answers")
    database = await Database.open(cluster.dsn, size=2)
    try:

        async def quiet() -> bool:
            async with database.connection() as connection:
                return not await connection.fetchval("""
                    SELECT EXISTS (SELECT FROM compute.work) OR EXISTS (SELECT FROM network.release)
                        OR EXISTS (SELECT FROM network.intent) OR EXISTS (SELECT FROM network.notice)
                        OR EXISTS (SELECT FROM network.publication WHERE wanted > published)
                        OR EXISTS (SELECT FROM compute.guest WHERE reported IS DISTINCT FROM desired)
                        -- the release before has no such columns
                        OR EXISTS (SELECT FROM compute.guest g
                            WHERE to_jsonb(g) -> 'nics_version' IS DISTINCT FROM to_jsonb(g) -> 'nics_reported')
                        OR EXISTS (SELECT FROM network.port p WHERE to_jsonb(p) ->> 'left_at' IS NOT NULL)""")

        try:
            await until(quiet, timeout_s=timeout_s)
        except AssertionError:
            async with database.connection() as connection:
                left = await connection.fetch("SELECT * FROM compute.work")
                guests = await connection.fetch("SELECT * FROM compute.guest WHERE reported IS DISTINCT FROM desired")
            raise AssertionError(f"left: {left} {guests}\n{cluster.logs()}") from None
        if not cluster.upstream_url:  # whose records are not of one instant with the others
            await assert_books_agree(database, settled=False)

        async def agree() -> bool:
            await copy_records(database, cluster.upstream_url)
            async with database.transaction(snapshot=True) as tx:
                return not await list_problems(tx, settled=True)

        with contextlib.suppress(AssertionError):
            await until(agree, timeout_s=RECONCILED_S)
        await assert_books_agree(database)
        async with database.connection() as connection:
            addresses = await read_addresses(connection)
        problems = list_world_problems(list_up(cluster.directory), addresses)
        assert not problems, "\n".join(problems)
    finally:
        await database.close()


async def _answers(dsn: str) -> bool:
    """Whether there is a server: one that was killed may have left backends that finish what they are at."""
    try:
        await (await Database.open(dsn, size=1)).close()
    except DatabaseUnavailable:
        return False
    return True


async def boot(
    client: CloudClient, network: str | Sequence[Mapping[str, str]], *, count: int = 1, name: str = "web"
) -> str:
    """Ask for `count` servers of the flavor `small`, in one request; the id of the first, as it is answered."""
    networks = [{"uuid": network}] if isinstance(network, str) else [dict(one) for one in network]
    flavor = next(one["id"] for one in await client.list_flavors() if one["name"] == "small")
    server = {"name": name, "flavorRef": flavor, "networks": networks, "min_count": count, "max_count": count}
    answer = await client.call("POST", "/compute/v2.1/servers", {"server": {**server, "imageRef": ""}})
    return str(answer["server"]["id"])


async def network_ids(client: CloudClient) -> dict[str, str]:
    """Name -> id."""
    return {one["name"]: one["id"] for one in await client.list_all("/network/v2.0/networks", "networks")}
