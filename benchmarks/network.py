"""Ports and their addresses: bound in sets and filled to the last in process, made and listed over HTTP."""

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.cluster import cluster
from tests.network.cloud import Cloud

from benchmarks.ledger import private_database
from benchmarks.machine import Server, get_server
from benchmarks.rows import Kind, Row
from roost.cli.asking.cloud_client import CloudClient, Json
from roost.cli.serving.cloud_wiring import CloudParts
from roost.cli.settings import read_settings
from roost.clients.local_network import LocalNetwork
from roost.compute.model.work import CHANNELS
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.auth import Unrestricted
from roost.platform.database import Database
from roost.platform.wakeup import Wakeups
from roost.seams.network import Bound, BuildClient, EnsuredPorts, Nic, Port, PortBind, ServerNics
from roost.seams.placement import IPV4_ADDRESS, ClaimClient, Claimed, ClaimGroup, ConsumerClaim, ConsumerType

CLIENTS = 8
PROJECT = "benchmark"
WORKERS = 2
TOGETHER = 250
"""Ports that are made at once before listing is measured."""

THOUSAND = 1000
UNHURRIED = {"ROOST_NETWORK_RECONCILE_S": "10", "ROOST_NETWORK_INTENT_S": "60", "ROOST_NETWORK_PUBLISH_LEASE_S": "10"}
"""The defaults, instead of the times that tests can wait for."""


@dataclass(frozen=True)
class World:
    """A network service on a ledger, both in this process, and one network. segments: host name -> provider there."""

    row: Row
    placement: ClaimClient
    network: BuildClient
    database: Database
    network_id: str
    segments: Sequence[tuple[str, str]]

    async def ports(self, count: int) -> list[tuple[str, Port]]:
        """(server, port) for so many new servers with a NIC each; their ports have no address yet."""
        nics = (Nic(tag="0", network_id=self.network_id),)
        servers = [ServerNics(server_id=str(uuid.uuid4()), project_id=PROJECT, nics=nics) for _ in range(count)]
        answers = await self.network.ensure_ports(servers)
        assert all(isinstance(answer, EnsuredPorts) for answer in answers), answers[0]
        return [(a.server_id, a.ports[0]) for a in answers if isinstance(a, EnsuredPorts)]

    async def claim(self, ports: Sequence[tuple[str, Port]], providers: Sequence[str]) -> None:
        """As the conductor does, but for the hosts' own resources."""
        groups = [ClaimGroup((_claim(port, provider),)) for (_, port), provider in zip(ports, providers, strict=True)]
        answers = await self.placement.claim(groups)
        assert all(isinstance(answer, Claimed) for answer in answers), answers[0]

    async def bind(self, ports: Sequence[tuple[str, Port]], places: Sequence[tuple[str, str]]) -> None:
        """Each port on its host, with an address from where it is claimed."""
        binds = [
            PortBind(port_id=port.id, server_id=server, host=host, provider_uuid=provider, revision=port.revision)
            for (server, port), (host, provider) in zip(ports, places, strict=True)
        ]
        answers = await self.network.bind_ports(binds)
        assert all(isinstance(answer, Bound) and len(answer.addresses) == 1 for answer in answers), answers[0]


async def measure(row: Row) -> tuple[list[float], Server]:
    """The row's figure once a round, each in a new world; and on what PostgreSQL."""
    figures = []
    for _ in range(row.rounds):
        figure, server = await MEASUREMENTS[row.kind](row)
        figures.append(figure)
    return figures, server


async def bind(row: Row) -> tuple[float, Server]:
    """Ports per second, claimed and bound with an address each, in sets that lie across all segments."""
    async with _world(row) as world:
        ports = await world.ports(row.amount)
        places = list(itertools.islice(itertools.cycle(world.segments), row.amount))
        started = time.perf_counter()
        for start in range(0, row.amount, row.batch):
            chosen, on = ports[start : start + row.batch], places[start : start + row.batch]
            await world.claim(chosen, [provider for _, provider in on])
            await world.bind(chosen, on)
        seconds = time.perf_counter() - started
        return row.amount / seconds, await _server(world.database)


async def fill(row: Row) -> tuple[float, Server]:
    """How many times longer the last thousand addresses of a network take than its first thousand."""
    async with _world(row) as world:
        (place,) = world.segments
        free = (await world.placement.list_usages([place[1]]))[place[1]][IPV4_ADDRESS][0]
        taken: list[float] = []
        while free:
            count = min(row.batch, free)
            ports = await world.ports(count)
            started = time.perf_counter()
            await world.claim(ports, [place[1]] * count)
            await world.bind(ports, [place] * count)
            taken.append(time.perf_counter() - started)
            free -= count
        sets = max(1, min(THOUSAND // row.batch, len(taken) // 3))
        # The very last set may be smaller than the others.
        first, last = taken[1 : 1 + sets], taken[-1 - sets : -1]
        return sum(last) / sum(first), await _server(world.database)


async def create(row: Row) -> tuple[float, Server]:
    """Ports per second that eight clients make one by one, each answered with its address."""
    async with _served(row) as (client, database, network_id):
        left = iter(range(row.amount))

        async def make() -> None:
            for number in left:
                body = {"port": {"network_id": network_id, "name": f"p{number}"}}
                made: Json = (await client.call("POST", "/network/v2.0/ports", body))["port"]
                assert made["ip_allocation"] == "immediate", made
                assert len(made["fixed_ips"]) == 1, made

        started = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CLIENTS):
                tasks.create_task(make())
        return row.amount / (time.perf_counter() - started), await _server(database)


async def list_device(row: Row) -> tuple[float, Server]:
    """Milliseconds in which one client gets the ports of one device among all that are held, over HTTP."""
    async with _served(row) as (client, database, network_id):
        held = [
            {"network_id": network_id, "device_id": f"device-{number}", "fixed_ips": []} for number in range(row.held)
        ]
        for start in range(0, row.held, TOGETHER):
            await asyncio.gather(
                *(client.call("POST", "/network/v2.0/ports", {"port": p}) for p in held[start : start + TOGETHER])
            )
        started = time.perf_counter()
        for number in range(row.amount):
            device = f"device-{number * 7919 % row.held}"
            found = (await client.call("GET", f"/network/v2.0/ports?device_id={device}"))["ports"]
            assert [port["device_id"] for port in found] == [device]
        return (time.perf_counter() - started) * 1000 / row.amount, await _server(database)


MEASUREMENTS = {Kind.BIND: bind, Kind.FILL: fill, Kind.PORT_CREATE: create, Kind.PORT_LIST: list_device}


@asynccontextmanager
async def _world(row: Row) -> AsyncIterator[World]:
    async with private_database() as database:
        ledger = Ledger(database)
        await sync_standard_names(ledger)
        parts = CloudParts.wire(ledger, Wakeups(database, CHANNELS), read_settings(None), Unrestricted())
        cloud = Cloud(parts.networks, LocalNetwork(parts.networks), parts.compute)
        if row.segments == 1:
            network = await cloud.plain(_wide(row))
            places = [("host0", network.id)]
        else:
            network, segments = await cloud.routed(*(f"10.{number}.0.0/24" for number in range(row.segments)))
            places = [(f"h{number}", segment.id) for number, segment in enumerate(segments, 1)]
        yield World(row, parts.networks.placement, cloud.client, database, network.id, places)


@asynccontextmanager
async def _served(row: Row) -> AsyncIterator[tuple[CloudClient, Database, str]]:
    with cluster() as made:
        made.serve("placement", "network", workers=WORKERS, environment=UNHURRIED)
        database = await Database.open(made.dsn, size=1)
        try:
            async with CloudClient.connect(made.url) as client:
                network = await client.call("POST", "/network/v2.0/networks", {"network": {"name": "public"}})
                subnet = {"network_id": network["network"]["id"], "ip_version": 4, "cidr": _wide(row)}
                await client.call("POST", "/network/v2.0/subnets", {"subnet": subnet})
                yield client, database, network["network"]["id"]
        finally:
            await database.close()


def _wide(row: Row) -> str:
    """A network of which `held` and `amount` addresses may be taken, and not many more."""
    return f"10.0.0.0/{32 - (row.held + row.amount + 3).bit_length()}"


async def _server(database: Database) -> Server:
    async with database.connection() as connection:
        return await get_server(connection)


def _claim(port: Port, provider: str) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=port.id, generation=None, consumer_type=ConsumerType.PORT.value, project_id=PROJECT,
        user_id=PROJECT, allocations={provider: {IPV4_ADDRESS: 1}},
    )  # fmt: skip
