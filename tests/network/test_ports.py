import asyncio
from typing import Any

import pytest
from tests.network.cloud import PROJECT, Cloud, assert_sound

from roost.network.errors import (
    HostNotCompatibleWithFixedIps,
    HostNotConnectedToAnySegment,
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
    NetworkInUse,
    PortInUse,
    SubnetInUse,
)
from roost.network.model.networks import Network
from roost.network.model.ports import FixedIpRequest, Port, PortChanges, PortFilter, PortRequest
from roost.network.service import networks as network_service
from roost.network.service import ports, subnets
from roost.network.service.reconciler import reconcile_once
from roost.network.store import ports as port_rows
from roost.seams.network import Bound, EnsuredPorts, Nic, PortBind, PortsRefused


async def create(cloud: Cloud, network: Network, *addresses: str, **more: Any) -> Port:
    fixed_ips = tuple(FixedIpRequest(ip_address=address) for address in addresses) or None
    request = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=fixed_ips, **more)
    return await ports.create_port(cloud.networks, request)


async def test_sixteen_clients_get_exactly_the_addresses_there_are(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.14"), ("10.0.0.20", "10.0.0.20")])
    answers = await asyncio.gather(*(create(cloud, network) for _ in range(16)), return_exceptions=True)
    made = [answer for answer in answers if isinstance(answer, Port)]
    assert len(made) == 6
    assert len({port.addresses[0].address for port in made}) == 6
    assert all(isinstance(answer, (Port, IpAddressGenerationFailure)) for answer in answers)
    assert await cloud.used(network.id) == (6, 6)
    await assert_sound(cloud)
    await asyncio.gather(*(ports.delete_port(cloud.networks, port.id) for port in made))
    assert await cloud.used(network.id) == (6, 0)
    await assert_sound(cloud)


async def test_a_named_address_is_given_once_and_returns(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/29")
    port = await create(cloud, network, "10.0.0.4")
    with pytest.raises(IpAddressAlreadyAllocated):
        await create(cloud, network, "10.0.0.4")
    outside = await create(cloud, network, "10.0.0.1")
    assert outside.addresses[0].in_pool is False
    assert await cloud.used(network.id) == (5, 1)
    await ports.delete_port(cloud.networks, port.id)
    assert (await create(cloud, network, "10.0.0.4")).addresses[0].address == "10.0.0.4"
    await assert_sound(cloud)


async def test_a_deferred_port_gets_its_address_where_it_is_bound(cloud: Cloud) -> None:
    network, (_, rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    port = await create(cloud, network)
    assert (port.ip_allocation, port.addresses) == ("deferred", ())
    with pytest.raises(HostNotConnectedToAnySegment):
        await ports.update_port(cloud.networks, port.id, PortChanges(host="nowhere"))
    bound = await ports.update_port(cloud.networks, port.id, PortChanges(host="h2"))
    assert bound.addresses[0].address == "10.2.0.2"
    assert await cloud.used(rack2.id) == (5, 1)
    with pytest.raises(HostNotCompatibleWithFixedIps):
        await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))
    await assert_sound(cloud)


async def test_a_host_on_a_full_segment_uses_its_other_one(cloud: Cloud) -> None:
    network, (_, rack2) = await cloud.routed("10.1.0.0/30", "10.2.0.0/30")
    await cloud.client.set_hosts({"both": ["rack1", "rack2"]})
    made = [await create(cloud, network, host="both") for _ in range(2)]
    assert {port.addresses[0].address for port in made} == {"10.1.0.2", "10.2.0.2"}
    with pytest.raises(IpAddressGenerationFailure):
        await create(cloud, network, host="both")
    assert await cloud.used(rack2.id) == (1, 1)
    await assert_sound(cloud)


async def test_one_port_wanted_by_two_servers_goes_to_exactly_one(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29")
    port = await create(cloud, network)
    servers = [cloud.server(Nic(tag="0", network_id=network.id), Nic(tag="1", port_id=port.id)) for _ in range(4)]
    answers = [a for found in await asyncio.gather(*(cloud.client.ensure_ports([s]) for s in servers)) for a in found]
    assert sum(isinstance(answer, EnsuredPorts) for answer in answers) == 1
    assert sum(isinstance(answer, PortsRefused) for answer in answers) == 3
    assert len(await ports.list_ports(cloud.networks, PortFilter(network_ids=(network.id,)))) == 2
    again = await cloud.client.ensure_ports([servers[0], servers[1]])
    assert sum(isinstance(answer, EnsuredPorts) for answer in again) <= 1


async def test_a_reserved_port_is_refused_to_clients_and_restored_as_it_came(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    before = await create(cloud, network, name="mine", device_owner="someone")
    server = cloud.server(Nic(tag="0", port_id=before.id))
    (port,) = await cloud.ensure(server)
    with pytest.raises(PortInUse):
        await ports.update_port(cloud.networks, port.id, PortChanges(name="other"))
    during = await ports.get_port(cloud.networks, port.id)
    assert (during.device_id, during.device_owner) == (server.server_id, "compute:nova")
    assert await cloud.claim([port.id], rack1.id)
    await cloud.bind(server, port, "h1", rack1.id)
    await cloud.client.release_ports([server], restore=True)
    after = await ports.get_port(cloud.networks, port.id)
    kept = ("name", "device_id", "device_owner", "host", "vif_type", "addresses", "reserved_from", "mac_address")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert await cloud.used(rack1.id) == (5, 0)
    await assert_sound(cloud)


async def test_a_users_port_keeps_its_address_when_its_server_goes(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    mine = await create(cloud, network)
    server = cloud.server(Nic(tag="0", port_id=mine.id))
    (port,) = await cloud.ensure(server)
    assert await cloud.claim([port.id], rack1.id)
    await cloud.bind(server, port, "h1", rack1.id)
    await cloud.client.settle_ports([server.server_id])
    await cloud.client.release_ports([server], restore=False)
    after = await ports.get_port(cloud.networks, port.id)
    assert (after.device_id, after.host, len(after.addresses)) == ("", None, 1)
    assert await cloud.used(rack1.id) == (5, 1)
    (pinned,) = await cloud.ensure(cloud.server(Nic(tag="0", port_id=mine.id)))
    assert (pinned.pinned, pinned.needs_address, pinned.provider_uuid) == (True, False, rack1.id)
    await assert_sound(cloud)


async def test_unassigning_takes_the_address_and_leaves_the_claim(cloud: Cloud) -> None:
    network, (rack1, _) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert await cloud.claim([port.id], rack1.id)
    bound = await cloud.bind(server, port, "h1", rack1.id)
    await cloud.client.unassign_ports({port.id: bound.revision - 1})
    assert (await cloud.ensure(server))[0].addresses == ("10.1.0.2",)
    await cloud.client.unassign_ports({port.id: bound.revision})
    (again,) = await cloud.ensure(server)
    assert (again.needs_address, again.host) == (True, None)
    assert await cloud.used(rack1.id) == (5, 1)


async def test_a_nic_that_names_an_address_has_it_before_it_is_placed(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    server = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip="10.1.0.5"))
    (port,) = await cloud.ensure(server)
    assert (port.addresses, port.pinned, port.provider_uuid) == (("10.1.0.5",), True, rack1.id)
    other = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip="10.1.0.5"))
    (answer,) = await cloud.client.ensure_ports([other])
    assert isinstance(answer, PortsRefused)
    assert "10.1.0.5 already allocated" in answer.reason
    assert await cloud.used(rack1.id) == (5, 1)
    await cloud.client.release_ports([server], restore=True)
    assert await cloud.used(rack1.id) == (5, 0)
    await assert_sound(cloud)


async def test_a_subnet_that_ports_or_builds_use_cannot_go(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    subnet_id = (await subnets.list_subnets(cloud.networks))[0].id
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert await cloud.claim([port.id], rack1.id)
    with pytest.raises(SubnetInUse):
        await subnets.delete_subnet(cloud.networks, subnet_id)
    assert await cloud.used(rack1.id) == (5, 1)
    await cloud.bind(server, port, "h1", rack1.id)
    with pytest.raises(SubnetInUse):
        await subnets.delete_subnet(cloud.networks, subnet_id)
    await cloud.client.release_ports([server], restore=True)
    await network_service.delete_network(cloud.networks, network.id)
    assert await cloud.networks.placement.list_usages([rack1.id]) == {}
    assert cloud.compute.aggregates == {}


async def test_a_network_with_a_port_keeps_its_subnets(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    await create(cloud, network)
    with pytest.raises(NetworkInUse):
        await network_service.delete_network(cloud.networks, network.id)
    assert len(await subnets.list_subnets(cloud.networks)) == 1
    assert await cloud.used(rack1.id) == (5, 0)


async def test_hosts_and_segments_find_each_other_in_any_order(cloud: Cloud) -> None:
    await cloud.client.set_hosts({"early": ["rack1", "other"], "elsewhere": ["other"]})
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    view = (await cloud.client.get_networks([network.id]))[network.id]
    aggregate = view.segments[0].placement_aggregate
    assert aggregate is not None
    assert cloud.compute.members[aggregate] == {"early", "h1"}
    await cloud.client.set_hosts({"early": []})
    assert cloud.compute.members[aggregate] == {"h1"}
    assert (await cloud.networks.placement.list_aggregate_providers([aggregate]))[aggregate] == [rack1.id]


async def test_conductors_clients_and_reconcilers_at_once_leave_sound_books(cloud: Cloud) -> None:
    network, segments = await cloud.routed("10.1.0.0/27", "10.2.0.0/27")

    async def conductor(number: int) -> None:
        for turn in range(3):
            servers = [cloud.server(Nic(tag="0", network_id=network.id)) for _ in range(4)]
            found = await cloud.ensure(*servers)
            there = segments[(number + turn) % 2]
            won = [(s, p) for s, p in zip(servers, found, strict=True) if await cloud.claim([p.id], there.id)]
            host = "h1" if there is segments[0] else "h2"
            binds = [
                PortBind(port_id=p.id, server_id=s.server_id, host=host, provider_uuid=there.id, revision=p.revision)
                for s, p in won
            ]
            answers = await cloud.client.bind_ports(binds)
            assert all(isinstance(answer, Bound) for answer in answers), answers
            await cloud.client.settle_ports([s.server_id for s in servers[:2]])
            await cloud.client.release_ports(servers, restore=turn % 2 == 0)

    async def client() -> None:
        for _ in range(6):
            port = await create(cloud, network, host="h1")
            await ports.delete_port(cloud.networks, port.id)

    async with asyncio.TaskGroup() as tasks:
        for number in range(5):
            tasks.create_task(conductor(number))
        for _ in range(3):
            tasks.create_task(client())
        for _ in range(3):
            tasks.create_task(reconcile_once(cloud.networks))
    await reconcile_once(cloud.networks)
    assert [await cloud.used(segment.id) for segment in segments] == [(29, 0), (29, 0)]
    await assert_sound(cloud)


async def test_to_lock_a_port_by_its_id_looks_at_no_hidden_ports(cloud: Cloud) -> None:
    """A condition that nothing fulfils implies that of any index, so PostgreSQL may read a whole one for it."""
    network = await cloud.plain("10.0.0.0/29")
    port = await create(cloud, network)
    statements: list[Any] = []
    async with cloud.networks.database.transaction() as tx:
        with tx.query_logger(statements.append):
            assert list(await port_rows.lock_ports(tx, [port.id])) == [port.id]
        await tx.execute("SET LOCAL enable_seqscan = off")
        for item in statements:
            plan = await tx.fetchval(f"EXPLAIN (FORMAT JSON) {item.query}", *item.args)
            assert "port_pkey" in plan
            assert "port_unknown_guest" not in plan
