"""A fleet of 60 hosts whose agents go from service version 1 to 3 and back, under boots, moves and deletes.

Every server is built in an order that the agents which live then allow, none is lost, no port is made twice or leaked,
and no user's port is deleted. ROOST_STORM_SEED gives other choices, ROOST_FLEET_S makes each step longer; the table of
orders over time is printed.
"""

import asyncio
import contextlib
import os
import time
from collections import Counter
from random import Random
from typing import Any

from tests.cluster import Cluster, boot, cluster, network_ids, settle, until

from roost.cli.cloud_client import CloudClient, CloudRefused
from roost.platform.database import Database

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/26}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 2, subnets: [{cidr: 10.2.0.0/26}]}
      - {name: rack3, physical_network: rack3, network_type: vlan, segmentation_id: 3, subnets: [{cidr: 10.3.0.0/26}]}
hosts:
  - {name: 'r1-h[1-20]', vcpus: 64, ram_mb: 32768, disk_gb: 800, physical_networks: [rack1]}
  - {name: 'r2-h[1-20]', vcpus: 64, ram_mb: 32768, disk_gb: 800, physical_networks: [rack2]}
  - {name: 'r3-h[1-20]', vcpus: 64, ram_mb: 32768, disk_gb: 800, physical_networks: [rack3]}
"""
RACKS = ("r1", "r2", "r3")
FLEETS = ((1, 1, 1), (2, 1, 1), (2, 2, 2), (3, 2, 2), (3, 3, 3), (3, 3, 1), (1, 1, 1))
"""The service version of each rack's agent, step by step."""
ALLOWED: dict[int, str] = {1: "late", 2: "early-create", 3: "early"}
STEP_S = float(os.environ.get("ROOST_FLEET_S", "1.5"))
SEED = int(os.environ.get("ROOST_STORM_SEED", "1"))
SERVERS_MAX = 60


async def test_a_fleet_goes_from_old_agents_to_new_ones_and_back() -> None:
    with cluster() as made:
        made.serve(conductors=2)
        made.load(CLOUD)
        fleet = Fleet(made)
        async with CloudClient.connect(made.url) as client:
            database = await Database.open(made.dsn, size=2)
            try:
                stream = Stream(client, (await network_ids(client))["public"], Random(SEED))
                await stream.bring_ports(6)
                rows = []
                for versions in FLEETS:
                    await fleet.become(versions, stream, database)
                    began = await _now(database)
                    await stream.flow(STEP_S)
                    rows.append((versions, await _orders_since(database, began)))
                await _finish(made, client, stream, database)
            finally:
                await database.close()
    table = "\n".join(f"{versions}: {dict(orders)}" for versions, orders in rows)
    print(f"\nagents of the racks: orders of the builds that began\n{table}")  # noqa: T201
    for versions, orders in rows:
        assert set(orders) == {ALLOWED[min(versions)]}, table


class Fleet:
    """One agent for each rack of 20 hosts; its state is kept when another version takes its place."""

    def __init__(self, made: Cluster) -> None:
        self.made = made
        self.processes: dict[str, Any] = {}
        self.versions: dict[str, int] = {}

    async def become(self, versions: tuple[int, ...], stream: "Stream", database: Database) -> None:
        """Replace the agents whose version is another now, while the stream flows."""
        changed = [rack for rack, v in zip(RACKS, versions, strict=True) if self.versions.get(rack) != v]
        flowing = asyncio.create_task(stream.flow(0.5)) if self.processes else None
        for rack, version in zip(RACKS, versions, strict=True):
            if rack in changed:
                await asyncio.to_thread(self._replace, rack, version)
        if flowing is not None:
            await flowing

        async def known() -> bool:
            async with database.connection() as connection:
                rows = await connection.fetch(
                    "SELECT split_part(name, '-', 1) AS rack, service_version, count(*) AS hosts FROM compute.host"
                    " WHERE NOT silent GROUP BY 1, 2"
                )
            return {(row[0], row[1], row[2]) for row in rows} == {
                (rack, version, 20) for rack, version in zip(RACKS, versions, strict=True)
            }

        await until(known, what=f"the agents are not {versions}\n{self.made.logs()}")

    def _replace(self, rack: str, version: int) -> None:
        if rack in self.processes:
            self.made.stop(self.processes[rack])
        hosts = [f"--host={rack}-h{number}" for number in range(1, 21)]
        words = (*hosts, f"--service-version={version}", "--fake-delay=0.05", f"--physical-network=rack{rack[1:]}")
        self.processes[rack] = self.made.agent(*words, state=f"agent-{rack}", wait=False)
        self.versions[rack] = version


class Stream:
    """Clients that boot, move and delete servers, some with ports of their own."""

    def __init__(self, client: CloudClient, network: str, random: Random) -> None:
        self.client, self.network, self.random = client, network, random
        self.ports: list[str] = []
        self.accepted: set[str] = set()
        self.deleted: set[str] = set()
        self.begun: Counter[str] = Counter()

    async def bring_ports(self, count: int) -> None:
        """Ports that a user makes before any server."""
        for _ in range(count):
            body = {"port": {"network_id": self.network, "name": "mine"}}
            self.ports.append((await self.client.call("POST", "/network/v2.0/ports", body))["port"]["id"])

    async def flow(self, for_s: float) -> None:
        """Ask for something again and again; at least one boot."""
        over_at = time.monotonic() + for_s
        await self._boot()
        while time.monotonic() < over_at:
            await self.random.choice((self._boot, self._boot, self._delete, self._move))()
            await asyncio.sleep(self.random.random() * 0.05)  # a client thinks

    async def servers(self) -> dict[str, Any]:
        """By id."""
        return {server["id"]: server for server in await self.client.list_servers()}

    async def _boot(self) -> None:
        servers = await self.servers()
        if len(servers) >= SERVERS_MAX:
            return
        free = [port for port in self.ports if self.random.random() < 0.2]
        nics = [{"port": free[0]}] if free else [{"uuid": self.network}]
        with contextlib.suppress(CloudRefused):  # a port of the user's that another server has
            await boot(self.client, nics, count=1 if free else self.random.choice((1, 2, 3)))
            self.begun["boot"] += 1
        self.accepted |= (await self.servers()).keys()

    async def _delete(self) -> None:
        servers = list(await self.servers())
        if len(servers) > 10:
            server_id = self.random.choice(servers)
            with contextlib.suppress(CloudRefused):
                await self.client.call("DELETE", f"/compute/v2.1/servers/{server_id}")
                self.deleted.add(server_id)
                self.begun["delete"] += 1

    async def _move(self) -> None:
        servers = [one["id"] for one in (await self.servers()).values() if one["status"] == "ACTIVE"]
        if servers:
            action = self.random.choice(
                ({"migrate": None}, {"os-migrateLive": {"host": None, "block_migration": "auto"}})
            )
            with contextlib.suppress(CloudRefused):
                path = f"/compute/v2.1/servers/{self.random.choice(servers)}/action"
                await self.client.call("POST", path, action)
                self.begun["move"] += 1


async def _finish(made: Cluster, client: CloudClient, stream: Stream, database: Database) -> None:
    """All comes to its end; the servers are there, and go with every port but the user's."""

    async def calm() -> bool:
        servers = (await stream.servers()).values()
        for server in servers:
            if (server["status"], server["OS-EXT-STS:task_state"]) == ("VERIFY_RESIZE", None):
                with contextlib.suppress(CloudRefused):
                    path = f"/compute/v2.1/servers/{server['id']}/action"
                    await client.call("POST", path, {"confirmResize": None})
        return all(one["OS-EXT-STS:task_state"] is None and one["status"] != "VERIFY_RESIZE" for one in servers)

    await until(calm, what=made.logs())
    await settle(made)
    servers = await stream.servers()
    assert servers.keys() == stream.accepted - stream.deleted
    own = {server["id"] for server in servers.values() if server["status"] == "ACTIVE"}
    ports = await client.list_all("/network/v2.0/ports", "ports")
    by_server = Counter(port["device_id"] for port in ports if port["device_id"])
    assert by_server == dict.fromkeys(own, 1), (by_server, servers)
    assert set(stream.ports) <= {port["id"] for port in ports}
    print(dict(stream.begun))  # noqa: T201
    for server_id in servers:
        await client.call("DELETE", f"/compute/v2.1/servers/{server_id}")
    await settle(made)
    left = await client.list_all("/network/v2.0/ports", "ports")
    assert sorted(port["id"] for port in left) == sorted(stream.ports)
    assert stream.begun["move"] > 1
    async with database.connection() as connection:
        assert not await connection.fetchval("SELECT count(*) FROM compute.server")


async def _now(database: Database) -> Any:
    async with database.connection() as connection:
        return await connection.fetchval("SELECT now()")


async def _orders_since(database: Database, began: Any) -> Counter[str]:
    """The orders of servers that were asked for since, as far as they are still there."""

    async def chosen() -> bool:
        async with database.connection() as connection:
            return not await connection.fetchval(
                "SELECT count(*) FROM compute.server WHERE build_order IS NULL AND created_at >= $1"
                " AND task_state IS DISTINCT FROM 'deleting'",
                began,
            )

    await until(chosen)
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT build_order ->> 'name' AS name, count(*) AS servers FROM compute.server"
            " WHERE created_at >= $1 AND build_order IS NOT NULL GROUP BY 1",
            began,
        )
    return Counter({row["name"]: row["servers"] for row in rows})
