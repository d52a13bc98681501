"""Ports and their addresses, in process: bound in sets, and filled to the last."""

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.network.cloud import Cloud

from benchmarks.ledger import meter_of, private_database
from benchmarks.machine import Measured, get_server
from benchmarks.rows import Kind, Row
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

PROJECT = "benchmark"
THOUSAND = 1000


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


def measure(row: Row) -> Measured:
    """Measure the row's figure once a round, each in a new world."""
    return Measured.of([asyncio.run(MEASUREMENTS[row.kind](row)) for _ in range(row.rounds)])


async def bind(row: Row) -> Measured:
    """Measure ports per second, claimed and bound with an address each, in sets that lie across all segments."""
    async with _world(row) as world:
        ports = await world.ports(row.amount)
        places = list(itertools.islice(itertools.cycle(world.segments), row.amount))
        async with meter_of(world.database).stretch(row.amount, "port") as stretch:
            for start in range(0, row.amount, row.batch):
                chosen, on = ports[start : start + row.batch], places[start : start + row.batch]
                await world.claim(chosen, [provider for _, provider in on])
                await world.bind(chosen, on)
        async with meter_of(world.database).watch() as connection:
            return Measured([row.amount / stretch.seconds], [stretch], await get_server(connection))


async def fill(row: Row) -> Measured:
    """Measure how many times longer the last thousand addresses of a network take than its first thousand."""
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
        async with world.database.connection() as connection:
            return Measured([sum(last) / sum(first)], [], await get_server(connection))


MEASUREMENTS = {Kind.BIND: bind, Kind.FILL: fill}


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


def _wide(row: Row) -> str:
    """A network of which `held` and `amount` addresses may be taken, and not many more."""
    return f"10.0.0.0/{32 - (row.held + row.amount + 3).bit_length()}"


def _claim(port: Port, provider: str) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=port.id, generation=None, consumer_type=ConsumerType.PORT.value, project_id=PROJECT,
        user_id=PROJECT, allocations={provider: {IPV4_ADDRESS: 1}},
    )  # fmt: skip
