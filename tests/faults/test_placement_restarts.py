"""PostgreSQL goes away under load: clients are told to come back, no claim is half there, and nobody has to help."""

import asyncio
import os
import signal
import time
from collections import Counter
from random import Random

from tests.cluster import Cluster, cluster, until
from tests.invariants import assert_books_agree
from tests.placement_client import Answer, PlacementClient, a_uuid, claim

from roost.platform.database import Database
from roost.platform.postgres import PrivatePostgres

CLIENTS = 16
CUTS = 40
RECOVERY_MAX_S = 30.0
"""Generous: this also runs beside other tests. On a quiet machine it takes 2 s."""

Holdings = dict[str, dict[str, int]]
Ends = list[dict[str, Holdings]]
"""What several consumers may hold together in the end, consumer -> provider -> resources: one of these."""


async def test_postgresql_killed_and_restarted_under_load_leaves_no_claim_half_there() -> None:
    with cluster() as made:
        made.serve("placement", workers=2)
        async with PlacementClient.connect(made.url) as client:
            load = Load(client)
            await load.prepare()
            over = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                for number in range(CLIENTS):
                    group.create_task(load.claim_until(over, Random(number)))
                for number in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):  # SIGINT: a clean restart
                    await load.some_more()
                    await _strike(made, number)
                    started = time.monotonic()
                    await load.some_more()
                    assert time.monotonic() - started < RECOVERY_MAX_S
                await _cut_connections(made)
                await load.some_more()
                over.set()
            assert load.statuses.keys() <= {204, 409, 503}, load.statuses
            assert load.statuses[503] > 0
        database = await Database.open(made.dsn)
        await load.check(database)
        await assert_books_agree(database, settled=False)
        await database.close()


async def _strike(made: Cluster, number: signal.Signals) -> None:
    """Have the postmaster end; the supervisor starts another."""
    pid = PrivatePostgres(made.data_dir).postmaster_pid()
    assert pid is not None
    os.kill(pid, number)

    async def gone() -> bool:
        return PrivatePostgres(made.data_dir).postmaster_pid() != pid

    await until(gone)


async def _cut_connections(made: Cluster) -> None:
    """Again and again, at whatever moment of a claim it is: also between two of its statements."""
    database = await Database.open(made.dsn, size=1)
    random = Random(1)
    async with database.connection() as connection:
        for _ in range(CUTS):
            await asyncio.sleep(random.random() * 0.1)  # claims are under way
            await connection.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE application_name LIKE 'roost %' AND pid <> pg_backend_pid()"""
            )
    await database.close()


class Load:
    """Clients that claim, and remember every answer and what may be true after it."""

    def __init__(self, client: PlacementClient) -> None:
        self.client = client
        self.hosts: list[str] = []
        self.segment = ""
        self.statuses: Counter[int] = Counter()
        self.ends: list[Ends] = []

    async def prepare(self) -> None:
        self.segment = await self.client.provider("segment", IPV4_ADDRESS=100_000)
        self.hosts = [await self.client.provider(f"host {number}", VCPU=100_000) for number in range(4)]

    async def some_more(self) -> None:
        """Until as many claims again have been taken as there are clients."""
        wanted = self.statuses[204] + CLIENTS

        async def taken() -> bool:
            return self.statuses[204] >= wanted

        await until(taken)

    async def claim_until(self, over: asyncio.Event, random: Random) -> None:
        while not over.is_set():
            server, port = a_uuid(), a_uuid()
            of_server: Holdings = {random.choice(self.hosts): {"VCPU": random.randrange(1, 4)}}
            of_port: Holdings = {self.segment: {"IPV4_ADDRESS": 1}}
            if random.random() < 0.5:
                whole = of_server | of_port
                answer = await self._call("PUT", f"/allocations/{server}", claim(whole))
                await self._end(answer, {server: {}}, {server: whole})
                continue
            body = {server: claim(of_server), port: claim(of_port)}
            answer = await self._call("POST", "/allocations", body)
            if answer.status != 204 or random.random() < 0.5:
                await self._end(answer, {server: {}, port: {}}, {server: of_server, port: of_port})
                continue
            heir = a_uuid()
            body = {server: claim({}, 1), heir: claim(of_server)}
            answer = await self._call("POST", "/allocations", body)
            await self._end(answer, {server: of_server, heir: {}}, {server: {}, heir: of_server})

    async def _call(self, method: str, path: str, body: object) -> Answer:
        answer = await self.client.call(method, path, body)
        self.statuses[answer.status] += 1
        assert answer.status != 503 or answer.headers.get("Retry-After") == "1"
        return answer

    async def _end(self, answer: Answer, before: dict[str, Holdings], after: dict[str, Holdings]) -> None:
        """Taken, refused, or nobody knows: the database went away, before or just after the claim was committed."""
        self.ends.append({204: [after], 503: [before, after]}.get(answer.status, [before]))
        if answer.status == 503:
            await asyncio.sleep(0.05)  # a client that was told to try again

    async def check(self, database: Database) -> None:
        """What each consumer holds is one of the ways in which it may have ended."""
        async with database.connection() as connection:
            rows = await connection.fetch(
                """SELECT a.consumer_uuid, p.uuid, r.name, a.used FROM placement.allocation a
                JOIN placement.provider p ON p.id = a.provider_id
                JOIN placement.resource_class r ON r.id = a.resource_class_id"""
            )
        held: dict[str, Holdings] = {}
        for consumer, provider, name, amount in rows:
            held.setdefault(consumer, {})[provider] = {name: amount}
        for ends in self.ends:
            assert {consumer: held.get(consumer, {}) for consumer in ends[0]} in ends
