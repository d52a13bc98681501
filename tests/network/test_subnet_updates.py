"""Subnets that clients change: at every end the ledger is the addresses, whatever is taken in, dropped or moved."""

from typing import Any

import msgspec
import pytest
from tests.invariants import ALWAYS, SETTLED, list_uncovered
from tests.network.cloud import PROJECT, Cloud

from roost.network.errors import (
    GatewayConflictWithAllocationPools,
    GatewayIpInUse,
    InvalidInput,
    IpAddressGenerationFailure,
    NetworkIdsDontMatch,
    NoUpdateSubnetWhenMultipleSegmentsOnNetwork,
    OutOfBoundsAllocationPool,
    RevisionNumberConstraintFailed,
    SegmentNotFound,
    SubnetInUse,
    SubnetNotFound,
    SubnetSegmentAssociationChangeNotAllowed,
    SubnetsNotAllAssociatedWithSegments,
)
from roost.network.model import FixedIpRequest, HostRoute, Network, Port, PortRequest, Subnet, SubnetChanges
from roost.network.reconciler import Reconciled, reconcile_once
from roost.network.service import networks as network_service
from roost.network.service import ports, subnet_changes, subnets
from roost.seams.network import Nic

BOOKS = [
    "an address that counts is not claimed by its port", "an address is held and free",
    "an inventory is over its capacity", "a consumer holds nothing", "a release is left", "an intent is left",
    "a claim of addresses is not its port's addresses",
]  # fmt: skip


async def assert_books(cloud: Cloud) -> None:
    """Ledger = addresses, and no change is in progress."""
    async with cloud.networks.database.transaction(snapshot=True) as tx:
        for what in BOOKS:
            assert await tx.fetch({**ALWAYS, **SETTLED}[what]) == [], what
        assert await list_uncovered(tx) == []
        assert await tx.fetch("SELECT FROM network.subnet WHERE change IS NOT NULL OR deleting") == []
        assert await tx.fetch("SELECT FROM network.pool WHERE leaving") == []
        assert await tx.fetch("SELECT FROM network.publication WHERE wanted > published") == []
        assert await tx.fetch("SELECT FROM network.address WHERE claimed AND NOT in_pool") == []


async def only(cloud: Cloud) -> Subnet:
    (subnet,) = await subnets.list_subnets(cloud.networks)
    return subnet


async def change(cloud: Cloud, **changes: Any) -> Subnet:
    subnet = await only(cloud)
    changed = await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(**changes))
    await assert_books(cloud)
    return changed


def pools(*ends: tuple[int, int]) -> tuple[tuple[str, str], ...]:
    return tuple((f"10.0.0.{first}", f"10.0.0.{last}") for first, last in ends)


async def port(cloud: Cloud, network: Network, last: int | None = None, **more: Any) -> Port:
    fixed = None if last is None else (FixedIpRequest(ip_address=f"10.0.0.{last}"),)
    request = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=fixed, **more)
    return await ports.create_port(cloud.networks, request)


async def test_pools_grow_over_held_addresses_and_shrink_away_from_them(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    inside, outside = await port(cloud, network, 15), await port(cloud, network, 30)
    assert await cloud.used(network.id) == (10, 1)
    await change(cloud, pools=pools((10, 39)))
    assert await cloud.used(network.id) == (30, 2)
    await change(cloud, pools=pools((20, 39), (50, 50)))
    assert await cloud.used(network.id) == (21, 1)
    await change(cloud, pools=pools((50, 50)))
    assert await cloud.used(network.id) == (1, 0)
    taken = await port(cloud, network)
    assert [item.address for item in taken.addresses] == ["10.0.0.50"]
    with pytest.raises(IpAddressGenerationFailure):
        await port(cloud, network)
    await change(cloud, pools=pools((2, 254)))
    assert await cloud.used(network.id) == (253, 3)
    for one in (inside, outside, taken):
        await ports.delete_port(cloud.networks, one.id)
    await assert_books(cloud)
    assert await cloud.used(network.id) == (253, 0)


async def test_the_last_pool_takes_the_provider_along_and_brings_it_back(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    await port(cloud, network, 9)
    await change(cloud, pools=())
    assert (await cloud.networks.placement.list_usages([network.id])).get(network.id, {}) == {}
    async with cloud.networks.database.transaction() as tx:
        assert await tx.fetch("SELECT FROM placement.provider") == []
    await change(cloud, pools=pools((9, 9)))
    assert await cloud.used(network.id) == (1, 1)


async def test_a_build_that_has_claimed_what_would_go_has_the_change_taken_back(cloud: Cloud) -> None:
    network, (segment,) = await cloud.routed("10.0.0.0/29")
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (made,) = await cloud.ensure(server)
    held = await port(cloud, network, 6)
    assert await cloud.claim([made.id], segment.id)
    before = await only(cloud)
    with pytest.raises(SubnetInUse):
        await change(cloud, pools=pools((6, 6)), name="new", gateway_ip=None)
    after = await only(cloud)
    assert (after.pools, after.name, after.gateway_ip) == (before.pools, before.name, before.gateway_ip)
    assert await cloud.used(segment.id) == (5, 2)
    await cloud.bind(server, made, "h1", segment.id)
    assert (await change(cloud, pools=pools((6, 6)), name="new")).name == "new"
    assert await cloud.used(segment.id) == (1, 1)
    await ports.delete_port(cloud.networks, held.id)
    await ports.delete_port(cloud.networks, made.id)
    await assert_books(cloud)


async def test_what_a_build_still_finds_room_for_is_no_obstacle(cloud: Cloud) -> None:
    network, (segment,) = await cloud.routed("10.0.0.0/28")
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (made,) = await cloud.ensure(server)
    assert await cloud.claim([made.id], segment.id)
    subnet = await only(cloud)
    await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((9, 9))))
    bound = await cloud.bind(server, made, "h1", segment.id)
    assert bound.addresses == ("10.0.0.9",)
    await assert_books(cloud)


async def test_a_claim_without_address_keeps_the_last_pool(cloud: Cloud) -> None:
    network, (segment,) = await cloud.routed("10.0.0.0/28")
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (made,) = await cloud.ensure(server)
    assert await cloud.claim([made.id], segment.id)
    subnet = await only(cloud)
    with pytest.raises(SubnetInUse):
        await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=()))
    assert await cloud.used(segment.id) == (13, 1)
    await cloud.bind(server, made, "h1", segment.id)
    await assert_books(cloud)


async def test_an_existing_subnet_joins_the_only_segment_with_all_it_has(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    segment = await joinable(cloud, network)
    held = [await port(cloud, network) for _ in range(3)]
    await port(cloud, network, 99)
    changed = await change(cloud, segment_id=segment)
    assert changed.segment_id == segment
    assert await cloud.used(segment) == (10, 3)
    assert (await network_service.get_network(cloud.networks, network.id)).segmented
    async with cloud.networks.database.transaction() as tx:
        assert [row["uuid"] for row in await tx.fetch("SELECT uuid FROM placement.provider")] == [segment]
    assert (await change(cloud, segment_id=segment)).revision == changed.revision + 1
    for one in held:
        await ports.delete_port(cloud.networks, one.id)
    await assert_books(cloud)
    assert await cloud.used(segment) == (10, 0)


async def joinable(cloud: Cloud, network: Network, physical_network: str = "rack1") -> str:
    """A segment of a network that has a subnet already, as one made with provider attributes has."""
    segment_id = cloud.networks.env.new_uuid()
    async with cloud.networks.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO network.segment (id, network_id, network_type, physical_network) VALUES ($1, $2, 'flat', $3)",
            segment_id, network.id, physical_network,
        )  # fmt: skip
    return segment_id


async def test_an_association_waits_for_builds_that_hold_claims(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    segment = await joinable(cloud, network)
    held = await port(cloud, network)
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (made,) = await cloud.ensure(server)
    assert await cloud.claim([made.id], network.id)
    with pytest.raises(SubnetInUse):
        await change(cloud, segment_id=segment)
    assert (await only(cloud)).segment_id is None
    assert await cloud.used(network.id) == (253, 2)
    assert (await cloud.networks.placement.list_usages([segment])).get(segment, {}) == {}
    await cloud.client.release_ports([server], restore=True)
    await change(cloud, segment_id=segment)
    assert await cloud.used(segment) == (253, 1)
    await ports.delete_port(cloud.networks, held.id)
    await assert_books(cloud)


async def test_who_may_join_a_segment_is_as_upstream_says(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    other, (foreign,) = await cloud.routed("10.1.0.0/24")
    mine = await joinable(cloud, network)
    found = {subnet.network_id: subnet for subnet in await subnets.list_subnets(cloud.networks)}

    async def join(subnet: Subnet, segment_id: str | None) -> None:
        await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(segment_id=segment_id))

    with pytest.raises(NetworkIdsDontMatch):
        await join(found[network.id], foreign.id)
    with pytest.raises(SegmentNotFound):
        await join(found[network.id], cloud.networks.env.new_uuid())
    for wrong in (mine, None):
        with pytest.raises(SubnetSegmentAssociationChangeNotAllowed):
            await join(found[other.id], wrong)
    await joinable(cloud, network, "rack2")
    with pytest.raises(NoUpdateSubnetWhenMultipleSegmentsOnNetwork):
        await join(found[network.id], mine)
    plain = await cloud.plain("10.2.0.0/24")
    await cloud.subnet(plain, "10.3.0.0/24")
    segment = await joinable(cloud, plain, "rack3")
    (one, _) = [s for s in await subnets.list_subnets(cloud.networks) if s.network_id == plain.id]
    with pytest.raises(SubnetsNotAllAssociatedWithSegments):
        await join(one, segment)
    await join(found[other.id], foreign.id)
    await join(found[network.id], None)
    await assert_books(cloud)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"gateway_ip": "10.0.0.12"}, GatewayConflictWithAllocationPools),
        ({"gateway_ip": "10.0.0.0"}, InvalidInput),
        ({"gateway_ip": "gateway"}, InvalidInput),
        ({"pools": (("10.0.0.1", "10.0.0.9"),)}, GatewayConflictWithAllocationPools),
        ({"pools": (("10.0.1.1", "10.0.1.9"),)}, OutOfBoundsAllocationPool),
        ({"dns_nameservers": ("x",)}, InvalidInput),
        ({"host_routes": (HostRoute("x", "y"),)}, InvalidInput),
        ({"revision": 7}, RevisionNumberConstraintFailed),
    ],
)
async def test_a_wrong_change_is_refused_whole(cloud: Cloud, changes: dict[str, Any], error: type[Exception]) -> None:
    await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    before = await only(cloud)
    with pytest.raises(error):
        await change(cloud, name="new", **changes)
    assert await only(cloud) == before
    with pytest.raises(SubnetNotFound):
        await subnet_changes.update_subnet(cloud.networks, cloud.networks.env.new_uuid(), SubnetChanges(name="x"))


async def test_attributes_change_and_stay(cloud: Cloud) -> None:
    await cloud.plain("10.0.0.0/24")
    own = HostRoute("10.9.0.0/16", "10.0.0.9")
    wanted = SubnetChanges(
        name="n", description="d", enable_dhcp=False, dns_nameservers=("8.8.8.8", "1.1.1.1"), host_routes=(own,),
        gateway_ip="192.168.0.1",
    )  # fmt: skip
    before = await only(cloud)
    changed = await change(cloud, **{name: getattr(wanted, name) for name in wanted.__struct_fields__})
    assert msgspec.structs.replace(
        before, name="n", description="d", enable_dhcp=False, dns_nameservers=("8.8.8.8", "1.1.1.1"),
        host_routes=(own,), gateway_ip="192.168.0.1", revision=2, updated_at=changed.updated_at,
    ) == changed  # fmt: skip
    assert (await change(cloud, gateway_ip=None)).gateway_ip is None
    assert (await change(cloud, dns_nameservers=(), host_routes=())).host_routes == ()


async def test_the_gateway_that_a_router_holds_stays(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    router = await port(cloud, network, 1, device_owner="network:router_interface")
    with pytest.raises(GatewayIpInUse):
        await change(cloud, gateway_ip="10.0.0.2")
    assert (await change(cloud, gateway_ip="10.0.0.1")).gateway_ip == "10.0.0.1"
    await ports.delete_port(cloud.networks, router.id)
    assert (await change(cloud, gateway_ip="10.0.0.2")).gateway_ip == "10.0.0.2"


async def test_routes_to_peers_that_come_back_do_not_become_the_owners(cloud: Cloud) -> None:
    await cloud.routed("10.0.1.0/24", "10.0.2.0/24")
    one, two = sorted(await subnets.list_subnets(cloud.networks), key=lambda subnet: subnet.cidr)
    own = HostRoute("10.9.0.0/16", "10.0.1.9")
    changes = SubnetChanges(
        host_routes=(*one.host_routes, own), gateway_ip="10.0.1.254", pools=(("10.0.1.2", "10.0.1.9"),)
    )
    changed = await subnet_changes.update_subnet(cloud.networks, one.id, changes)
    assert changed.host_routes == (own, HostRoute("10.0.2.0/24", "10.0.1.254"))
    await subnets.delete_subnet(cloud.networks, two.id)
    assert (await subnets.get_subnet(cloud.networks, one.id)).host_routes == (own,)


async def test_the_reconciler_ends_what_was_begun(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    await port(cloud, network, 12)
    await port(cloud, network, 22)

    class Died(Exception):
        pass

    async def dies(*_: Any) -> bool:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(subnet_changes, "finish_change", dies)
        with pytest.raises(Died):
            await change(cloud, pools=pools((20, 29)))
    assert (await only(cloud)).change is not None
    await reconcile_once(cloud.networks)
    assert await reconcile_once(cloud.networks) == Reconciled()
    await assert_books(cloud)
    assert await cloud.used(network.id) == (10, 1)
