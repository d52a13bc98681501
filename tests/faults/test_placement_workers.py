"""What is written through one worker, the next request to another sees: also in a storm, and behind a failover."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cluster import Cluster, cluster, until
from tests.faults.conftest import LedgerServers
from tests.placement_client import CUT, PlacementClient, a_uuid, at_once, claim, inventories

from roost.platform.postgres import PrivatePostgres

STORM_CLIENTS = 8
REPLICATED = {"wal_level": "replica", "max_wal_senders": "4", "fsync": "off"}


@pytest.mark.parametrize("storm", [False, True], ids=["in quiet", "in a storm of claims"])
async def test_every_change_through_one_worker_is_seen_by_the_next_request_to_another(
    ledger_servers: LedgerServers, storm: bool
) -> None:
    async with (
        PlacementClient.connect(ledger_servers.one) as one,
        PlacementClient.connect(ledger_servers.other) as other,
    ):
        hosts = [await one.provider(f"busy {number} {storm}", VCPU=1_000_000) for number in range(3)]
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            if storm:
                for number in range(STORM_CLIENTS):
                    group.create_task(_claim_until(over, (one, other)[number % 2], hosts))
            try:
                for turn, (writer, reader) in enumerate([(one, other), (other, one)]):
                    await _change_everything(writer, reader, f"{turn} {storm}")
            finally:
                over.set()


async def _claim_until(over: asyncio.Event, client: PlacementClient, hosts: list[str]) -> None:
    while not over.is_set():
        answer = await client.call("PUT", f"/allocations/{a_uuid()}", claim({host: {"VCPU": 1} for host in hosts}))
        assert answer.status == 204, answer


async def _change_everything(writer: PlacementClient, reader: PlacementClient, name: str) -> None:
    """One change of each kind by the one, and at once what the other says."""
    suffix = name.replace(" ", "_").upper()
    custom, renamed, trait, aggregate = f"CUSTOM_{suffix}", f"CUSTOM_NEW_{suffix}", f"CUSTOM_T_{suffix}", a_uuid()
    uuid = await writer.provider(f"changing {name}", VCPU=4)
    path = f"/resource_providers/{uuid}"
    assert (await reader.do("GET", f"{path}/inventories"))["inventories"]["VCPU"]["total"] == 4
    assert await _finds(reader, uuid, "resources=VCPU:4&in_tree=" + uuid)

    await writer.do("PUT", f"/resource_classes/{custom}")
    assert custom in [one["name"] for one in (await reader.do("GET", "/resource_classes"))["resource_classes"]]
    await writer.do("PUT", f"{path}/inventories", inventories(1, VCPU=2, **{custom: 8}))
    assert not await _finds(reader, uuid, "resources=VCPU:4&in_tree=" + uuid)
    assert await _finds(reader, uuid, f"resources=VCPU:2,{custom}:8")
    consumer = a_uuid()
    await writer.do("PUT", f"/allocations/{consumer}", claim({uuid: {custom: 3}}))
    assert await reader.used(uuid) == {"VCPU": 0, custom: 3}
    assert not await _finds(reader, uuid, f"resources={custom}:8")
    answer = await writer.call("PUT", f"/resource_classes/{custom}", {"name": renamed}, version="1.2")
    assert answer.status == 200
    assert await reader.used(uuid) == {"VCPU": 0, renamed: 3}
    assert await _finds(reader, uuid, f"resources={renamed}:5")
    assert (await reader.call("GET", f"/allocation_candidates?resources={custom}:1")).status == 400
    await writer.do("DELETE", f"/allocations/{consumer}")
    assert await reader.used(uuid) == {"VCPU": 0, renamed: 0}

    await writer.do("PUT", f"/traits/{trait}")
    assert not await _finds(reader, uuid, f"resources=VCPU:1&required={trait}")
    await writer.do("PUT", f"{path}/traits", {"resource_provider_generation": 3, "traits": [trait]})
    assert await _finds(reader, uuid, f"resources=VCPU:1&required={trait}")
    await writer.do("PUT", f"{path}/aggregates", {"resource_provider_generation": 4, "aggregates": [aggregate]})
    assert await _finds(reader, uuid, f"resources=VCPU:1&member_of={aggregate}")
    await writer.do("PUT", f"{path}/aggregates", {"resource_provider_generation": 5, "aggregates": []})
    assert not await _finds(reader, uuid, f"resources=VCPU:1&member_of={aggregate}")

    child = await writer.provider(f"child {name}", uuid, MEMORY_MB=64)
    assert await _finds(reader, uuid, f"resources=VCPU:1,MEMORY_MB:64&in_tree={uuid}")
    body = {"name": f"renamed {name}", "parent_provider_uuid": None}
    await writer.do("PUT", f"/resource_providers/{child}", body)
    assert not await _finds(reader, uuid, f"resources=VCPU:1,MEMORY_MB:64&in_tree={uuid}")
    shown = await reader.do("GET", f"/resource_providers/{child}")
    assert (shown["name"], shown["root_provider_uuid"]) == (f"renamed {name}", child)
    await writer.do("DELETE", f"/resource_providers/{child}")
    assert (await reader.call("GET", f"/resource_providers/{child}")).status == 404
    await writer.do("POST", "/resource_providers", {"uuid": child, "name": f"again {name}"})
    shown = await reader.do("GET", f"/resource_providers/{child}/inventories")
    assert shown == {"resource_provider_generation": 0, "inventories": {}}

    await writer.do("DELETE", f"{path}/inventories/{renamed}")
    await writer.do("DELETE", f"/resource_classes/{renamed}")
    assert (await reader.call("GET", f"/resource_classes/{renamed}")).status == 404


async def _finds(client: PlacementClient, uuid: str, query: str) -> bool:
    found = await client.do("GET", f"/allocation_candidates?{query}")
    return any(uuid in request["allocations"] for request in found["allocation_requests"])


class Address:
    """One TCP address, behind which there is one PostgreSQL and then another; what it serves is cut in between."""

    def __init__(self) -> None:
        self.server: PrivatePostgres | None = None
        self._cables: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[str]:
        """Its URL, for as long as the block runs."""
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        yield f"postgresql://roost@127.0.0.1:{port}/roost"
        listener.close()
        self.lead_to(None)

    def lead_to(self, server: PrivatePostgres | None) -> None:
        """From now on; None: to nowhere."""
        self.server = server
        for cable in self._cables:
            cable.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        self._cables.add(writer)
        with suppress(OSError):
            if self.server is not None:
                path = str(self.server.socket_dir / ".s.PGSQL.5432")
                back_reader, back_writer = await asyncio.open_unix_connection(path)
                ends.append(back_writer)
                self._cables.add(back_writer)
                await asyncio.gather(_copy(reader, back_writer), _copy(back_reader, writer))
        for end in ends:
            end.close()
            self._cables.discard(end)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
def primary(data_dir: Path) -> Iterator[PrivatePostgres]:
    """A server that others can follow."""
    server = PrivatePostgres(data_dir / "primary", settings=REPLICATED)
    server.start()
    yield server
    server.stop()


def _follow(leader: PrivatePostgres, directory: Path) -> PrivatePostgres:
    """A standby of it, up."""
    follower = PrivatePostgres(directory, settings=REPLICATED)
    directory.mkdir(mode=0o711)
    follower._make_private(follower.cluster)
    words = (
        "-h",
        str(leader.socket_dir),
        "-U",
        "roost",
        "-D",
        str(follower.cluster),
        "-X",
        "stream",
        "-c",
        "fast",
        "-R",
    )
    follower._run("pg_basebackup", *words)
    follower.start()
    return follower


async def _promote(standby: PrivatePostgres, address: Address, leader: PrivatePostgres) -> None:
    """The leader is gone, the other takes its place and address."""
    address.lead_to(None)
    await asyncio.to_thread(leader._run, "pg_ctl", "-D", str(leader.cluster), "-m", "immediate", "-w", "stop")
    address.lead_to(standby)  # before it is promoted: a standby has no answer for anybody
    await asyncio.sleep(0.3)  # requests meet it
    assert await asyncio.to_thread(standby._query, "SELECT pg_promote()") == "t"


async def test_after_a_failover_both_workers_show_what_the_new_server_has_also_if_it_lost_the_last_transactions(
    primary: PrivatePostgres, data_dir: Path
) -> None:
    address = Address()
    address.lead_to(primary)
    with cluster() as made:
        async with address.listen() as dsn:
            clients = await _two_workers(made, dsn)
            async with clients[0] as one, clients[1] as other:
                hosts = [await one.provider(f"host {number}", VCPU=1_000_000) for number in range(3)]
                standby = await asyncio.to_thread(_follow, primary, data_dir / "standby")
                await _fail_over_in_a_storm(one, other, hosts, address, primary, standby)

                second = await asyncio.to_thread(_follow, standby, data_dir / "second")
                kept = await other.everything()
                await asyncio.to_thread(_cut_off, second, standby)
                for client, host in ((one, hosts[0]), (other, hosts[1])):
                    await client.do("PUT", f"/allocations/{a_uuid()}", claim({host: {"VCPU": 7}}))
                    await client.provider(f"lost below {host}", host, VCPU=1)
                assert await one.everything() == await other.everything() != kept
                await _promote(second, address, standby)
                await _up(one, other)
                assert await one.everything() == kept
                assert await other.everything() == kept
                for writer, reader in ((one, other), (other, one)):
                    await _change_everything(writer, reader, f"after {writer is one}")
                await asyncio.to_thread(second.stop)
                await asyncio.to_thread(standby.stop)
            made.close()


async def _two_workers(made: Cluster, dsn: str) -> list[Any]:
    clients = []
    for _ in range(2):
        await asyncio.to_thread(made.serve, "placement", database=dsn)
        clients.append(PlacementClient.connect(made.url))
    return clients


async def _fail_over_in_a_storm(
    one: PlacementClient,
    other: PlacementClient,
    hosts: list[str],
    address: Address,
    primary: PrivatePostgres,
    standby: PrivatePostgres,
) -> None:
    """Nothing is lost where the standby has everything: claims pause, it catches up, and it takes over under reads."""
    taken = await at_once(*(_claim_some(client, hosts) for client in (one, other) * 4))
    await asyncio.to_thread(_catch_up, standby, primary)
    await at_once(one.used(hosts[0]), other.used(hosts[0]))  # what an index has not seen by now it cannot tell
    over = asyncio.Event()
    statuses: Counter[int] = Counter()

    async def look(client: PlacementClient) -> None:
        while not over.is_set():
            answer = await client.call("GET", f"/resource_providers/{hosts[0]}/usages")
            statuses[answer.status] += 1
            assert answer.body["usages"] == {"VCPU": sum(taken)}

    async with asyncio.TaskGroup() as group:
        for client in (one, other) * 2:
            group.create_task(look(client))
        await _promote(standby, address, primary)
        await _up(one, other)
        over.set()
    assert statuses.keys() == {200}
    assert await one.everything() == await other.everything()


async def _claim_some(client: PlacementClient, hosts: list[str]) -> int:
    for _ in range(10):
        await client.do("PUT", f"/allocations/{a_uuid()}", claim({host: {"VCPU": 1} for host in hosts}))
    return 10


def _catch_up(standby: PrivatePostgres, leader: PrivatePostgres) -> None:
    """Wait until it has everything that there is now."""
    deadline = time.monotonic() + 30
    there = leader._query("SELECT pg_current_wal_flush_lsn()")
    while standby._query(f"SELECT pg_last_wal_replay_lsn() >= '{there}'") != "t":
        assert time.monotonic() < deadline, "the standby does not catch up"


def _cut_off(standby: PrivatePostgres, leader: PrivatePostgres) -> None:
    """It has everything until now, and learns nothing of what comes."""
    _catch_up(standby, leader)
    standby._query("ALTER SYSTEM SET primary_conninfo = ''")
    standby._query("SELECT pg_reload_conf()")
    deadline = time.monotonic() + 30
    while standby._query("SELECT count(*) FROM pg_stat_wal_receiver") != "0":
        assert time.monotonic() < deadline


async def _up(*clients: PlacementClient) -> None:
    """Until every worker reads and writes again."""
    for client in clients:

        async def answers(client: PlacementClient = client) -> bool:
            reads = await client.call("GET", "/resource_providers")
            writes = await client.call("PUT", f"/resource_classes/CUSTOM_UP_{a_uuid()[:8].upper()}")
            assert {reads.status, writes.status} <= {200, 201, 503} - {CUT}, (reads, writes)
            return reads.status == 200 and writes.status == 201

        await until(answers)
