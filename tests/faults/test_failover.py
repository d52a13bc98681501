"""A PostgreSQL with a standby, by real streaming replication: the one is killed, the other promoted, claims go on."""

import asyncio
import os
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.cluster import Cluster, cluster
from tests.faults.replication import start_primary, start_standby
from tests.placement_client import PlacementClient

from roost.platform.postgres import PrivatePostgres

CLIENTS, HOSTS, CLAIMS = 8, 4, 60
LIMIT_S = 90.0
BACK_S = 5.0
"""What is promised from the promotion to the first claim; measured: 0.01 s."""


@pytest.fixture
def primary(data_dir: Path) -> Iterator[PrivatePostgres]:
    server = start_primary(data_dir)
    yield server
    server.stop()


@pytest.fixture
def standby(primary: PrivatePostgres, data_dir: Path) -> Iterator[PrivatePostgres]:
    """A copy of the primary that streams from it, and whom every commit there waits for."""
    server = start_standby(primary, data_dir)
    primary._query("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary._query("SELECT pg_reload_conf()")
    deadline_s = time.monotonic() + LIMIT_S
    while primary._query("SELECT sync_state FROM pg_stat_replication") != "sync":
        assert time.monotonic() < deadline_s, server._log_tail()
        time.sleep(0.05)  # another process is at work; nothing here can move its clock
    yield server
    server.stop()


class Claims:
    """Clients that claim one VCPU after another, each for a new consumer. taken: those that were answered 204."""

    def __init__(self, client: PlacementClient, hosts: list[str]) -> None:
        self.client, self.hosts = client, hosts
        self.taken: list[tuple[str, float]] = []
        self.statuses: Counter[int] = Counter()
        self.details: set[str] = set()
        self.ending = False

    async def run(self) -> None:
        while not self.ending:
            consumer = str(uuid.uuid4())
            body = {
                "allocations": {self.hosts[len(self.taken) % len(self.hosts)]: {"resources": {"VCPU": 1}}},
                "project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE",
            }  # fmt: skip
            answer = await self.client.call("PUT", f"/allocations/{consumer}", body)
            self.statuses[answer.status] += 1
            if answer.status == 204:
                self.taken.append((consumer, time.monotonic()))
            else:
                self.details.add(answer.detail)
                await asyncio.sleep(0.05)  # as a client that obeys Retry-After, in haste

    async def until(self, count: int) -> None:
        """Wait until so many are taken."""
        async with asyncio.timeout(LIMIT_S):
            while len(self.taken) < count:
                await asyncio.sleep(0.01)


async def make_hosts(client: PlacementClient) -> list[str]:
    hosts = [str(uuid.uuid4()) for _ in range(HOSTS)]
    for number, host in enumerate(hosts):
        await client.do("POST", "/resource_providers", {"uuid": host, "name": f"h{number}"})
        inventories = {"VCPU": {"total": 1_000_000, "max_unit": 1_000_000}}
        body = {"resource_provider_generation": 0, "inventories": inventories}
        await client.do("PUT", f"/resource_providers/{host}/inventories", body)
    return hosts


async def assert_all_are_kept(standby: PrivatePostgres, claims: Claims) -> None:
    """Every claim that was answered is in the ledger that is now the only one, and `used` is their sum."""
    connection = await asyncpg.connect(standby.dsn)
    kept = {str(row[0]) for row in await connection.fetch("SELECT uuid FROM placement.consumer")}
    wrong = await connection.fetch("""
        SELECT i.provider_id FROM placement.inventory i
        LEFT JOIN placement.allocation a USING (provider_id, resource_class_id)
        GROUP BY i.provider_id, i.resource_class_id, i.used HAVING i.used <> coalesce(sum(a.used), 0)
    """)
    await connection.close()
    assert [consumer for consumer, _ in claims.taken if consumer not in kept] == []
    assert wrong == []


async def fail_over(made: Cluster, primary: PrivatePostgres, standby: PrivatePostgres) -> tuple[float, float]:
    """Claim, kill, promote, claim on; seconds to the first claim that was answered from the promotion, and in all."""
    async with PlacementClient.connect(made.url) as client:
        claims = Claims(client, await make_hosts(client))
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(claims.run())
            await claims.until(CLAIMS)
            postmaster = primary.postmaster_pid()
            assert postmaster is not None
            killed_at_s = time.monotonic()
            os.kill(postmaster, signal.SIGQUIT)  # at once, without a checkpoint
            while primary.is_running():
                await asyncio.sleep(0.01)
            await asyncio.to_thread(standby._query, "SELECT pg_promote()")
            promoted_at_s, before = time.monotonic(), len(claims.taken)
            await claims.until(before + CLAIMS)
            claims.ending = True
        assert set(claims.statuses) <= {204, 503}, (claims.statuses, claims.details)
        assert claims.statuses[503] <= CLIENTS, "only a claim whose commit was under way may have been written"
        await assert_all_are_kept(standby, claims)
        back_at_s = next(at_s for _, at_s in claims.taken if at_s > promoted_at_s)
        return back_at_s - promoted_at_s, back_at_s - killed_at_s


async def test_no_answered_claim_is_lost_when_the_standby_takes_over(
    primary: PrivatePostgres, standby: PrivatePostgres
) -> None:
    sockets = f"{primary.socket_dir},{standby.socket_dir}"
    with cluster() as made:
        database = f"postgresql://roost@/roost?host={sockets}&target_session_attrs=primary"
        await asyncio.to_thread(made.serve, "placement", database=database)
        back_s, away_s = await fail_over(made, primary, standby)
        assert back_s < BACK_S
        sys.stderr.write(f"claims are taken {back_s:.2f} s after the promotion, {away_s:.2f} s after the kill\n")
