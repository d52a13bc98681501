"""A fleet of 60 hosts whose agents go from service version 1 to 3 and back, under boots, moves and deletes.

Every server is built in an order that the agents which live then allow, also while they are replaced; every one that
was accepted is ACTIVE or deleted in the end, no port is made twice or leaked, and no user's port is deleted.
ROOST_STORM_SEED gives other choices, ROOST_FLEET_S makes each step longer; the table of orders over time is printed.
"""

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from random import Random
from typing import Any

from tests.cluster import Cluster, boot, cluster, network_ids, settle, until

from roost.cli.asking.cloud_client import CloudClient, CloudRefused
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


MOVES_MIN = DELETES_MIN = 20
KEEP_ORDERS = (
    "CREATE TABLE compute.order_seen (server_id uuid, name text, created_at timestamptz, chosen_at timestamptz)",
    "CREATE FUNCTION compute.note_order() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO compute.order_seen VALUES (NEW.id, NEW.build_order ->> 'name', NEW.created_at,"
    " (NEW.build_order ->> 'chosen_at')::timestamptz); RETURN NULL; END $$",
    "CREATE TRIGGER note_order AFTER UPDATE OF build_order ON compute.server"
    " FOR EACH ROW EXECUTE FUNCTION compute.note_order()",
)
"""What keeps the orders of servers that are deleted."""


async def test_a_fleet_goes_from_old_agents_to_new_ones_and_back() -> None:
    with cluster() as made:
        made.serve(conductors=2, environment={"ROOST_COMPUTE_SERVICE_VERSION_MIN": "1"})
        made.load(CLOUD)
        fleet = Fleet(made)
        async with CloudClient.connect(made.url) as client:
            database = await Database.open(made.dsn, size=2)
            try:
                async with database.connection() as connection:
                    for statement in KEEP_ORDERS:
                        await connection.execute(statement)
                stream = Stream(client, (await network_ids(client))["public"], Random(SEED))
                await stream.bring_ports(6)
                steps = []
                for versions in FLEETS:
                    steps.append((f"to {versions}", await _now(database)))
                    await fleet.become(versions, stream, database)
                    steps.append((f"{versions}", await _now(database)))
                    await stream.flow(STEP_S)
                while stream.begun["move"] < MOVES_MIN or stream.begun["delete"] < DELETES_MIN:
                    await stream.flow(STEP_S)  # the machine is busy
                await _finish(made, client, stream, database)
                async with database.connection() as connection:
                    seen = await connection.fetch("SELECT * FROM compute.order_seen")
            finally:
                await database.close()
    _check_orders(seen, steps, fleet, stream)


def _check_orders(seen: Sequence[Any], steps: Sequence[tuple[str, datetime]], fleet: "Fleet", stream: "Stream") -> None:
    """Each server has an order that was right between its request and its choice; each step has servers."""
    orders_by_step: dict[str, Counter[str]] = {f"{number}. {step}": Counter() for number, (step, _) in enumerate(steps)}
    for row in seen:
        number = max(number for number, (_, began_at) in enumerate(steps) if began_at <= row["created_at"])
        orders_by_step[f"{number}. {steps[number][0]}"][row["name"]] += 1
    table = "\n".join(f"{step}: {dict(orders)}" for step, orders in orders_by_step.items())
    print(f"\nagents of the racks: orders of the builds that began\n{table}")  # noqa: T201
    assert {str(row["server_id"]) for row in seen} >= stream.accepted - stream.deleted
    for row in seen:
        right = {ALLOWED[min(versions)] for versions in fleet.in_force(row["created_at"], row["chosen_at"])}
        assert row["name"] in right, (row, right, fleet.spells, table)
    _, *orders_after_first = orders_by_step.values()  # in the first there is no agent yet
    assert all(orders_after_first), table
    for number, versions in enumerate(FLEETS):
        assert orders_after_first[2 * number][ALLOWED[min(versions)]], table


@dataclass
class Spell:
    """When a rack may have had agents of a version. over_at: when the next one was seen; None: it was not replaced."""

    version: int
    began_at: datetime
    over_at: datetime | None = None


class Fleet:
    """One agent for each rack of 20 hosts; its state is kept when another version takes its place."""

    def __init__(self, made: Cluster) -> None:
        self.made = made
        self.processes: dict[str, Any] = {}
        self.spells: dict[str, list[Spell]] = {rack: [] for rack in RACKS}

    def in_force(self, since: datetime, until_at: datetime) -> Iterator[tuple[int, ...]]:
        """The versions of the racks that may have been there together at some time in between."""
        return product(
            *(
                [s.version for s in spells if s.began_at <= until_at and (s.over_at is None or s.over_at >= since)]
                for spells in self.spells.values()
            )
        )

    async def become(self, versions: tuple[int, ...], stream: "Stream", database: Database) -> None:
        """Replace the agents whose version is another now, while the stream flows."""
        replaced = asyncio.Event()
        flowing = asyncio.create_task(stream.flow(STEP_S, until_set=replaced)) if self.processes else None
        changed = {}
        for rack, version in zip(RACKS, versions, strict=True):
            if not self.spells[rack] or self.spells[rack][-1].version != version:
                await asyncio.to_thread(self._stop, rack)
                self.spells[rack].append(Spell(version, await _now(database)))
                self._start(rack, version)
                changed[rack] = version

        async def known() -> bool:
            async with database.connection() as connection:
                rows = await connection.fetch(
                    "SELECT now() AS at, split_part(name, '-', 1) AS rack, service_version AS version"
                    " FROM compute.host WHERE NOT silent GROUP BY 2, 3 HAVING count(*) = 20"
                )
            for row in rows:
                if changed.get(row["rack"]) == row["version"]:
                    del changed[row["rack"]]
                    for spell in self.spells[row["rack"]][-2:-1]:
                        spell.over_at = row["at"]
            return not changed

        await until(known, what=f"the agents are not {versions}\n{self.made.logs()}")
        replaced.set()
        if flowing is not None:
            await flowing

    def _stop(self, rack: str) -> None:
        if rack in self.processes:
            self.made.stop(self.processes.pop(rack))

    def _start(self, rack: str, version: int) -> None:
        hosts = [f"--host={rack}-h{number}" for number in range(1, 21)]
        words = (*hosts, f"--service-version={version}", "--fake-delay=0.05", f"--physical-network=rack{rack[1:]}")
        self.processes[rack] = self.made.agent(*words, state=f"agent-{rack}", wait=False)


class Stream:
    """Clients that boot, move and delete servers, some with ports of their own."""

    def __init__(self, client: CloudClient, network: str, random: Random) -> None:
        self.client, self.network, self.random = client, network, random
        self.ports: list[str] = []
        self.accepted: set[str] = set()
        self.deleted: set[str] = set()
        self.server_by_port: dict[str, str] = {}
        self.begun: Counter[str] = Counter()

    async def bring_ports(self, count: int) -> None:
        """Ports that a user makes before any server."""
        for _ in range(count):
            body = {"port": {"network_id": self.network, "name": "mine"}}
            self.ports.append((await self.client.call("POST", "/network/v2.0/ports", body))["port"]["id"])

    async def flow(self, for_s: float, *, until_set: asyncio.Event | None = None) -> None:
        """Ask for something again and again, at least one boot: for so long, and at most until the event is set."""
        over_at = time.monotonic() + for_s
        await self._boot()
        while time.monotonic() < over_at and not (until_set and until_set.is_set()):
            await self.random.choice((self._boot, self._boot, self._delete, self._move))()
            await asyncio.sleep(self.random.random() * 0.05)  # a client thinks

    async def servers(self) -> dict[str, Any]:
        """By id."""
        return {server["id"]: server for server in await self.client.list_servers()}

    async def _boot(self) -> None:
        room = SERVERS_MAX - len(await self.servers())
        if room <= 0:
            await self._delete()
            room = 1
        for port in await self._free_ports():
            if self.random.random() < 0.2:
                (self.server_by_port[port],) = await self._accept([{"port": port}], count=1)
                return
        await self._accept([{"uuid": self.network}], count=min(room, self.random.choice((1, 2, 3))))

    async def _accept(self, nics: Sequence[Mapping[str, str]], *, count: int) -> list[str]:
        """Boot servers, each by itself, so that each is named in an answer; their ids."""
        server_ids = await asyncio.gather(*(boot(self.client, nics) for _ in range(count)))
        self.accepted.update(server_ids)
        self.begun["boot"] += count
        return server_ids

    async def _free_ports(self) -> list[str]:
        """The user's ports that no server has, or will have."""
        ports = await self.client.list_all("/network/v2.0/ports", "ports")
        going = self.accepted - self.deleted
        return [
            port["id"]
            for port in ports
            if port["id"] in self.ports and not port["device_id"] and self.server_by_port.get(port["id"]) not in going
        ]

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
    others = [(one["id"], one["status"], one.get("fault")) for one in servers.values() if one["status"] != "ACTIVE"]
    assert not others, f"{others}\n{made.logs()}"
    ports = await client.list_all("/network/v2.0/ports", "ports")
    by_server = Counter(port["device_id"] for port in ports if port["device_id"])
    assert by_server == dict.fromkeys(servers, 1), (by_server, servers)
    assert set(stream.ports) <= {port["id"] for port in ports}
    print(dict(stream.begun))  # noqa: T201
    for server_id in servers:
        await client.call("DELETE", f"/compute/v2.1/servers/{server_id}")
    await settle(made)
    left = await client.list_all("/network/v2.0/ports", "ports")
    assert sorted(port["id"] for port in left) == sorted(stream.ports)
    async with database.connection() as connection:
        assert not await connection.fetchval("SELECT count(*) FROM compute.server")


async def _now(database: Database) -> Any:
    async with database.connection() as connection:
        return await connection.fetchval("SELECT now()")
