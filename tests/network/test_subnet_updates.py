"""Subnets that clients change: at every end the ledger is the addresses, whatever is taken in, dropped or moved."""

import asyncio
import contextvars
import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.invariants import ALWAYS, SETTLED, list_miscounted, list_uncovered
from tests.network.cloud import PROJECT, Cloud
from tests.next_call import before

from roost.network.errors import (
    GatewayConflictWithAllocationPools,
    GatewayIpInUse,
    InvalidInput,
    IpAddressGenerationFailure,
    NetworkIdsDontMatch,
    NoUpdateSubnetWhenMultipleSegmentsOnNetwork,
    OutOfBoundsAllocationPool,
    PortChanged,
    RevisionNumberConstraintFailed,
    SegmentNotFound,
    SubnetInUse,
    SubnetNotFound,
    SubnetSegmentAssociationChangeNotAllowed,
    SubnetsNotAllAssociatedWithSegments,
)
from roost.network.model.networks import HostRoute, Network, Subnet, SubnetChanges
from roost.network.model.ports import FixedIpRequest, Given, Port, PortChanges, PortFilter, PortRequest
from roost.network.rules import addressing
from roost.network.service import capacity, ports, releases, subnets
from roost.network.service import networks as network_service
from roost.network.store import addresses
from roost.seams.network import Nic
from roost.seams.placement import IPV6_ADDRESS

BOOKS = [
    "an address that counts is not claimed by its port", "an address is held and free",
    "an inventory is over its capacity", "a consumer holds nothing", "a release is left", "an intent is left",
    "a claim of addresses is not its port's addresses", "an address is not marked as its pools are",
    "the ledger is to be told of a provider",
]  # fmt: skip


async def assert_books(cloud: Cloud) -> None:
    """Ledger = addresses, and it knows every inventory."""
    async with cloud.networks.database.transaction(snapshot=True) as tx:
        for what in BOOKS:
            assert await tx.fetch({**ALWAYS, **SETTLED}[what]) == [], what
        assert await list_uncovered(tx) + await list_miscounted(tx) == []


async def only(cloud: Cloud) -> Subnet:
    (subnet,) = await subnets.list_subnets(cloud.networks)
    return subnet


async def change(cloud: Cloud, **changes: Any) -> Subnet:
    subnet = await only(cloud)
    changed = await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(**changes))
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
    assert await cloud.used(network.id) == (29, 1)
    await change(cloud, pools=pools((20, 39), (50, 50)))
    assert await cloud.used(network.id) == (21, 1)
    await change(cloud, pools=pools((50, 50)))
    assert await cloud.used(network.id) == (2, 1)
    taken = await port(cloud, network)
    assert [item.address for item in taken.addresses] == ["10.0.0.50"]
    with pytest.raises(IpAddressGenerationFailure):
        await port(cloud, network)
    await change(cloud, pools=pools((2, 254)))
    assert await cloud.used(network.id) == (252, 2)
    for one in (inside, outside, taken):
        await ports.delete_port(cloud.networks, one.id)
    await capacity.publish(cloud.networks, [network.id])
    await assert_books(cloud)
    assert await cloud.used(network.id) == (253, 0)


async def test_the_last_pool_takes_the_provider_along_and_brings_it_back(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    await port(cloud, network, 9)
    reached = dict(cloud.compute.aggregates)
    assert list(reached.values()) == ["all-hosts"]
    await change(cloud, pools=())
    assert await cloud.used(network.id) == (1, 1)
    assert cloud.compute.aggregates == reached, "who reaches the network is asked for addresses outside of pools too"
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
    assert await cloud.used(segment.id) == (2, 2)
    await ports.delete_port(cloud.networks, held.id)
    await ports.delete_port(cloud.networks, made.id)
    await assert_books(cloud)


async def test_what_a_build_still_finds_room_for_is_no_obstacle(cloud: Cloud) -> None:
    network, (segment,) = await cloud.routed("10.0.0.0/28")
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (made,) = await cloud.ensure(server)
    assert await cloud.claim([made.id], segment.id)
    subnet = await only(cloud)
    await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((9, 9))))
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
        await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=()))
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
        await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(segment_id=segment_id))

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
        await subnets.update_subnet(cloud.networks, cloud.networks.env.new_uuid(), SubnetChanges(name="x"))


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
    changed = await subnets.update_subnet(cloud.networks, one.id, changes)
    assert changed.host_routes == (own, HostRoute("10.0.2.0/24", "10.0.1.254"))
    await subnets.delete_subnet(cloud.networks, two.id)
    assert (await subnets.get_subnet(cloud.networks, one.id)).host_routes == (own,)


def while_claiming(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Awaitable[Any]]) -> None:
    """`happens` before the next claim reaches the ledger: after it was planned, before it is assigned."""
    real = cloud.networks.placement.claim
    done: list[bool] = []

    async def claim(groups: Any) -> Any:
        if not done:
            done.append(True)
            await happens()
        return await real(groups)

    monkeypatch.setattr(cloud.networks.placement, "claim", claim)


@pytest.mark.parametrize(("last", "wanted"), [(30, (10, 39)), (15, (30, 39))])
async def test_a_named_address_whose_pool_changes_while_it_is_claimed_is_asked_for_again(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, last: int, wanted: tuple[int, int]
) -> None:
    """It was planned as outside of the pools and is inside, or the other way round."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    subnet = await only(cloud)
    changes = SubnetChanges(pools=pools(wanted))
    # The claim beside it is in the pools: an address outside of them alone needs no claim.
    fixed = (FixedIpRequest(ip_address=f"10.0.0.{last}"), FixedIpRequest(subnet_id=subnet.id))
    request = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=fixed)

    async def happens() -> None:
        await subnets.update_subnet(cloud.networks, subnet.id, changes)

    while_claiming(cloud, monkeypatch, happens)
    with pytest.raises(PortChanged):
        await ports.create_port(cloud.networks, request)
    await assert_books(cloud)
    await ports.create_port(cloud.networks, request)
    await assert_books(cloud)


@pytest.mark.parametrize("wanted", [(10, 39), (12, 19)], ids=["taken in", "dropped"])
@pytest.mark.parametrize("what", ["delete", "lose", "swap", "gain"])
async def test_ports_that_change_while_the_ledger_agrees_to_a_change(
    cloud: Cloud, wanted: tuple[int, int], what: str
) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    held = await port(cloud, network, 11 if wanted == (12, 19) else 30)
    named = held.addresses[0].address
    addresses_after = {"lose": (), "swap": ("10.0.0.15",), "gain": (named, "10.0.0.16")}.get(what, ())
    changing: list[asyncio.Task[Any]] = []

    async def happens() -> None:
        if what == "delete":
            await ports.delete_port(cloud.networks, held.id)
        else:
            fixed = tuple(FixedIpRequest(ip_address=address) for address in addresses_after)
            await ports.update_port(cloud.networks, held.id, PortChanges(fixed_ips=fixed))

    async def begin() -> None:
        changing.append(asyncio.create_task(happens(), context=contextvars.Context()))
        await asyncio.wait(changing, timeout=0.2)

    before(cloud.networks.placement, "fit_providers", begin)
    subnet = await only(cloud)
    await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools(wanted)))
    await asyncio.gather(*changing)
    await capacity.publish_due(cloud.networks, [network.id])
    await assert_books(cloud)
    # What was claimed when it was given stays claimed, and what was outside of the pools then stays so.
    claimed = sum(address != named or wanted == (12, 19) for address in addresses_after)
    assert (await cloud.used(network.id))[1] == claimed


HELD = int(os.environ.get("ROOST_HELD", "300"))


async def test_a_large_network_joins_its_segment_with_every_held_address(cloud: Cloud) -> None:
    """ROOST_HELD=10000 is the real thing: one reshape, well within a publisher's lease."""
    network = await cloud.plain("10.0.0.0/16")
    segment = await joinable(cloud, network)
    await hold(cloud, network, HELD)
    changed = await change(cloud, segment_id=segment)
    assert changed.segment_id == segment
    assert await cloud.used(segment) == (65533, HELD)


async def hold(cloud: Cloud, network: Network, count: int) -> None:
    """Ports with addresses and claims, as many creates would have left them."""
    (subnet,) = await subnets.list_subnets(cloud.networks)
    first = subnet.pools[0].first
    ids = sorted(cloud.networks.env.new_uuid() for _ in range(count))
    async with cloud.networks.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO network.port (id, network_id, project_id, mac_address, ip_allocation)"
            " SELECT id, $2, $3, id::text, 'immediate' FROM unnest($1::uuid[]) AS p (id)",
            ids, network.id, PROJECT,
        )  # fmt: skip
        given = [Given(port_id, subnet.id, first + number, True, True) for number, port_id in enumerate(ids)]
        assert await addresses.insert(tx, given)
        await tx.execute("UPDATE network.free_range SET first_address = $1", addressing.show(first + count))
    for start in range(0, count, 1000):
        assert await cloud.claim(ids[start : start + 1000], network.id)


@pytest.mark.parametrize("kind", ["plain", "provider", "routed", "changed"])
async def test_a_network_that_is_deleted_leaves_nothing_anywhere(cloud: Cloud, kind: str) -> None:
    if kind == "routed":
        network, _ = await cloud.routed("10.0.0.0/24", "10.0.1.0/24")
    else:
        network = await cloud.plain("10.0.0.0/24", physical_network=None if kind == "plain" else "rack1")
    await cloud.client.set_hosts({"h1": ["rack1"]})
    if kind == "changed":
        await change(cloud, segment_id=await joinable(cloud, network))
        await change(cloud, pools=())
    else:
        made = await port(cloud, network, 9)
        assert cloud.compute.members
        await ports.delete_port(cloud.networks, made.id)
    await network_service.delete_network(cloud.networks, network.id)
    assert (cloud.compute.aggregates, cloud.compute.members) == ({}, {})
    async with cloud.networks.database.transaction() as tx:
        tables = await tx.fetch(
            "SELECT schemaname || '.' || relname AS name FROM pg_stat_user_tables"
            " WHERE schemaname IN ('network', 'placement')"
        )
        left = {row["name"] for row in tables if await tx.fetchval(f"SELECT count(*) FROM {row['name']}")}
    assert left <= {
        "network.host", "network.alembic_version", "network.alembic_step", "placement.alembic_version",
        "placement.alembic_step", "placement.change",
        "placement.change_horizon", "placement.resource_class", "placement.trait", "placement.journal",
    }, left  # fmt: skip


async def test_the_host_aggregate_of_a_physical_network_stays_while_another_network_needs_it(cloud: Cloud) -> None:
    one = await cloud.plain("10.0.0.0/24", physical_network="rack1")
    await cloud.plain("10.0.0.0/24", physical_network="rack1")
    await cloud.client.set_hosts({"h1": ["rack1"]})
    before = dict(cloud.compute.members)
    await network_service.delete_network(cloud.networks, one.id)
    assert cloud.compute.members == before
    assert before


async def test_service_types_take_a_subnet_out_of_capacity_and_back(cloud: Cloud) -> None:
    """What was claimed counts while it is claimed, and what was not is reserved while it is held."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    held = await port(cloud, network, 15)
    outside = await port(cloud, network, 30)
    await change(cloud, service_types=("network:dhcp",), pools=pools((10, 39)))
    assert await cloud.used(network.id) == (1, 1)
    dhcp = await port(cloud, network, device_owner="network:dhcp")
    await assert_books(cloud)
    await change(cloud, service_types=("network:dhcp", "compute:nova"))
    assert await cloud.used(network.id) == (28, 1)
    await change(cloud, service_types=())
    assert await cloud.used(network.id) == (28, 1)
    for one in (held, outside, dhcp):
        await ports.delete_port(cloud.networks, one.id)
    await capacity.publish(cloud.networks, [network.id])
    await assert_books(cloud)
    assert await cloud.used(network.id) == (30, 0)


async def test_service_types_wait_for_builds_that_would_have_no_address(cloud: Cloud) -> None:
    network, (segment,) = await cloud.routed("10.0.0.0/24")
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (made,) = await cloud.ensure(server)
    assert await cloud.claim([made.id], segment.id)
    with pytest.raises(SubnetInUse):
        await change(cloud, service_types=("network:dhcp",))
    assert (await only(cloud)).service_types == ()
    await cloud.client.release_ports([server], restore=True)
    await change(cloud, service_types=("network:dhcp",))
    with pytest.raises(InvalidInput):
        await change(cloud, service_types=("router",))


async def test_pools_of_a_64_change_as_fast_as_small_ones(cloud: Cloud) -> None:
    network = await cloud.plain("2001:db8::/64")
    whole = await only(cloud)
    request = PortRequest(
        network_id=network.id, project_id=PROJECT, fixed_ips=(FixedIpRequest(ip_address="2001:db8::ff00"),)
    )
    await ports.create_port(cloud.networks, request)
    for wanted, expected in (
        ((("2001:db8::2", "2001:db8::11"),), (17, 1)),
        ((("2001:db8::f000", "2001:db8::ff00"),), (0xF01, 1)),
        (tuple((addressing.show(p.first), addressing.show(p.last)) for p in whole.pools), (2**31 - 1, 1)),
    ):
        await change(cloud, pools=wanted)
        usages = await cloud.networks.placement.list_usages([network.id])
        assert usages[network.id][IPV6_ADDRESS] == expected


async def test_claims_on_their_way_back_keep_no_subnet(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a smaller pool nor the end of a subnet waits for the reconciler to come by."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    await port(cloud, network, 12)
    gone = [await port(cloud, network) for _ in range(3)]

    async def later(*_: Any) -> None:
        """The ledger could not be had."""

    with monkeypatch.context() as patched:
        patched.setattr(releases, "work_off_now", later)
        await ports.delete_port(cloud.networks, gone[0].id)
        await ports.delete_port(cloud.networks, gone[1].id)
    await change(cloud, pools=pools((12, 12)))
    await change(cloud, pools=pools((10, 19)))
    held = [one.id for one in await ports.list_ports(cloud.networks, PortFilter())]
    with monkeypatch.context() as patched:
        patched.setattr(releases, "work_off_now", later)
        for port_id in held:
            await ports.delete_port(cloud.networks, port_id)
    await subnets.delete_subnet(cloud.networks, (await only(cloud)).id)
    await assert_books(cloud)
