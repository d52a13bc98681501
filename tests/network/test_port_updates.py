"""What a client's change of a port makes of its addresses, its claim and its MAC address."""

import asyncio
from typing import Any

import pytest
from tests.network.cloud import PROJECT, Cloud, assert_sound, execute
from tests.network.test_releases import EXPIRE, held, rows
from tests.next_call import after

from roost.network.errors import (
    FixedIpsSubnetsNotOnSameSegment,
    HostNotCompatibleWithFixedIps,
    HostNotConnectedToAnySegment,
    InvalidInput,
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
    MacAddressInUse,
    PortBound,
    PortChanged,
    PortInUse,
)
from roost.network.model.networks import Network
from roost.network.model.ports import FixedIpRequest, Port, PortChanges, PortRequest
from roost.network.service import ports, subnets
from roost.network.service.reconciler import Reconciled, reconcile_once
from roost.seams.network import Nic
from roost.seams.placement import IPV4_ADDRESS


async def create(cloud: Cloud, network: Network, *addresses: str, **more: Any) -> Port:
    fixed_ips = named(*addresses) if addresses else None
    request = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=fixed_ips, **more)
    return await ports.create_port(cloud.networks, request)


async def update(cloud: Cloud, port: Port, **changes: Any) -> Port:
    return await ports.update_port(cloud.networks, port.id, PortChanges(**changes))


def named(*addresses: str) -> tuple[FixedIpRequest, ...]:
    return tuple(FixedIpRequest(ip_address=address) for address in addresses)


def of(port: Port) -> list[str]:
    return sorted(item.address for item in port.addresses)


async def claimed(cloud: Cloud, port: Port) -> int:
    return sum(resources[IPV4_ADDRESS] for resources in (await held(cloud, port.id)).values())


async def sound(cloud: Cloud, port: Port) -> None:
    """The claim is the addresses, and nothing hangs."""
    assert await claimed(cloud, port) == sum(item.claimed for item in port.addresses)
    assert await rows(cloud) == 0
    assert await reconcile_once(cloud.networks) == Reconciled()
    await assert_sound(cloud)


@pytest.mark.parametrize(
    ("before", "asked", "stays", "count"),
    [
        (["10.0.0.4"], ["10.0.0.4", "10.0.0.5"], ["10.0.0.4"], 2),
        (["10.0.0.4"], ["10.0.0.9"], ["10.0.0.9"], 1),
        (["10.0.0.4"], [], [], 0),
        (["10.0.0.4"], ["10.0.0.1"], ["10.0.0.1"], 1),
        (["10.0.0.4", "10.0.0.5"], ["10.0.0.5", "10.0.0.6", None], ["10.0.0.4", "10.0.0.5", "10.0.0.6"], 3),
    ],
)
async def test_addresses_that_stay_stay_and_the_claim_follows(
    cloud: Cloud, before: list[str], asked: list[str | None], stays: list[str], count: int
) -> None:
    """None names the subnet alone: an address of it that the port has is kept for that."""
    network = await cloud.plain("10.0.0.0/28")
    subnet_id = (await subnets.list_subnets(cloud.networks))[0].id
    port = await create(cloud, network, *before)
    wanted = tuple(FixedIpRequest(subnet_id=subnet_id if a is None else None, ip_address=a) for a in asked)
    changed = await update(cloud, port, fixed_ips=wanted)
    assert set(stays) <= set(of(changed))
    assert len(changed.addresses) == count
    assert {item.subnet_id for item in changed.addresses} <= {subnet_id}
    assert changed.ip_allocation == port.ip_allocation
    assert changed.revision == port.revision + 1
    await sound(cloud, changed)


async def test_an_address_is_exchanged_where_no_other_is_free(cloud: Cloud) -> None:
    """As many as before need no new claim."""
    network = await cloud.plain("10.0.0.0/28", pools=[("10.0.0.4", "10.0.0.5")])
    port = await create(cloud, network, "10.0.0.4")
    other = await create(cloud, network, "10.0.0.5")
    with pytest.raises(IpAddressAlreadyAllocated):
        await update(cloud, port, fixed_ips=named("10.0.0.5"))
    with pytest.raises(IpAddressGenerationFailure):
        await update(cloud, port, fixed_ips=(*named("10.0.0.4"), FixedIpRequest(subnet_id=port.addresses[0].subnet_id)))
    await ports.delete_port(cloud.networks, other.id)
    changed = await update(cloud, port, fixed_ips=named("10.0.0.5"))
    assert of(changed) == ["10.0.0.5"]
    await sound(cloud, changed)


async def test_a_refused_change_leaves_the_port_and_its_claim_as_they_were(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    port = await create(cloud, network, "10.1.0.2")
    await create(cloud, network, "10.1.0.3")
    for fixed_ips, error in (
        (named("10.1.0.2", "10.1.0.3"), IpAddressAlreadyAllocated),
        (named("10.1.0.2", "10.2.0.3"), FixedIpsSubnetsNotOnSameSegment),
        (named("10.2.0.2", "10.2.0.2"), InvalidInput),
        (named("192.0.2.1"), Exception),
        ((FixedIpRequest(subnet_id=network.id),), InvalidInput),
    ):
        with pytest.raises(error):
            await update(cloud, port, fixed_ips=fixed_ips, name="new")
    assert await ports.get_port(cloud.networks, port.id) == port
    await sound(cloud, port)


async def test_an_unbound_port_goes_to_another_segment_and_a_bound_one_only_where_its_host_reaches(
    cloud: Cloud,
) -> None:
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    port = await create(cloud, network, "10.1.0.2")
    port = await update(cloud, port, fixed_ips=named("10.2.0.2"))
    assert await held(cloud, port.id) == {rack2.id: {IPV4_ADDRESS: 1}}
    assert await cloud.used(rack1.id) == (5, 0)
    await sound(cloud, port)
    bound = await update(cloud, port, host="h2")
    with pytest.raises(HostNotCompatibleWithFixedIps, match=f"on segment rack1.*reaches segment rack2 .{rack2.id}"):
        await update(cloud, bound, fixed_ips=named("10.1.0.2"))
    with pytest.raises(HostNotCompatibleWithFixedIps):
        await update(cloud, bound, fixed_ips=named("10.2.0.2"), host="h1")
    moved = await update(cloud, bound, fixed_ips=named("10.1.0.2"), host="h1")
    assert (moved.host, of(moved)) == ("h1", ["10.1.0.2"])
    await sound(cloud, moved)


async def test_a_distributed_services_port_may_be_on_several_segments(cloud: Cloud) -> None:
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    port = await create(cloud, network, "10.1.0.2", device_owner="network:distributed")
    changed = await update(cloud, port, fixed_ips=named("10.1.0.2", "10.2.0.2"))
    assert await held(cloud, port.id) == {rack1.id: {IPV4_ADDRESS: 1}, rack2.id: {IPV4_ADDRESS: 1}}
    await sound(cloud, changed)


async def test_a_port_that_was_a_distributed_services_goes_where_a_host_reaches_all_its_segments(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    port = await create(cloud, network, "10.1.0.2", device_owner="network:distributed")
    port = await update(cloud, port, fixed_ips=named("10.1.0.2", "10.2.0.2"))
    port = await update(cloud, port, device_owner="")
    await cloud.client.set_hosts({"both": ["rack1", "rack2"]})
    bound = await update(cloud, port, host="both")
    assert (bound.host, of(bound)) == ("both", ["10.1.0.2", "10.2.0.2"])
    with pytest.raises(FixedIpsSubnetsNotOnSameSegment):
        await update(cloud, bound, fixed_ips=named("10.1.0.2", "10.2.0.2"))
    await sound(cloud, bound)


async def test_fixed_ips_without_a_host_are_given_on_a_routed_network(cloud: Cloud) -> None:
    """LP 1844124: an update of fixed_ips failed where the port had no host. LP 1695740: named ones were lost."""
    network, _ = await cloud.routed("10.1.0.0/29")
    deferred = await create(cloud, network)
    subnet_id = (await subnets.list_subnets(cloud.networks))[0].id
    changed = await update(cloud, deferred, fixed_ips=(FixedIpRequest(subnet_id=subnet_id),))
    assert of(changed) == ["10.1.0.2"]
    await sound(cloud, changed)
    immediate = await create(cloud, network, "10.1.0.5")
    assert (of(immediate), immediate.ip_allocation) == (["10.1.0.5"], "immediate")


async def test_a_mac_address_and_a_host_in_one_update_leave_the_deferred_address(cloud: Cloud) -> None:
    """LP 1811905: it was lost."""
    network, _ = await cloud.routed("10.1.0.0/29")
    port = await create(cloud, network)
    changed = await update(cloud, port, mac_address="FA-16-3E-00-00-77", host="h1")
    assert (changed.mac_address, of(changed)) == ("fa:16:3e:00:00:77", ["10.1.0.2"])
    await sound(cloud, changed)


async def test_a_bound_ports_mac_address_stays_and_no_two_ports_have_one(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29")
    port, other = await create(cloud, network), await create(cloud, network, mac_address="fa:16:3e:00:00:01")
    with pytest.raises(MacAddressInUse):
        await update(cloud, port, mac_address=other.mac_address)
    with pytest.raises(MacAddressInUse):
        await update(cloud, port, mac_address=other.mac_address, host="h1")
    with pytest.raises(InvalidInput):
        await update(cloud, port, mac_address="01:00:00:00:00:01")
    assert await ports.get_port(cloud.networks, port.id) == port
    bound = await update(cloud, port, host="h1")
    with pytest.raises(PortBound):
        await update(cloud, bound, mac_address="fa:16:3e:00:00:02")
    assert (await update(cloud, bound, mac_address=bound.mac_address)).mac_address == bound.mac_address
    await sound(cloud, bound)


async def test_a_port_that_a_build_holds_keeps_its_addresses(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29")
    port = await create(cloud, network, "10.1.0.2")
    await cloud.ensure(cloud.server(Nic(tag="0", port_id=port.id)))
    with pytest.raises(PortInUse):
        await update(cloud, port, fixed_ips=named("10.1.0.3"))
    assert of(await ports.get_port(cloud.networks, port.id)) == ["10.1.0.2"]


async def test_a_client_that_took_longer_than_its_intent_gets_no_other_address(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    port = await create(cloud, network, "10.0.0.4")

    async def reconciled() -> None:
        await execute(cloud, EXPIRE)
        await reconcile_once(cloud.networks)

    after(cloud.networks.placement, "claim", reconciled)
    with pytest.raises(PortChanged):
        await update(cloud, port, fixed_ips=named("10.0.0.4", "10.0.0.5"))
    assert await ports.get_port(cloud.networks, port.id) == port
    await sound(cloud, port)


async def test_a_port_that_was_deleted_while_it_was_given_an_address_leaves_nothing(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    port = await create(cloud, network, "10.0.0.4")

    async def deleted() -> None:
        await ports.delete_port(cloud.networks, port.id)

    after(cloud.networks.placement, "claim", deleted)
    with pytest.raises(PortChanged):
        await update(cloud, port, fixed_ips=named("10.0.0.4", "10.0.0.5"))
    await reconcile_once(cloud.networks)
    assert await cloud.used(network.id) == (13, 0)
    await assert_sound(cloud)


async def test_clients_that_change_addresses_at_once_never_share_one(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28", pools=[("10.0.0.4", "10.0.0.11")])
    made = [await create(cloud, network) for _ in range(4)]
    subnet_id = made[0].addresses[0].subnet_id

    async def change(number: int) -> None:
        for turn in range(6):
            count = (number + turn) % 4
            try:
                await update(cloud, made[number % 4], fixed_ips=(FixedIpRequest(subnet_id=subnet_id),) * count)
            except (IpAddressGenerationFailure, PortChanged):
                continue

    await asyncio.gather(*(change(number) for number in range(8)), reconcile_once(cloud.networks))
    await reconcile_once(cloud.networks)
    for port in made:
        await sound(cloud, await ports.get_port(cloud.networks, port.id))


async def test_a_port_keeps_to_its_segment_when_it_is_unbound(cloud: Cloud) -> None:
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    port = await update(cloud, await create(cloud, network), host="h2")
    free = await update(cloud, port, host="")
    assert (free.host, of(free), free.ip_allocation) == (None, of(port), "deferred")
    assert (port.vif_type, free.vif_type) == ("ovs", "unbound")
    with pytest.raises(
        HostNotCompatibleWithFixedIps, match=rf"segment rack2 \({rack2.id}\).*segment rack1 \({rack1.id}"
    ):
        await update(cloud, free, host="h1")
    with pytest.raises(HostNotConnectedToAnySegment):
        await update(cloud, free, host="nowhere")
    assert of(await update(cloud, free, host="h2")) == of(port)
