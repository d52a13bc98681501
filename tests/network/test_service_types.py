"""Service-type subnets: for whom, which first, what is counted; and what a refusal names."""

import pytest
from msgspec.structs import replace
from tests.invariants import assert_books_agree
from tests.network.cloud import Cloud
from tests.network.test_availability import a_subnet
from tests.network.test_ipv6 import addresses, create

from roost.network.errors import (
    HostNotConnectedToAnySegment,
    InvalidInput,
    IpAddressGenerationFailure,
    IpAddressGenerationFailureNoMatchingSubnet,
    SubnetsNotAllAssociatedWithSegments,
)
from roost.network.model.networks import SubnetChanges
from roost.network.model.ports import PortChanges
from roost.network.rules.requests import claimed_demands
from roost.network.service import ports, subnets
from roost.seams.network import Nic
from roost.seams.placement import IPV4_ADDRESS

ROUTERS = ("network:router_gateway",)


async def test_a_subnet_of_a_type_is_for_its_owners_and_comes_first_for_them(cloud: Cloud) -> None:
    network = await cloud.network()
    await cloud.subnet(network, "10.0.0.0/29", service_types=ROUTERS)
    await cloud.subnet(network, "10.1.0.0/29", service_types=("compute:nova",))
    await cloud.subnet(network, "10.2.0.0/29")
    assert await cloud.used(network.id) == (10, 0)
    unowned = await create(cloud, network)
    assert addresses(unowned) == ["10.2.0.2"]
    gateway = await create(cloud, network, device_owner="network:router_gateway")
    assert addresses(gateway) == ["10.0.0.2"]
    assert [(item.in_pool, item.claimed) for item in gateway.addresses] == [(True, False)]
    server = await create(cloud, network, device_owner="compute:nova")
    assert addresses(server) == ["10.1.0.2"]
    assert await cloud.used(network.id) == (10, 2)
    with pytest.raises(InvalidInput):
        await create(cloud, network, fixed_ips=[{"subnet_id": gateway.addresses[0].subnet_id}])
    await assert_books_agree(cloud.networks.database, settled=False)


async def test_whoever_has_an_address_of_a_pool_has_claimed_it_whatever_its_owner_becomes(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    port = await create(cloud, network, device_owner=ROUTERS[0], host="h1")
    assert await cloud.used(rack1.id) == (5, 1)
    await assert_books_agree(cloud.networks.database, settled=False)
    for other in ("compute:nova", "network:dhcp", ""):
        changed = await ports.update_port(cloud.networks, port.id, PortChanges(device_owner=other))
        assert changed.addresses == port.addresses
        assert await cloud.used(rack1.id) == (5, 1)
    await assert_books_agree(cloud.networks.database)


async def test_what_is_no_capacity_is_used_up_before_capacity_is_claimed(cloud: Cloud) -> None:
    network = await cloud.network()
    await cloud.subnet(network, "10.0.0.0/30", service_types=ROUTERS)
    await cloud.subnet(network, "10.2.0.0/29")
    got = [addresses(await create(cloud, network, device_owner=ROUTERS[0]))[0] for _ in range(3)]
    assert got == ["10.0.0.2", "10.2.0.2", "10.2.0.3"]
    assert await cloud.used(network.id) == (5, 2)
    await assert_books_agree(cloud.networks.database)


async def test_a_network_for_others_alone_has_nothing_for_a_server(cloud: Cloud) -> None:
    network = await cloud.network()
    await cloud.subnet(network, "10.0.0.0/29", service_types=ROUTERS)
    assert await cloud.networks.placement.list_usages([network.id]) == {}
    view = (await cloud.client.get_networks([network.id]))[network.id]
    assert [(part.classes, part.gives_addresses) for part in view.segments] == [((), False)]
    for owner in ("", "compute:nova"):
        with pytest.raises(IpAddressGenerationFailureNoMatchingSubnet):
            await create(cloud, network, device_owner=owner)
    for _ in range(5):
        await create(cloud, network, device_owner=ROUTERS[0])
    with pytest.raises(IpAddressGenerationFailure, match="0 of 5 free"):
        await create(cloud, network, device_owner=ROUTERS[0])
    await assert_books_agree(cloud.networks.database)


def test_a_bind_takes_from_subnets_of_a_type_first() -> None:
    plain, typed = (a_subnet(f"10.{number}.0.0/24", number=number) for number in (1, 2))
    typed = replace(typed, service_types=("compute:nova",))
    (demand,) = claimed_demands("port", [IPV4_ADDRESS], [plain, typed])
    assert demand.subnet_ids == (typed.id, plain.id)


async def test_a_server_is_never_bound_to_an_address_of_anothers_subnet(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/30")
    await cloud.subnet(network, "10.0.0.0/24", rack1, service_types=ROUTERS)
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert await cloud.used(rack1.id) == (1, 0)
    assert await cloud.claim([port.id], rack1.id)
    assert (await cloud.bind(server, port, "h1", rack1.id)).addresses == ("10.1.0.2",)
    again = cloud.server(Nic(tag="0", network_id=network.id))
    (other,) = await cloud.ensure(again)
    assert not await cloud.claim([other.id], rack1.id, (IPV4_ADDRESS,))


async def test_a_full_subnet_is_named_though_its_segment_has_room(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    small = await cloud.subnet(network, "10.2.0.0/30", rack1, name="small")
    await create(cloud, network, fixed_ips=[{"subnet_id": small.id}])
    assert await cloud.used(rack1.id) == (6, 1)
    with pytest.raises(IpAddressGenerationFailure) as refused:
        await create(cloud, network, fixed_ips=[{"subnet_id": small.id}])
    assert str(refused.value).startswith(f"No more IP addresses available on subnet small ({small.id}). Addresses of ")
    assert "small 0 of 1 free" in str(refused.value)
    assert "5 of 5 free" in str(refused.value)
    assert await cloud.used(rack1.id) == (6, 1)
    await assert_books_agree(cloud.networks.database)


async def test_a_subnet_that_is_routed_to_needs_no_segment(cloud: Cloud) -> None:
    """Source: Neutron: all subnets of a network have a segment or none has, but those of network:routed."""
    network, (rack1, _rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    with pytest.raises(SubnetsNotAllAssociatedWithSegments):
        await cloud.subnet(network, "10.9.0.0/29")
    routed_to = await cloud.subnet(network, "10.9.0.0/29", service_types=("network:routed",))
    await cloud.subnet(network, "10.3.0.0/29", rack1)
    await cloud.segment(network, "rack3")
    gateway = await create(cloud, network, device_owner="network:routed")
    assert (gateway.ip_allocation, addresses(gateway)) == ("immediate", ["10.9.0.2"])
    assert await cloud.networks.placement.list_usages([network.id]) == {}
    unowned = await create(cloud, network)
    assert (unowned.ip_allocation, unowned.addresses) == ("deferred", ())
    assert addresses(await create(cloud, network, host="h1"))[0] in ("10.1.0.2", "10.3.0.2")
    with pytest.raises(HostNotConnectedToAnySegment):
        await create(cloud, network, host="nowhere")
    with pytest.raises(SubnetsNotAllAssociatedWithSegments):
        await subnets.update_subnet(cloud.networks, routed_to.id, SubnetChanges(service_types=()))
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert await cloud.claim([port.id], rack1.id)
    assert (await cloud.bind(server, port, "h1", rack1.id)).addresses[0].startswith(("10.1.", "10.3."))
    await assert_books_agree(cloud.networks.database, settled=False)


async def test_a_network_may_begin_with_a_subnet_that_is_routed_to(cloud: Cloud) -> None:
    network = await cloud.network()
    await cloud.subnet(network, "10.9.0.0/29", service_types=("network:routed",))
    segment = await cloud.segment(network, "rack1")
    await cloud.subnet(network, "10.1.0.0/29", segment)
    with pytest.raises(SubnetsNotAllAssociatedWithSegments):
        await cloud.subnet(network, "10.2.0.0/29")
    assert await cloud.used(segment.id) == (5, 0)


async def test_a_subnet_that_is_routed_to_stays_so_where_the_others_would_have_to_be_on_segments(cloud: Cloud) -> None:
    """As one that is made so is refused: it could join no segment any more, and no other subnet could be made."""
    network = await cloud.network()
    await cloud.segment(network, "rack1")
    await cloud.segment(network, "rack2")
    routed_to = await cloud.subnet(network, "10.9.0.0/29", service_types=("network:routed",))
    with pytest.raises(SubnetsNotAllAssociatedWithSegments):
        await subnets.update_subnet(cloud.networks, routed_to.id, SubnetChanges(service_types=()))
    assert await subnets.list_subnets(cloud.networks) == [routed_to]
