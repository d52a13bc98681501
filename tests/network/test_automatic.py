"""Subnets whose addresses follow from MACs, deleted while ports have such; see also conductor/test_network_deletes."""

import asyncio

import pytest
from tests.invariants import assert_books_agree
from tests.network.cloud import Cloud
from tests.network.test_ipv6 import SLAAC, STATELESS, addresses, bind, create, listed
from tests.next_call import after

from roost.network.errors import RevisionNumberConstraintFailed, SubnetInUse
from roost.network.model.ports import Port
from roost.network.rules import uses
from roost.network.service import ports, subnets
from roost.network.service.reconciler import reconcile_once
from roost.network.store import ports as port_rows
from roost.seams.compute import PortsChange
from roost.seams.placement import IPV4_ADDRESS


async def test_an_automatic_subnet_takes_its_addresses_with_it(cloud: Cloud) -> None:
    """Also of who named the subnet, and of all owners but routers' interfaces."""
    network = await cloud.plain("10.0.0.0/24", physical_network="rack1")
    going = await cloud.subnet(network, "2001:db8:a::/64", **STATELESS)
    await cloud.subnet(network, "2001:db8:b::/64", **SLAAC)
    servers = [cloud.networks.env.new_uuid() for _ in range(2)]
    of_server = await create(cloud, network, device_id=servers[0])
    named = await create(cloud, network, device_id=servers[1], fixed_ips=[{"subnet_id": going.id}])
    snat = await create(
        cloud, network, device_owner="network:router_centralized_snat", fixed_ips=[{"subnet_id": going.id}]
    )
    dhcp = await create(cloud, network, device_owner="network:dhcp")
    elsewhere = await create(cloud, network, fixed_ips=[])
    used = await cloud.used(network.id)
    cloud.compute.told.clear()
    await subnets.delete_subnet(cloud.networks, going.id)
    now = {port.id: port for port in await listed(cloud)}
    for port in (of_server, named, snat, dhcp):
        left = [item.address for item in port.addresses if item.subnet_id != going.id]
        assert (addresses(now[port.id]), now[port.id].revision) == (left, port.revision + 1)
        assert len(left) == len(port.addresses) - 1
    assert now[elsewhere.id] == elsewhere
    assert sorted(change.server_id for change in cloud.compute.told) == sorted(servers)
    assert await cloud.used(network.id) == used
    await assert_books_agree(cloud.networks.database)


async def test_guests_on_other_segments_are_told_that_an_automatic_subnet_is_gone(cloud: Cloud) -> None:
    """They had a route to it."""
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/24", "10.2.0.0/24")
    await cloud.subnet(network, "2001:db8:1::/64", rack1, **SLAAC)
    going = await cloud.subnet(network, "2001:db8:2::/64", rack2, **SLAAC)
    server_id = cloud.networks.env.new_uuid()
    await create(cloud, network, device_id=server_id, device_owner="compute:nova", host="h1")
    await reconcile_once(cloud.networks)
    cloud.compute.told.clear()
    await subnets.delete_subnet(cloud.networks, going.id)
    await reconcile_once(cloud.networks)
    assert [change.server_id for change in cloud.compute.told] == [server_id]


async def test_a_routers_interface_keeps_its_automatic_subnet_and_all_addresses(cloud: Cloud) -> None:
    network = await cloud.network()
    subnet = await cloud.subnet(network, "2001:db8::/64", **SLAAC)
    port = await create(cloud, network, device_id=cloud.networks.env.new_uuid())
    router = await create(
        cloud, network, fixed_ips=[{"ip_address": "2001:db8::1"}], device_owner=uses.INTERFACE_OWNERS[-1]
    )
    with pytest.raises(SubnetInUse, match=f"Router ports have addresses in subnet {subnet.id}: delete {router.id}"):
        await subnets.delete_subnet(cloud.networks, subnet.id)
    assert await listed(cloud) == sorted([port, router], key=lambda one: one.id)
    assert await subnets.get_subnet(cloud.networks, subnet.id) == subnet
    await ports.delete_port(cloud.networks, router.id)
    with pytest.raises(RevisionNumberConstraintFailed):
        await subnets.delete_subnet(cloud.networks, subnet.id, revision=subnet.revision + 1)
    await subnets.delete_subnet(cloud.networks, subnet.id, revision=subnet.revision)
    assert cloud.compute.aggregates == {}
    await assert_books_agree(cloud.networks.database)


async def test_a_build_goes_on_when_an_automatic_subnet_goes_and_its_server_is_looked_at_when_it_is_over(
    cloud: Cloud,
) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/24")
    subnet = await cloud.subnet(network, "2001:db8::/64", rack1, **SLAAC)
    await bind(cloud, 1, rack1, "h1", network, claimed=(IPV4_ADDRESS,))
    (before,) = await listed(cloud)
    await subnets.delete_subnet(cloud.networks, subnet.id)
    await reconcile_once(cloud.networks)
    (now,) = await listed(cloud)
    assert (addresses(now), now.revision) == (addresses(before)[:1], before.revision)
    assert cloud.compute.told == []
    await cloud.client.settle_ports([before.device_id])
    await reconcile_once(cloud.networks)
    assert cloud.compute.told == [PortsChange(before.device_id)]
    await assert_books_agree(cloud.networks.database, settled=False)


async def test_a_port_that_gets_an_address_while_its_automatic_subnet_is_being_locked_loses_it_too(
    cloud: Cloud,
) -> None:
    network = await cloud.plain()
    subnet = await cloud.subnet(network, "2001:db8::/64", **SLAAC)
    made: list[Port] = []

    async def come() -> None:
        made.append(await create(cloud, network))

    after(port_rows, "lock_ports", come)
    await subnets.delete_subnet(cloud.networks, subnet.id)
    assert [len(port.addresses) for port in made] == [2]
    assert [len(port.addresses) for port in await listed(cloud)] == [1]
    await assert_books_agree(cloud.networks.database)


async def test_who_gets_addresses_all_at_once_while_an_automatic_subnet_goes_keeps_none_of_it(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/24")
    for number in range(4):
        subnet = await cloud.subnet(network, f"2001:db8:{number}::/64", rack1, **SLAAC)
        await asyncio.gather(
            *(create(cloud, network, host="h1") for _ in range(6)),
            cloud.subnet(network, f"2001:db8:f{number}::/64", rack1, **SLAAC),
            subnets.delete_subnet(cloud.networks, subnet.id),
            bind(cloud, 5, rack1, "h1", network, claimed=(IPV4_ADDRESS,)),
        )
        held = [item.subnet_id for port in await listed(cloud) for item in port.addresses]
        assert subnet.id not in held
    await assert_books_agree(cloud.networks.database, settled=False)
