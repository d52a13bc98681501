"""Ports come, change and go on four segments while their pools grow and shrink: no address twice, none lost, no leak.

ROOST_NETWORK_STORM_PORTS says how many ports are made (1000 is the real thing), ROOST_STORM_SEED gives other choices.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from tests.cluster import Cluster, cluster, network_ids, settle, until
from tests.invariants import NOTE_OVERCLAIMS

from roost.cli.asking.cloud_client import CloudClient, CloudRefused, Json
from roost.platform.database import Connection, Database

PORTS = int(os.environ.get("ROOST_NETWORK_STORM_PORTS", "120"))
SEED = int(os.environ.get("ROOST_STORM_SEED", "1"))
CLIENTS = 16
SEGMENTS = 4
CLOUD = """
networks:
  - name: storm
    segments:
      - {name: r1, physical_network: r1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/26}]}
      - {name: r2, physical_network: r2, network_type: vlan, segmentation_id: 2, subnets: [{cidr: 10.2.0.0/26}]}
      - {name: r3, physical_network: r3, network_type: vlan, segmentation_id: 3, subnets: [{cidr: 10.3.0.0/26}]}
      - {name: r4, physical_network: r4, network_type: vlan, segmentation_id: 4, subnets: [{cidr: 10.4.0.0/26}]}
hosts:
  - {name: 'r1-h1', vcpus: 8, ram_mb: 16384, disk_gb: 400, physical_networks: [r1]}
  - {name: 'r2-h1', vcpus: 8, ram_mb: 16384, disk_gb: 400, physical_networks: [r2]}
  - {name: 'r3-h1', vcpus: 8, ram_mb: 16384, disk_gb: 400, physical_networks: [r3]}
  - {name: 'r4-h1', vcpus: 8, ram_mb: 16384, disk_gb: 400, physical_networks: [r4]}
"""
PASSING = "10.4.1.0/28"
"""The cidr of the subnet that comes and goes."""

ALLOWED = {400, 404, 409, 412, 503}
"""What a client may be told besides success: that an address is not there (any more), is held, or to ask again."""

DONE = {"create", "create on a host", "create named", "bind", "readdress", "rename", "delete", "pools", "come", "go"}

NOTE_FREE = """
CREATE FUNCTION audit.address() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (SELECT FROM network.free_range f WHERE f.subnet_id = NEW.subnet_id
        AND NEW.address BETWEEN f.first_address AND f.last_address) THEN
        INSERT INTO audit.broken VALUES ('an address is held and free', host(NEW.address), 0, 0);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER audit AFTER INSERT ON network.address DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION audit.address();
"""


async def test_a_storm_of_ports_and_pools_leaves_the_ledger_equal_to_the_addresses() -> None:
    with cluster() as made:
        made.serve(workers=2, conductors=1)
        made.load(CLOUD)
        async with CloudClient.connect(made.url) as client, watched(made) as database:
            storm = Storm(client, (await network_ids(client))["storm"])
            await storm.blow()
            assert not storm.refused, storm.refused[:10]
            assert not DONE - storm.done.keys(), (storm.done, storm.told)
            await all_told(database)
            await settle(made, timeout_s=60)
            await storm.clear_up()
            await settle(made, timeout_s=60)
            assert await database.fetch("SELECT * FROM audit.broken") == []
            await assert_nothing_left(database)


@asynccontextmanager
async def watched(made: Cluster) -> AsyncIterator[Connection]:
    """A connection to the database, which notes from now on what nobody may do."""
    database = await Database.open(made.dsn)
    async with database.connection() as connection:
        await connection.execute(NOTE_OVERCLAIMS + NOTE_FREE)
        yield connection
    await database.close()


async def all_told(database: Connection) -> None:
    """Until the ledger knows every inventory."""

    async def told() -> bool:
        return not await database.fetchval("""
            SELECT EXISTS (SELECT FROM network.publication WHERE wanted > published)""")

    await until(told)


TABLES = (
    "network.network", "network.segment", "network.subnet", "network.pool", "network.free_range", "network.port",
    "network.address", "network.intent", "network.release", "network.publication", "network.binding",
    "placement.allocation", "placement.consumer", "compute.host_aggregate", "compute.host_aggregate_host",
)  # fmt: skip


async def assert_nothing_left(database: Connection) -> None:
    """Of a network that is deleted; hosts and their providers stay."""
    for table in TABLES:
        assert await database.fetch(f"SELECT * FROM {table}") == [], table
    assert await database.fetch("SELECT name FROM placement.provider WHERE name LIKE 'Neutron%'") == []


class Storm:
    """Sixteen clients that share their ports, and an operator who changes the pools."""

    def __init__(self, client: CloudClient, network_id: str) -> None:
        self.client, self.network_id = client, network_id
        self.random = Random(SEED)
        self.ports: list[str] = []
        self.subnets: dict[int, str] = {}
        self.passing = ""
        self.made = 0
        self.over = False
        self.done: Counter[str] = Counter()
        self.told: Counter[tuple[str, int]] = Counter()
        self.refused: list[str] = []

    async def blow(self) -> None:
        """Until all ports are made."""
        for subnet in await self.client.list_all("/network/v2.0/subnets", "subnets"):
            self.subnets[int(subnet["cidr"].split(".")[1])] = subnet["id"]
        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(self._work(Random(SEED * 1000 + number))) for number in range(CLIENTS)]
            operators = [
                group.create_task(self._operate(Random(SEED * 1000 + number), number)) for number in self.subnets
            ]
            operators.append(group.create_task(self._come_and_go()))
            await asyncio.wait(clients)
            self.over = True
            await asyncio.wait(operators)

    async def clear_up(self) -> None:
        """Delete every port, then the network, with all that belongs to it."""
        for port in await self.client.list_all("/network/v2.0/ports", "ports"):
            await self._call("clear up", "DELETE", f"/network/v2.0/ports/{port['id']}")
        shown = await self.client.list_all("/network/v2.0/subnets", "subnets")
        for segment in {one["segment_id"] for one in shown if one["allocation_pools"]}:  # others have no provider
            usage = await self.client.call("GET", f"/placement/resource_providers/{segment}/usages")
            assert usage["usages"].get("IPV4_ADDRESS", 0) == 0
        await self.client.call("DELETE", f"/network/v2.0/networks/{self.network_id}")

    async def _work(self, random: Random) -> None:
        asks = (
            self._create, self._create_on_host, self._create_named, self._bind, self._bind, self._readdress,
            self._rename, self._delete, self._delete,
        )  # fmt: skip
        while self.made < PORTS:
            await random.choice(asks)(random)

    async def _create(self, random: Random) -> None:
        await self._make("create", {})

    async def _create_on_host(self, random: Random) -> None:
        await self._make("create on a host", {"binding:host_id": self._host(random)})

    async def _create_named(self, random: Random) -> None:
        await self._make("create named", {"fixed_ips": self._fixed_ips(random, random.randrange(1, 5))})

    async def _make(self, what: str, body: Json) -> None:
        answer = await self._call(
            what, "POST", "/network/v2.0/ports", {"port": {"network_id": self.network_id, **body}}
        )
        if answer:
            self.made += 1
            self.ports.append(answer["port"]["id"])

    async def _bind(self, random: Random) -> None:
        if self.ports:
            body = {"port": {"binding:host_id": self._host(random)}}
            await self._call("bind", "PUT", self._port(random), body)

    async def _readdress(self, random: Random) -> None:
        """Other addresses on its own segment: some stay, some go, some come."""
        if not self.ports:
            return
        path = self._port(random)
        found = await self._call("look", "GET", path)
        held = found["port"]["fixed_ips"] if found else []
        if held:
            number = int(held[0]["ip_address"].split(".")[1])
            kept = random.sample(held, random.randrange(len(held) + 1))
            wanted = [*kept, *self._fixed_ips(random, number)][: random.randrange(1, 4)]
            await self._call("readdress", "PUT", path, {"port": {"fixed_ips": wanted}})

    async def _rename(self, random: Random) -> None:
        if self.ports:
            await self._call("rename", "PUT", self._port(random), {"port": {"name": "storm"}})

    async def _delete(self, random: Random, *, least: int = 2 * CLIENTS) -> None:
        if len(self.ports) > least:
            path = self._port(random)
            if await self._call("delete", "DELETE", path) is not None:
                self.ports.remove(path.rpartition("/")[2])

    async def _operate(self, random: Random, number: int) -> None:
        """The pools of one subnet grow and shrink, over and away from what is held; sometimes there is none."""
        while not self.over:
            ends = sorted(random.sample(range(2, 63), 4))
            pools = [(ends[0], ends[1]), (ends[2], ends[3])]
            pools = random.choice([pools, pools, [(2, 62)], [(2, 62)], pools[:1]])
            if random.random() < 0.05:
                pools = []
            shown = [{"start": f"10.{number}.0.{a}", "end": f"10.{number}.0.{b}"} for a, b in pools]
            body = {"subnet": {"allocation_pools": shown}}
            await self._call("pools", "PUT", f"/network/v2.0/subnets/{self.subnets[number]}", body)

    async def _come_and_go(self) -> None:
        segments = await self.client.list_all("/network/v2.0/segments", "segments")
        segment = next(one["id"] for one in segments if one["name"] == f"r{SEGMENTS}")
        wanted = {"network_id": self.network_id, "cidr": PASSING, "ip_version": 4, "segment_id": segment}
        while not self.over or not self.done["go"]:
            if not self.passing:
                answer = await self._call("come", "POST", "/network/v2.0/subnets", {"subnet": wanted})
                self.passing = answer["subnet"]["id"] if answer else ""
            elif await self._call("go", "DELETE", f"/network/v2.0/subnets/{self.passing}") is not None:
                self.passing = ""
            elif self.over:  # a port may be what keeps it
                await self._delete(self.random, least=0)

    def _host(self, random: Random) -> str:
        return f"r{random.randrange(1, SEGMENTS + 1)}-h1"

    def _port(self, random: Random) -> str:
        return f"/network/v2.0/ports/{random.choice(self.ports)}"

    def _fixed_ips(self, random: Random, number: int) -> list[Json]:
        """On one segment: by subnet, by address, or both; inside of its pools or outside."""
        address = f"10.{number}.0.{random.randrange(2, 63)}"
        by_subnet = {"subnet_id": self.subnets[number]}
        wanted: list[Json] = [by_subnet, {"ip_address": address}, {**by_subnet, "ip_address": address}]
        return random.sample(wanted[:2] if random.random() < 0.7 else wanted[2:], 1)

    async def _call(self, what: str, method: str, path: str, body: object = None) -> Json | None:
        try:
            answer = await self.client.call(method, path, body)
        except CloudRefused as error:
            self.told[what, error.status] += 1
            if error.status not in ALLOWED:
                self.refused.append(str(error))
            return None
        self.done[what] += 1
        return answer
