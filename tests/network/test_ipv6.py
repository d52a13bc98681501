"""Ports with IPv6: what they get, what is claimed of it, and what follows from their MAC."""

import asyncio
import contextvars
import dataclasses
import uuid
from collections.abc import Coroutine
from typing import Any

import asyncpg
import pytest
from tests.blocked import until_blocked
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT, Cloud

from roost.network.errors import (
    AllocationOnAutoAddressSubnet,
    FixedIpsSubnetsNotOnSameSegment,
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
)
from roost.network.model.networks import Network, Segment
from roost.network.model.ports import FixedIpRequest, Port, PortChanges, PortFilter, PortRequest
from roost.network.rules import uses
from roost.network.rules.addressing import show
from roost.network.service import creations, ports, subnets
from roost.network.service.reconciler import reconcile_once
from roost.network.settings import NetworkSettings
from roost.network.store import addresses as store
from roost.seams.network import BindRefused, Bound, Nic, PortBind
from roost.seams.placement import IPV4_ADDRESS, IPV6_ADDRESS

SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
STATELESS = {"ipv6_ra_mode": "dhcpv6-stateless", "ipv6_address_mode": "dhcpv6-stateless"}
STATEFUL = {"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}


async def create(cloud: Cloud, network: Network, **more: object) -> Port:
    fixed = more.pop("fixed_ips", None)
    if isinstance(fixed, list):
        more["fixed_ips"] = tuple(FixedIpRequest(**item) for item in fixed)
    return await ports.create_port(
        cloud.networks,
        PortRequest(network_id=network.id, project_id=PROJECT, **more),
    )


def addresses(port: Port) -> list[str]:
    return [item.address for item in port.addresses]


def eui64(port: Port, cidr: str) -> str:
    return show(uses.eui64(cidr, port.mac_address))


async def dual(cloud: Cloud) -> tuple[Network, list[Segment]]:
    """Two racks with IPv4 and stateful IPv6, and SLAAC on the second."""
    network, segments = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    await cloud.subnet(network, "2001:db8:1::/64", segments[0])
    await cloud.subnet(network, "2001:db8:2::/126", segments[1], **STATEFUL)
    await cloud.subnet(network, "2001:db8:f::/64", segments[1], **SLAAC)
    return network, segments


async def test_nothing_named_gives_one_address_of_each_family_and_those_that_follow_from_the_mac(cloud: Cloud) -> None:
    network = await cloud.plain()
    await cloud.subnet(network, "10.9.0.0/24")
    await cloud.subnet(network, "2001:db8:1::/64")
    await cloud.subnet(network, "2001:db8:2::/64", **SLAAC)
    await cloud.subnet(network, "2001:db8:3::/64", **STATELESS)
    port = await create(cloud, network)
    assert port.ip_allocation == "immediate"
    assert sorted(addresses(port)[1:]) == sorted(
        ["2001:db8:1::2", eui64(port, "2001:db8:2::/64"), eui64(port, "2001:db8:3::/64")]
    )
    assert addresses(port)[0] in ("10.0.0.2", "10.9.0.2")
    assert {item.address: (item.in_pool, item.claimed) for item in port.addresses if item.address[0] == "2"} == {
        "2001:db8:1::2": (True, True),
        eui64(port, "2001:db8:2::/64"): (False, False),
        eui64(port, "2001:db8:3::/64"): (False, False),
    }
    assert await cloud.used(network.id) == (253 * 2, 1)
    assert await cloud.used(network.id, IPV6_ADDRESS) == (2**31 - 1, 1)
    await assert_books_agree(cloud.networks.database)
    await ports.delete_port(cloud.networks, port.id)
    assert await cloud.used(network.id, IPV6_ADDRESS) == (2**31 - 1, 0)
    await assert_books_agree(cloud.networks.database)


async def test_a_network_of_automatic_addresses_alone_claims_nothing(cloud: Cloud) -> None:
    network = await cloud.network()
    subnet = await cloud.subnet(network, "2001:db8::/64", **SLAAC)
    port = await create(cloud, network)
    assert (port.ip_allocation, addresses(port)) == ("immediate", [eui64(port, "2001:db8::/64")])
    named = await create(cloud, network, fixed_ips=[{"subnet_id": subnet.id}])
    assert addresses(named) == [eui64(named, "2001:db8::/64")]
    assert await cloud.networks.placement.list_usages([network.id]) == {}
    none = await create(cloud, network, fixed_ips=[])
    assert (none.ip_allocation, addresses(none)) == ("none", [])
    await assert_books_agree(cloud.networks.database)


async def test_an_address_of_an_automatic_subnet_cannot_be_named_but_by_a_router(cloud: Cloud) -> None:
    network = await cloud.network()
    await cloud.subnet(network, "2001:db8::/64", **SLAAC)
    with pytest.raises(AllocationOnAutoAddressSubnet):
        await create(cloud, network, fixed_ips=[{"ip_address": "2001:db8::5"}])
    router = await create(
        cloud, network, fixed_ips=[{"ip_address": "2001:db8::1"}], device_owner="network:router_interface"
    )
    assert [(item.address, item.in_pool, item.claimed) for item in router.addresses] == [("2001:db8::1", False, False)]
    assert not (await create(cloud, network, device_owner="network:router_interface")).addresses
    await assert_books_agree(cloud.networks.database)


async def test_automatic_addresses_are_never_those_of_other_segments(cloud: Cloud) -> None:
    """Upstream's bugs 1864225, 1864333 and 1865138."""
    network, (rack1, rack2) = await dual(cloud)
    deferred = await create(cloud, network)
    assert (deferred.ip_allocation, deferred.addresses) == ("deferred", ())
    on_rack1 = await create(cloud, network, host="h1")
    assert addresses(on_rack1) == ["10.1.0.2", "2001:db8:1::2"]
    named = await create(cloud, network, fixed_ips=[{"ip_address": "10.1.0.5"}])
    assert addresses(named) == ["10.1.0.5"]
    on_rack2 = await create(cloud, network, fixed_ips=[{"ip_address": "10.2.0.5"}])
    assert addresses(on_rack2) == ["10.2.0.5", eui64(on_rack2, "2001:db8:f::/64")]
    bound = await ports.update_port(cloud.networks, deferred.id, PortChanges(host="h2"))
    assert addresses(bound) == ["10.2.0.2", "2001:db8:2::2", eui64(bound, "2001:db8:f::/64")]
    assert (await cloud.used(rack1.id), await cloud.used(rack1.id, IPV6_ADDRESS)) == ((5, 2), (2**31 - 1, 1))
    assert (await cloud.used(rack2.id), await cloud.used(rack2.id, IPV6_ADDRESS)) == ((5, 2), (2, 1))
    wanted = [PortRequest(network_id=network.id, project_id=PROJECT, host=host) for host in ("h1", "h2")]
    one, two = await creations.make(cloud.networks, wanted, whole=False)
    assert isinstance(one, Port)
    assert isinstance(two, Port)
    assert addresses(one) == ["10.1.0.3", "2001:db8:1::3"]
    assert addresses(two) == ["10.2.0.3", "2001:db8:2::3", eui64(two, "2001:db8:f::/64")]
    await assert_books_agree(cloud.networks.database)


async def test_a_family_that_is_full_refuses_and_leaves_nothing(cloud: Cloud) -> None:
    network, (_rack1, rack2) = await dual(cloud)
    for _ in range(2):
        await create(cloud, network, host="h2")
    with pytest.raises(IpAddressGenerationFailure) as refused:
        await create(cloud, network, host="h2")
    assert f"No more IP addresses available on segment rack2 ({rack2.id})." in str(refused.value)
    assert "Addresses of network net: rack1 IPv4 5 of 5 free and IPv6 2147483647 of 2147483647 free, " in str(
        refused.value
    )
    assert str(refused.value).endswith("rack2 IPv4 3 of 5 free and IPv6 0 of 2 free.")
    assert await cloud.used(rack2.id) == (5, 2)
    await assert_books_agree(cloud.networks.database)


async def bind(cloud: Cloud, count: int, rack: Segment, host: str, network: Network, **more: object) -> list[Bound]:
    """As the conductor does: claimed there, then bound, all in one call."""
    servers = [cloud.server(Nic(tag="0", network_id=network.id)) for _ in range(count)]
    made = await cloud.ensure(*servers)
    claimed = more.get("claimed", (IPV4_ADDRESS, IPV6_ADDRESS))
    assert isinstance(claimed, tuple)
    if claimed:
        assert await cloud.claim([port.id for port in made], rack.id, claimed)
    answers = await cloud.client.bind_ports(
        [
            PortBind(
                port_id=port.id, server_id=server.server_id, host=host, revision=port.revision, claimed=claimed,
                provider_uuid=rack.id if claimed else None,
            )
            for server, port in zip(servers, made, strict=True)
        ]
    )  # fmt: skip
    assert all(isinstance(answer, Bound) for answer in answers), answers
    return answers


async def test_a_bind_gives_one_address_of_each_claimed_class_and_the_automatic_ones(cloud: Cloud) -> None:
    network, (_rack1, rack2) = await dual(cloud)
    bound = await bind(cloud, 2, rack2, "h2", network)
    assert [answer.addresses[:2] for answer in bound] == [("10.2.0.2", "2001:db8:2::2"), ("10.2.0.3", "2001:db8:2::3")]
    assert all(answer.addresses[2].startswith("2001:db8:f:") for answer in bound)
    assert all(len(answer.addresses) == 3 for answer in bound)
    (one,) = await bind(cloud, 1, rack2, "h2", network, claimed=(IPV4_ADDRESS,))
    assert one.addresses[0] == "10.2.0.4"
    assert len(one.addresses) == 2
    await cloud.client.settle_ports([port.device_id for port in await listed(cloud)])
    await assert_books_agree(cloud.networks.database, settled=False)


async def test_servers_bound_together_get_automatic_addresses_of_their_own_segments_only(cloud: Cloud) -> None:
    network, segments = await dual(cloud)
    servers = [cloud.server(Nic(tag="0", network_id=network.id)) for _ in segments]
    found = await cloud.ensure(*servers)
    both = (IPV4_ADDRESS, IPV6_ADDRESS)
    binds = []
    for number, (server, port, segment) in enumerate(zip(servers, found, segments, strict=True), 1):
        assert await cloud.claim([port.id], segment.id, both)
        binds.append(
            PortBind(
                port_id=port.id, server_id=server.server_id, host=f"h{number}", provider_uuid=segment.id,
                revision=port.revision, claimed=both,
            )
        )  # fmt: skip
    one, two = await cloud.client.bind_ports(binds)
    assert isinstance(one, Bound)
    assert isinstance(two, Bound)
    assert one.addresses == ("10.1.0.2", "2001:db8:1::2")
    assert two.addresses[:2] == ("10.2.0.2", "2001:db8:2::2")
    assert len(two.addresses) == 3


async def listed(cloud: Cloud) -> list[Port]:
    return await ports.list_ports(cloud.networks, PortFilter())


async def test_an_address_that_a_nic_names_in_another_spelling_is_the_one_that_it_has(cloud: Cloud) -> None:
    network = await cloud.plain("2001:db8::/64", physical_network=None)
    server = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip="2001:DB8:0::5"))
    first = await cloud.ensure(server)
    assert [port.addresses for port in first] == [("2001:db8::5",)]
    assert await cloud.ensure(server) == first


async def test_a_bind_that_claims_nothing_goes_where_addresses_need_no_claim(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    rack2 = await cloud.segment(network, "rack2")
    await cloud.subnet(network, "2001:db8:2::/64", rack2, **SLAAC)
    await cloud.client.set_hosts({"both": ["rack1", "rack2"], "h1": ["rack1"]})
    view = (await cloud.client.get_networks([network.id]))[network.id]
    assert {part.name: (part.classes, part.gives_addresses) for part in view.segments} == {
        "rack1": ((IPV4_ADDRESS,), True),
        "rack2": ((), True),
    }
    (one,) = await bind(cloud, 1, rack2, "both", network, claimed=())
    assert len(one.addresses) == 1
    assert one.addresses[0].startswith("2001:db8:2:")
    refused = []
    for claimed in ((), (IPV4_ADDRESS,)):
        server = cloud.server(Nic(tag="0", network_id=network.id))
        (port,) = await cloud.ensure(server)
        wanted = PortBind(
            port_id=port.id, server_id=server.server_id, host="h1", provider_uuid=None, revision=port.revision,
            claimed=claimed,
        )  # fmt: skip
        refused += await cloud.client.bind_ports([wanted])
    assert [isinstance(answer, BindRefused) and answer.changed for answer in refused] == [False, True]
    assert "need no claim" in str(refused[0])
    assert "lost the address" in str(refused[1])
    assert await cloud.used(rack1.id) == (5, 0)


@pytest.mark.parametrize("cidr", ["10.0.0.0/8", "2001:db8::/64"])
@pytest.mark.parametrize("assignment", ["packed", "spread"])
async def test_a_large_subnet_is_never_scanned_and_a_set_costs_as_many_statements_as_one(
    cloud: Cloud, cidr: str, assignment: Any
) -> None:
    cloud.networks.settings = NetworkSettings(assignment=assignment)
    network, (rack1,) = await cloud.routed(cidr)
    claimed = (IPV6_ADDRESS,) if ":" in cidr else (IPV4_ADDRESS,)
    await bind(cloud, 1, rack1, "h1", network, claimed=claimed)
    bound = await bind(cloud, 256, rack1, "h1", network, claimed=claimed)
    assert len({answer.addresses for answer in bound}) == 256
    async with cloud.networks.database.connection() as connection:
        ranges = await connection.fetchval("SELECT count(*) FROM network.free_range")
    assert ranges <= 4
    await assert_books_agree(cloud.networks.database, settled=False)


async def test_spread_begins_anywhere_and_fills_a_subnet_to_the_last(cloud: Cloud) -> None:
    cloud.networks.settings = NetworkSettings(assignment="spread")
    network = await cloud.plain("10.0.0.0/26")
    got = [addresses(await create(cloud, network))[0] for _ in range(61)]
    assert len(set(got)) == 61
    assert got[:8] != sorted(got[:8])
    with pytest.raises(IpAddressGenerationFailure, match="The addresses of network net ran out: 0 of 61 free"):
        await create(cloud, network)
    await assert_books_agree(cloud.networks.database)


async def test_an_automatic_address_that_a_router_holds_is_left_to_it(cloud: Cloud) -> None:
    network = await cloud.network()
    await cloud.subnet(network, "2001:db8::/64", **SLAAC)
    taken = show(uses.eui64("2001:db8::/64", "fa:16:3e:00:00:09"))
    await create(cloud, network, fixed_ips=[{"ip_address": taken}], device_owner="network:router_interface")
    assert not (await create(cloud, network, mac_address="fa:16:3e:00:00:09")).addresses
    with pytest.raises(IpAddressAlreadyAllocated):
        await create(cloud, network, fixed_ips=[{"ip_address": taken}], device_owner="network:router_interface")
    await assert_books_agree(cloud.networks.database)


async def test_a_new_automatic_subnet_gives_its_addresses_to_ports_that_are_there(cloud: Cloud) -> None:
    network, (rack1, _rack2) = await dual(cloud)
    on_rack1, on_rack2 = await create(cloud, network, host="h1"), await create(cloud, network, host="h2")
    deferred, none = await create(cloud, network), await create(cloud, network, fixed_ips=[])
    router = await create(
        cloud, network, fixed_ips=[{"ip_address": "10.1.0.1"}], device_owner="network:router_interface"
    )
    await cloud.subnet(network, "2001:db8:e::/64", rack1, **STATELESS)
    now = {port.id: port for port in await listed(cloud)}
    assert eui64(on_rack1, "2001:db8:e::/64") in addresses(now[on_rack1.id])
    assert now[on_rack1.id].revision == on_rack1.revision + 1
    for port in (on_rack2, deferred, none, router):
        assert addresses(now[port.id]) == addresses(port)
    assert await cloud.used(rack1.id, IPV6_ADDRESS) == (2**31 - 1, 1)
    await assert_books_agree(cloud.networks.database)


async def test_ports_get_the_addresses_of_an_automatic_subnet_whose_maker_died(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, (rack1, _rack2) = await dual(cloud)
    port = await create(cloud, network, host="h1")

    async def die(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(subnets, "spread", die)
        with pytest.raises(RuntimeError):
            await cloud.subnet(network, "2001:db8:e::/64", rack1, **STATELESS)
    for _ in range(2):
        await reconcile_once(cloud.networks)
        (now,) = await listed(cloud)
        assert eui64(port, "2001:db8:e::/64") in addresses(now)
        assert now.revision == port.revision + 1
    await assert_books_agree(cloud.networks.database)


async def test_another_mac_address_means_other_automatic_addresses(cloud: Cloud) -> None:
    network = await cloud.plain()
    await cloud.subnet(network, "2001:db8::/64", **SLAAC)
    port = await create(cloud, network)
    changed = await ports.update_port(cloud.networks, port.id, PortChanges(mac_address="fa:16:3e:00:00:77"))
    assert addresses(changed) == [addresses(port)[0], "2001:db8::f816:3eff:fe00:77"]
    await assert_books_agree(cloud.networks.database)


async def test_a_port_that_is_no_routers_any_more_has_what_follows_from_its_mac_address(cloud: Cloud) -> None:
    """Whatever it named there as a router's, or kept of an earlier MAC address; what is of a pool is free again."""
    network = await cloud.plain()
    await cloud.subnet(network, "2001:db8::/64", pools=[("2001:db8::10", "2001:db8::20")], **SLAAC)
    named = [{"ip_address": address} for address in ("10.0.0.9", "2001:db8::1", "2001:db8::12")]
    port = await create(cloud, network)
    router = await create(cloud, network, fixed_ips=named, device_owner="network:router_interface")
    for one, owner in ((port, "network:router_interface"), (router, "network:router_gateway")):
        await ports.update_port(cloud.networks, one.id, PortChanges(device_owner=owner))
    changes = PortChanges(mac_address="fa:16:3e:00:00:77")
    as_router = await ports.update_port(cloud.networks, port.id, changes)
    assert addresses(as_router) == addresses(port), "it may have named them"
    changed = await ports.update_port(cloud.networks, port.id, PortChanges(device_owner=""))
    assert addresses(changed) == [addresses(port)[0], "2001:db8::f816:3eff:fe00:77"]
    now = await ports.get_port(cloud.networks, router.id)
    assert addresses(now) == ["10.0.0.9", eui64(router, "2001:db8::/64")]
    await assert_books_agree(cloud.networks.database)


async def test_a_router_names_other_addresses_where_they_follow_from_macs(cloud: Cloud) -> None:
    """None of what it had stays that it does not name: nothing there follows from its own MAC address."""
    network = await cloud.plain()
    await cloud.subnet(network, "2001:db8::/64", pools=[("2001:db8::10", "2001:db8::20")], **SLAAC)
    named = tuple(FixedIpRequest(ip_address=text) for text in ("10.0.0.9", "2001:db8::1", "2001:db8::12"))
    request = PortRequest(
        network_id=network.id, project_id=PROJECT, fixed_ips=named, device_owner="network:router_interface"
    )
    port = await ports.create_port(cloud.networks, request)
    for fixed_ips in (named[:2], (named[0], FixedIpRequest(ip_address="2001:db8::13")), named[:1], ()):
        changed = await ports.update_port(cloud.networks, port.id, PortChanges(fixed_ips=fixed_ips))
        assert addresses(changed) == [item.ip_address for item in fixed_ips]
    await assert_books_agree(cloud.networks.database)


@pytest.mark.parametrize(
    ("owner", "stays"),
    [("", ()), ("", ("10.2.0.2",)), ("network:distributed", ("10.2.0.2",))],
    ids=["none_named", "other_segment", "distributed"],
)
async def test_another_mac_address_and_other_addresses_in_one_update(
    cloud: Cloud, owner: str, stays: tuple[str, ...]
) -> None:
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    prefixes = {"10.1.": "2001:db8:a::/64", "10.2.": "2001:db8:b::/64"}
    for rack, cidr in zip((rack1, rack2), prefixes.values(), strict=True):
        await cloud.subnet(network, cidr, rack, **SLAAC)
    port = await create(cloud, network, fixed_ips=[{"ip_address": "10.1.0.2"}], device_owner=owner)
    named = tuple(FixedIpRequest(ip_address=address) for address in stays)
    changes = PortChanges(mac_address="fa:16:3e:00:00:77", fixed_ips=named)
    changed = await ports.update_port(cloud.networks, port.id, changes)
    # What follows from the MAC stays until the port leaves the segment, which a distributed one never does.
    segments = {address[:5] for address in stays} | (set() if stays and not owner else {"10.1."})
    assert set(addresses(changed)) == {*stays, *(eui64(changed, prefixes[start]) for start in segments)}
    await assert_books_agree(cloud.networks.database)


async def test_named_addresses_of_both_families_have_automatic_ones_beside_them(cloud: Cloud) -> None:
    network, (_rack1, rack2) = await dual(cloud)
    port = await create(cloud, network, fixed_ips=[{"ip_address": "10.2.0.4"}, {"ip_address": "2001:db8:2::3"}])
    assert addresses(port) == ["10.2.0.4", "2001:db8:2::3", eui64(port, "2001:db8:f::/64")]
    changed = await ports.update_port(
        cloud.networks, port.id, PortChanges(fixed_ips=(FixedIpRequest(ip_address="10.2.0.5"),))
    )
    assert addresses(changed) == ["10.2.0.5", eui64(port, "2001:db8:f::/64")]
    assert await cloud.used(rack2.id, IPV6_ADDRESS) == (2, 0)
    await assert_books_agree(cloud.networks.database)


@pytest.mark.parametrize("assignment", ["packed", "spread"])
async def test_a_set_in_one_subnet_reads_no_more_rows_than_it_takes_however_full_it_is(
    cloud: Cloud, assignment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other address is held, so that each free range is one address; 64 are wanted of 4,000."""
    cloud.networks.settings = NetworkSettings(assignment=assignment)
    network, (rack1,) = await cloud.routed("10.0.0.0/19")
    async with cloud.networks.database.connection() as connection:
        subnet_id = await connection.fetchval("SELECT id FROM network.subnet")
        await connection.execute("DELETE FROM network.free_range")
        await connection.execute(
            """INSERT INTO network.free_range SELECT $1, a, a FROM (
            SELECT ('10.0.0.0'::inet + 2 * n) AS a FROM generate_series(1, 4000) AS n) f""",
            subnet_id,
        )
    read: list[int] = []
    statements: list[str] = []
    real = asyncpg.connection.Connection.fetch

    async def noting(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
        rows = await real(self, query, *arguments, **options)
        statements.append(query)
        if query.startswith("\n-- network.list_free_ranges") or "-- network.list_free_ranges" in query[:40]:
            read.append(len(rows))
        return rows

    monkeypatch.setattr(asyncpg.connection.Connection, "fetch", noting)
    await bind(cloud, 1, rack1, "h1", network, claimed=(IPV4_ADDRESS,))
    one = len(statements)
    statements.clear()
    bound = await bind(cloud, 64, rack1, "h1", network, claimed=(IPV4_ADDRESS,))
    assert len({answer.addresses for answer in bound}) == 64
    assert len(statements) == one
    assert read[0] <= 2
    assert 64 <= read[1] <= 65


async def test_whoever_gets_addresses_while_an_automatic_subnet_is_made_gets_that_one_too(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/24")
    deferred = [await create(cloud, network) for _ in range(8)]

    async def bind_late(port: Port) -> None:
        await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))

    async def build(count: int) -> None:
        await bind(cloud, count, rack1, "h1", network, claimed=(IPV4_ADDRESS,))

    for cidr in ("2001:db8:a::/64", "2001:db8:b::/64"):
        half = deferred[:4] if cidr.startswith("2001:db8:a") else deferred[4:]
        await asyncio.gather(
            *(create(cloud, network, host="h1") for _ in range(6)),
            *(bind_late(port) for port in half),
            cloud.subnet(network, cidr, rack1, **SLAAC),
            build(5),
            build(5),
        )
    # What a build held when the subnet came gets its address once it is settled.
    await cloud.client.settle_ports(sorted({port.device_id for port in await listed(cloud)} - {""}))
    await reconcile_once(cloud.networks)
    for port in await listed(cloud):
        assert addresses(port)[1:] == sorted([eui64(port, "2001:db8:a::/64"), eui64(port, "2001:db8:b::/64")])
    await assert_books_agree(cloud.networks.database, settled=False)


async def test_a_subnet_that_comes_while_an_update_assigns_is_not_locked_out_of_order(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By id it is before the one that the update has locked; a build that sees both locks it first, and waits."""
    network, (rack1,) = await cloud.routed("10.1.0.0/24")
    deferred = await create(cloud, network)
    env = dataclasses.replace(cloud.networks.env, new_uuid=lambda: str(uuid.UUID(int=1)))
    first = dataclasses.replace(cloud, networks=dataclasses.replace(cloud.networks, env=env))
    lock = store.lock_provider_subnets
    meanwhile: list[asyncio.Task[Any]] = []

    def begin(act: Coroutine[Any, Any, Any]) -> None:
        """As another request: it holds no connection."""
        meanwhile.append(asyncio.get_running_loop().create_task(act, context=contextvars.Context()))

    async def then_a_subnet_and_a_build(*arguments: Any) -> Any:
        locked = await lock(*arguments)
        if not meanwhile:
            begin(first.subnet(network, "2001:db8:a::/64", rack1, **SLAAC))
            await until_blocked(cloud.networks.database, 1)  # it is there, and waits for the port
            begin(bind(cloud, 1, rack1, "h1", network, claimed=(IPV4_ADDRESS,)))
            await until_blocked(cloud.networks.database, 2)
        return locked

    monkeypatch.setattr(store, "lock_provider_subnets", then_a_subnet_and_a_build)
    await ports.update_port(cloud.networks, deferred.id, PortChanges(host="h1"))
    await asyncio.gather(*meanwhile)
    port = await ports.get_port(cloud.networks, deferred.id)
    assert addresses(port) == ["10.1.0.2", eui64(port, "2001:db8:a::/64")]
    await assert_books_agree(cloud.networks.database, settled=False)


async def test_what_follows_from_the_mac_does_not_hold_a_port_on_a_segment_that_it_leaves(cloud: Cloud) -> None:
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    await cloud.subnet(network, "2001:db8:a::/64", rack1, **SLAAC)
    await cloud.subnet(network, "2001:db8:b::/64", rack2, **SLAAC)
    port = await create(cloud, network, fixed_ips=[{"ip_address": "10.1.0.2"}])
    assert sorted(addresses(port)) == ["10.1.0.2", eui64(port, "2001:db8:a::/64")]
    there = PortChanges(fixed_ips=(FixedIpRequest(ip_address="10.2.0.2"),))
    moved = await ports.update_port(cloud.networks, port.id, there)
    assert sorted(addresses(moved)) == ["10.2.0.2", eui64(port, "2001:db8:b::/64")]
    # Who names it says that it is to stay, and with nothing named there is nowhere to go.
    both = [FixedIpRequest(ip_address=item) for item in ("10.1.0.2", eui64(port, "2001:db8:b::/64"))]
    with pytest.raises(FixedIpsSubnetsNotOnSameSegment):
        await ports.update_port(cloud.networks, port.id, PortChanges(fixed_ips=tuple(both)))
    alone = await ports.update_port(cloud.networks, port.id, PortChanges(fixed_ips=()))
    assert addresses(alone) == [eui64(port, "2001:db8:b::/64")]
    await reconcile_once(cloud.networks)
    await assert_books_agree(cloud.networks.database)
