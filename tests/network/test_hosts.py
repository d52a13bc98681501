"""Which hosts reach which segments: as agents report it, host by host, up to the placement aggregates."""

import asyncio
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest
from tests.conductor.world import World
from tests.network.cloud import PROJECT

from roost.compute.service import hosts as host_service
from roost.network.errors import HostNotCompatibleWithFixedIps
from roost.network.model.networks import Network
from roost.network.model.ports import PortChanges, PortFilter, PortRequest
from roost.network.rules import segments
from roost.network.rules.drift import PORT_UNREACHED
from roost.network.service import audit, ports
from roost.network.service import networks as network_service
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.seams.placement import IPV4_ADDRESS


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database)


async def segment_ids(world: World, network: Network) -> dict[str, str]:
    """Physical network -> segment."""
    found = await network_service.list_segments(world.networks)
    return {str(one.physical_network): one.id for one in found if one.network_id == network.id}


async def members(world: World, segment_id: str) -> tuple[list[str], list[str]]:
    """Hosts in the segment's host aggregate, and hosts whose providers are in its placement aggregate."""
    uuid = segments.segment_aggregate_uuid(segment_id)
    there = (await world.networks.compute.list_host_aggregates())[uuid]
    providers = (await world.networks.placement.list_aggregate_providers([uuid]))[uuid]
    names = {host.provider_uuid: host.name for host in await host_service.list_hosts(world.compute)}
    return sorted(there.hosts), sorted(names[one] for one in providers if one in names)


async def where(world: World) -> dict[str, str]:
    """Server id -> host."""
    async with world.database.connection() as connection:
        return {row[0]: row[1] for row in await connection.fetch("SELECT id, host FROM compute.server")}


async def test_a_segment_has_its_provider_and_its_hosts_with_its_first_subnet(world: World) -> None:
    await world.hosts("h1", reach=["rack1"])
    network = await world.cloud.network()
    segment = await world.cloud.segment(network, "rack1")
    await world.hosts("h2", reach=["rack1"])
    await world.hosts("h3", reach=["rack2"])
    assert await world.networks.placement.get_providers([segment.id]) == {}
    assert await world.networks.compute.list_host_aggregates() == {}
    await world.cloud.subnet(network, "10.1.0.0/28", segment)
    assert await members(world, segment.id) == (["h1", "h2"], ["h1", "h2"])
    assert await world.cloud.used(segment.id) == (13, 0)
    await world.cloud.subnet(network, "10.2.0.0/28", segment)
    assert await world.cloud.used(segment.id) == (26, 0)
    await world.settled()


async def test_a_host_that_is_cabled_anew_moves_alone(world: World) -> None:
    await world.hosts("h1", "h2", reach=["rack1"])
    await world.hosts("h3", reach=["rack2"])
    network = await world.routed(rack1="10.1.0.0/28", rack2="10.2.0.0/28")
    ids = await segment_ids(world, network)
    others = """SELECT
        (SELECT array_agg((name, updated_at) ORDER BY name) FROM network.host WHERE name <> 'h1'),
        (SELECT array_agg((name, generation, updated_at) ORDER BY name) FROM placement.provider WHERE name <> 'h1')"""
    async with world.database.connection() as connection:
        before = await connection.fetchrow(others)
        await world.hosts("h1", reach=["rack2"])
        assert await connection.fetchrow(others) == before
    assert await members(world, ids["rack1"]) == (["h2"], ["h2"])
    assert await members(world, ids["rack2"]) == (["h1", "h3"], ["h1", "h3"])
    await world.hosts("h1", reach=[])
    assert await members(world, ids["rack2"]) == (["h3"], ["h3"])
    await world.settled()


async def test_a_host_on_several_segments_of_a_network_works_everywhere(world: World) -> None:
    """Boots until both segments are full, and a client's bind, on the only host."""
    await world.hosts("h1", reach=["rack1", "rack2"])
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    ids = await segment_ids(world, network)
    for segment_id in ids.values():
        assert await members(world, segment_id) == (["h1"], ["h1"])
    request = PortRequest(network_id=network.id, project_id=PROJECT)
    port = await ports.create_port(world.networks, request)
    bound = await ports.update_port(world.networks, port.id, PortChanges(host="h1"))
    assert len(bound.addresses) == 1
    made = await world.boot(network.id, count=9)
    await world.run()
    assert set((await world.statuses()).values()) == {"ACTIVE"}
    assert [await world.cloud.used(one) for one in ids.values()] == [(5, 5), (5, 5)]
    await world.delete(made[0])
    await world.run()
    two = await world.boot(network.id, network.id)
    await world.run()
    assert (await world.statuses())[two[0]] == "ERROR"
    assert "addresses of network net" in await world.fault(two[0])
    await world.settled()


async def test_servers_stay_on_a_host_that_was_cabled_anew_and_new_ones_do_not_come(world: World) -> None:
    await world.hosts("h1", reach=["rack1"])
    network = await world.routed(rack1="10.1.0.0/28", rack2="10.2.0.0/28")
    (server,) = await world.boot(network.id)
    kept = await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT, host="h1"))
    await ports.update_port(world.networks, kept.id, PortChanges(host=""))
    await world.run()
    await world.hosts("h1", reach=["rack2"])
    (port,) = await ports.list_ports(world.networks, PortFilter(device_ids=(server,)))
    assert (port.host, port.addresses[0].address[:5]) == ("h1", "10.1.")
    found = await audit.AUDIT.run(world.networks, repairs=Repairs.ALL)
    assert [(one.kind, one.key, one.repaired) for one in found] == [(PORT_UNREACHED, port.id, False)]
    assert "host h1 does not reach" in found[0].says
    with pytest.raises(HostNotCompatibleWithFixedIps):
        await ports.update_port(world.networks, kept.id, PortChanges(host="h1"))
    (refused,) = await world.boot(port_id=kept.id)
    (fresh,) = await world.boot(network.id)
    await world.run()
    assert (await world.statuses()) == {server: "ACTIVE", refused: "ERROR", fresh: "ACTIVE"}
    (there,) = await ports.list_ports(world.networks, PortFilter(device_ids=(fresh,)))
    assert there.addresses[0].address[:5] == "10.2."
    await world.hosts("h1", reach=["rack1", "rack2"])
    assert await audit.AUDIT.run(world.networks, repairs=Repairs.NONE) == []
    await world.hosts("h1", reach=["rack2"])
    await world.delete(server)
    await world.run()
    assert await audit.AUDIT.run(world.networks, repairs=Repairs.NONE) == []
    ids = await segment_ids(world, network)
    usages = await world.networks.placement.list_usages([ids["rack1"]])
    assert usages[ids["rack1"]][IPV4_ADDRESS] == (13, 1)


@contextmanager
def counting(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every statement that carries a name of ours."""
    seen: list[str] = []
    with monkeypatch.context() as patch:
        for method in ("fetch", "fetchrow", "fetchval", "execute"):
            real = getattr(asyncpg.connection.Connection, method)

            def noting(real: Any) -> Any:
                async def run(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
                    if query.lstrip().startswith("-- "):
                        seen.append(query.split("\n")[0 if query.startswith("--") else 1])
                    return await real(self, query, *arguments, **options)

                return run

            patch.setattr(asyncpg.connection.Connection, method, noting(real))
        yield seen


async def test_registering_hosts_costs_as_many_statements_for_a_hundred_on_many_segments(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream wrote every mapping once for each host and each worker (LP 1743579, LP 1952730)."""
    racks = {f"rack{number}": f"10.{number}.0.0/28" for number in range(20)}
    await world.routed(**racks)
    counts = []
    for names, reach in ((["a1"], ["rack1"]), ([f"b{n}" for n in range(100)], list(racks))):
        with counting(world, monkeypatch) as seen:
            await world.declare(*names, reach=reach)
        counts.append(len(seen))
    assert counts[1] <= counts[0] <= 60, counts
    with counting(world, monkeypatch) as seen:
        await world.declare(*(f"b{n}" for n in range(100)), reach=list(racks))
    assert len(seen) == 1, "nothing has changed"


async def test_hosts_that_register_all_at_once_are_all_where_they_belong(world: World) -> None:
    network = await world.routed(rack0="10.1.0.0/28", rack1="10.2.0.0/28")
    ids = await segment_ids(world, network)

    async def register(names: Sequence[str], rack: str) -> None:
        await world.hosts(*names, reach=[rack])

    await asyncio.gather(*(register([f"h{n}"], f"rack{n % 2}") for n in range(16)))
    for number, rack in enumerate(("rack0", "rack1")):
        expected = sorted(f"h{n}" for n in range(16) if n % 2 == number)
        assert await members(world, ids[rack]) == (expected, expected)
    assert await audit.AUDIT.run(world.networks, repairs=Repairs.NONE) == []
    await world.settled()
