"""Aggregates and their hosts changed by many at random while Placement is stopped, stalled and killed, and Roost too.

After one run of sync_placement_aggregates every provider is in exactly the right aggregates; a second writes nothing.
By hand: `ROOST_STORM_S=60 ROOST_STORM_HOSTS=1000 pytest -n 0 --timeout 600 tests/faults/test_aggregate_storm.py`.
"""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections import Counter
from random import Random

from tests.cluster import Cluster, Process, cluster, until
from tests.faults.test_storm import SEED, STORM_S
from tests.launching import run_manage
from tests.processes import names_of

from roost.cli.asking.cloud_client import CloudClient, CloudRefused, Json
from roost.platform.database import Database

HOSTS = int(os.environ.get("ROOST_STORM_HOSTS", "40"))
AGGREGATES = max(5, HOSTS // 10)
CLIENTS = 16
BREAK_EVERY_S = 0.8
ALLOWED = (0, 404, 409, 503)
"""What a client may be told: gone, in two zones or not empty, cut off, or the database is away."""

CLOUD = f"""
flavors:
  - {{name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}}
hosts:
  - {{name: 'h[1-{HOSTS}]', vcpus: 8, ram_mb: 16384, disk_gb: 400, physical_networks: []}}
"""

MEMBERS = """
SELECT host.provider_uuid::text AS provider, member.aggregate_uuid::text AS aggregate
FROM compute.host_aggregate_host AS member JOIN compute.host ON host.name = member.host"""
MIRROR = """
SELECT provider.uuid::text AS provider, pair.aggregate_uuid::text AS aggregate
FROM placement.provider_aggregate AS pair JOIN placement.provider ON provider.id = pair.provider_id"""


async def test_the_mirror_is_exact_after_one_run_whatever_happened_before() -> None:
    with cluster(arrangement="http") as made:
        made.serve(workers=2)
        placement = made.processes[0]
        made.load(CLOUD)
        async with CloudClient.connect(made.url) as client:
            storm = Storm(made, client, Random(SEED), placement)
            await storm.blow()
            await until(lambda: answers(client))
        assert sum(storm.done.values()) > CLIENTS, storm.done
        assert not storm.refused, storm.refused
        first, report = sync(made)
        assert (first, report["problems"], report["failure"]) == (0, [], None), report
        database = await Database.open(made.dsn, size=1)
        try:
            async with database.connection() as connection:
                members = {tuple(row) for row in await connection.fetch(MEMBERS)}
                mirror = {tuple(row) for row in await connection.fetch(MIRROR)}
        finally:
            await database.close()
        assert members == mirror
        assert members, "the storm left no member"
        second, report = sync(made)
        assert (second, report["changes"], report["others"]) == (0, [], 0)
        print(storm.done, storm.broken)  # noqa: T201


async def answers(client: CloudClient) -> bool:
    """Whether Roost is there again."""
    try:
        await client.call("GET", "/compute/v2.1/os-aggregates")
    except CloudRefused:
        return False
    return True


def sync(made: Cluster) -> tuple[int, Json]:
    """One run of the command, as it exits and what it reports."""
    words = ["sync_placement_aggregates", "--prune", "--json", "--database", made.dsn]
    done = run_manage(*words, environment={**os.environ, **made.environment})
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


class Storm:
    """Clients that change aggregates, and a hand that breaks. done, broken: how often what was done."""

    def __init__(self, made: Cluster, client: CloudClient, random: Random, placement: Process) -> None:
        self.made, self.client, self.random, self.placement = made, client, random, placement
        self.aggregates: list[int] = []
        self.done: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.refused: list[str] = []

    async def blow(self) -> None:
        """Until the storm is over; Placement runs again at its end."""
        over_at = time.monotonic() + STORM_S
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._ask_until(over_at))
            group.create_task(self._break_until(over_at))

    async def _ask_until(self, over_at: float) -> None:
        while time.monotonic() < over_at:
            asks = (self._make, self._add, self._add, self._add, self._remove, self._remove, self._drop, self._rate)
            await self.random.choice(asks)()
            await asyncio.sleep(self.random.random() * 0.1)  # a client thinks

    async def _make(self) -> None:
        if len(self.aggregates) < AGGREGATES:
            zone = self.random.choice(({}, {}, {"availability_zone": "east"}, {"availability_zone": "west"}))
            name = f"a{self.random.randrange(10**6)}"
            answer = await self._call("make", "POST", "", {"aggregate": {"name": name, **zone}})
            self.aggregates += [answer["aggregate"]["id"]] if answer else []

    async def _add(self) -> None:
        await self._act({"add_host": {"host": f"h{self.random.randrange(HOSTS) + 1}"}})

    async def _remove(self) -> None:
        await self._act({"remove_host": {"host": f"h{self.random.randrange(HOSTS) + 1}"}})

    async def _rate(self) -> None:
        await self._act({"set_metadata": {"metadata": {"cpu_allocation_ratio": str(self.random.randrange(1, 9))}}})

    async def _act(self, body: Json) -> None:
        if self.aggregates:
            await self._call(next(iter(body)), "POST", f"/{self.random.choice(self.aggregates)}/action", body)

    async def _drop(self) -> None:
        if not self.aggregates or self.random.random() < 0.5:
            return
        number = self.random.choice(self.aggregates)
        shown = await self._call("show", "GET", f"/{number}")
        for host in (shown or {"aggregate": {"hosts": []}})["aggregate"]["hosts"]:
            await self._call("remove_host", "POST", f"/{number}/action", {"remove_host": {"host": host}})
        await self._call("drop", "DELETE", f"/{number}")

    async def _call(self, what: str, method: str, path: str, body: Json | None = None) -> Json | None:
        try:
            answer: Json = await self.client.call(method, f"/compute/v2.1/os-aggregates{path}", body)
        except CloudRefused as refusal:
            not_empty = refusal.status == 400 and method == "DELETE"
            if refusal.status not in ALLOWED and not not_empty:
                self.refused.append(f"{method} {path}: {refusal.status} {refusal}")
            return None
        self.done[what] += 1
        return answer

    async def _break_until(self, over_at: float) -> None:
        """Stop Placement for a while, kill a worker of it, or kill a worker of Roost's API."""
        while time.monotonic() < over_at:
            what = self.random.choice(("stall", "kill placement", "kill api"))
            self.broken[what] += 1
            if what == "kill api":
                supervisor = next(one for one in self.made.processes if "compute" in one.args)
                self._kill([*names_of(supervisor.pid)])
            elif what == "kill placement":
                self._kill([*names_of(self.placement.pid)])
            else:
                pids = [*names_of(self.placement.pid)]
                self._send(pids, signal.SIGSTOP)
                await asyncio.sleep(BREAK_EVERY_S)
                self._send(pids, signal.SIGCONT)
            await asyncio.sleep(BREAK_EVERY_S)

    def _kill(self, pids: list[int]) -> None:
        if pids:
            self._send([self.random.choice(pids)], signal.SIGKILL)

    @staticmethod
    def _send(pids: list[int], number: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
