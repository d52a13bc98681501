import asyncio
import contextvars
from typing import Any

import pytest
from tests.blocked import until_blocked
from tests.network.cloud import PROJECT, Cloud, assert_sound, counting, execute
from tests.network.test_ipv6 import SLAAC

from roost.network.model.ports import PortChanges, PortRequest
from roost.network.service import networks as service
from roost.network.service.ports import create_port, get_port, update_port
from roost.seams.network import BindRefused, Bound, Nic, PortBind, PortsRefused


async def test_a_server_goes_through_its_ports_life(cloud: Cloud) -> None:
    network, (rack1, _) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    assert await cloud.used(rack1.id) == (5, 0)
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert (port.needs_address, port.pinned, port.preserve_on_delete) == (True, False, False)
    made = await get_port(cloud.networks, port.id)
    assert (made.device_id, made.device_owner) == (server.server_id, "compute:nova"), "found again, whoever dies"
    assert await cloud.claim([port.id], rack1.id)
    bound = await cloud.bind(server, port, "h1", rack1.id)
    assert bound.addresses == ("10.1.0.2",)
    assert (await cloud.ensure(server))[0].pinned is False
    await cloud.client.settle_ports([server.server_id])
    assert (await cloud.ensure(server))[0].pinned is True
    await assert_sound(cloud)
    await cloud.client.release_ports([server], restore=False)
    assert await cloud.used(rack1.id) == (5, 0)
    await assert_sound(cloud)


async def test_ensure_bind_and_release_can_be_repeated(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    server = cloud.server(Nic(tag="0", network_id=network.id), Nic(tag="1", network_id=network.id))
    first = await cloud.ensure(server)
    assert await cloud.ensure(server) == first
    assert await cloud.claim([port.id for port in first], rack1.id)
    binds = [
        PortBind(port_id=p.id, server_id=server.server_id, host="h1", provider_uuid=rack1.id, revision=p.revision)
        for p in first
    ]
    answers = await cloud.client.bind_ports(binds)
    assert all(isinstance(answer, Bound) for answer in answers)
    assert await cloud.client.bind_ports(binds) == answers
    await cloud.client.release_ports([server], restore=True)
    await cloud.client.release_ports([server], restore=True)
    assert await cloud.used(rack1.id) == (5, 0)
    assert isinstance((await cloud.client.bind_ports(binds))[0], BindRefused)
    await assert_sound(cloud)


async def test_a_port_that_another_conductor_has_bound_since_it_was_read_stays_where_it_is(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert await cloud.claim([port.id], rack1.id)
    await cloud.bind(server, port, "h1", rack1.id)
    await cloud.client.set_hosts({"h3": ["rack1"]})
    late = PortBind(
        port_id=port.id, server_id=server.server_id, host="h3", provider_uuid=rack1.id, revision=port.revision
    )
    (answer,) = await cloud.client.bind_ports([late])
    assert isinstance(answer, BindRefused)
    assert answer.changed
    assert (await get_port(cloud.networks, port.id)).host == "h1"
    await assert_sound(cloud)


async def test_a_refused_nic_leaves_nothing_behind(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29")
    server = cloud.server(Nic(tag="0", network_id=network.id), Nic(tag="1", port_id=network.id))
    (answer,) = await cloud.client.ensure_ports([server])
    assert isinstance(answer, PortsRefused)
    await service.delete_network(cloud.networks, network.id)


async def test_a_users_port_goes_once_to_one_server_of_its_project(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29")
    mine, others = [
        await create_port(cloud.networks, PortRequest(network_id=network.id, project_id=project_id))
        for project_id in (PROJECT, "another")
    ]
    nic, again = Nic(tag="0", port_id=mine.id), Nic(tag="1", port_id=mine.id)

    async def refusals(*servers: Any) -> list[str]:
        return [a.reason for a in await cloud.client.ensure_ports(servers) if isinstance(a, PortsRefused)]

    foreign = cloud.server(Nic(tag="0", port_id=others.id))
    assert await refusals(foreign) == [f"Port {others.id} could not be found."]
    assert await refusals(cloud.server(nic, again)) == [f"Port {mine.id} is named twice."]
    await execute(cloud, "INSERT INTO network.intent VALUES ($1, now() + interval '60 s')", mine.id)
    assert await refusals(cloud.server(nic)) == [f"Port {mine.id} is being given an address: repeat the request."]
    await execute(cloud, "DELETE FROM network.intent")
    assert await refusals(cloud.server(nic), cloud.server(nic)) == [f"Port {mine.id} is still in use."]


async def test_a_port_that_was_taken_from_its_server_and_given_to_another_stays_when_the_first_goes(
    cloud: Cloud,
) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    first = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(first)
    assert await cloud.claim([port.id], rack1.id)
    await cloud.bind(first, port, "h1", rack1.id)
    await cloud.client.settle_ports([first.server_id])
    await update_port(cloud.networks, port.id, PortChanges(device_id=""))
    second = cloud.server(Nic(tag="0", port_id=port.id))
    (taken,) = await cloud.ensure(second)
    await cloud.client.release_ports([first], restore=False)
    await cloud.bind(second, taken, "h1", None)
    assert taken.preserve_on_delete
    assert await cloud.used(rack1.id) == (5, 1)
    await assert_sound(cloud)


@pytest.mark.parametrize("operation", ["ensure", "bind", "settle", "release"])
async def test_the_number_of_statements_does_not_grow_with_the_ports(cloud: Cloud, operation: str) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/22")
    counts = []
    for size in (1, 100):
        servers = [cloud.server(Nic(tag="0", network_id=network.id)) for _ in range(size)]
        with counting(cloud) as ensure:
            found = await cloud.ensure(*servers)
        assert await cloud.claim([port.id for port in found], rack1.id)
        binds = [
            PortBind(port_id=p.id, server_id=s.server_id, host="h1", provider_uuid=rack1.id, revision=p.revision)
            for s, p in zip(servers, found, strict=True)
        ]
        with counting(cloud) as bind:
            answers = await cloud.client.bind_ports(binds)
        assert len({answer.addresses for answer in answers if isinstance(answer, Bound)}) == size
        with counting(cloud) as settle:
            await cloud.client.settle_ports([server.server_id for server in servers])
        with counting(cloud) as release:
            await cloud.client.release_ports(servers, restore=False)
        counts.append(len({"ensure": ensure, "bind": bind, "settle": settle, "release": release}[operation]))
    assert counts[0] == counts[1]
    assert counts[0] <= 20
    await assert_sound(cloud)


async def test_builds_that_end_lock_their_ports_in_order(cloud: Cloud) -> None:
    """Else they and who gives all of a network's ports an address wait for each other."""
    network, (rack1,) = await cloud.routed("10.1.0.0/24")
    nic = Nic(tag="0", network_id=network.id)
    servers = sorted((cloud.server(nic) for _ in range(2)), key=lambda server: nic.port_id_of(server.server_id))
    (last,), (first,) = [await cloud.ensure(server) for server in reversed(servers)]
    assert first.id < last.id
    assert await cloud.claim([first.id, last.id], rack1.id)
    for server, port in zip(servers, (first, last), strict=True):
        await cloud.bind(server, port, "h1", rack1.id)
    async with cloud.networks.database.transaction() as tx:
        await tx.execute("SELECT FROM network.port WHERE id = $1 FOR UPDATE", last.id)
        settling = asyncio.create_task(
            cloud.client.settle_ports([server.server_id for server in servers]), context=contextvars.Context()
        )
        await until_blocked(cloud.networks.database, 1)
        spreading = asyncio.create_task(
            cloud.subnet(network, "2001:db8::/64", rack1, **SLAAC), context=contextvars.Context()
        )
        await until_blocked(cloud.networks.database, 2)
    await asyncio.gather(settling, spreading)
