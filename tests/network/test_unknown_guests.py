"""Addresses of guests that the records do not know: nobody is given them, and nobody claims them."""

import asyncio
import contextvars
import itertools
import uuid
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from tests.blocked import until_blocked
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT, Cloud, assert_sound, counting, execute
from tests.next_call import before

from roost.network.errors import (
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
    PortNotFound,
    SubnetInUse,
)
from roost.network.model.networks import Host, Network, SubnetChanges
from roost.network.model.ports import HELD_OWNER, FixedIpRequest, Port, PortFilter, PortRequest
from roost.network.model.unknown_guests import Place
from roost.network.rules import capacity
from roost.network.rules.unknown_guests import after_hold, canonical, is_held, list_pairs, plan_host
from roost.network.service import audit, ports, subnets, unknown_guests
from roost.network.service.reconciler import reconcile_once
from roost.network.store import addresses, publications, resources
from roost.network.store import networks as network_rows
from roost.platform.drift import Repairs
from roost.platform.errors import DatabaseUnavailable
from roost.seams.network import BindRefused, Nic, PortBind
from roost.seams.placement import IPV4_ADDRESS
from roost.seams.unknown_guests import HeldAddresses, ListedNic, UnknownGuest, held_sentence

GUEST = "11111111-1111-1111-1111-111111111111"
OTHER = "22222222-2222-2222-2222-222222222222"
clock = itertools.count(1_000_000)


def guest(*addresses: str, server_id: str = GUEST, host: str = "h1", network: Network | None = None) -> UnknownGuest:
    nic = ListedNic(mac_address=f"fa:16:3e:00:00:{server_id[:2]}", addresses=addresses)
    if network is not None:
        nic = ListedNic(mac_address=nic.mac_address, addresses=addresses, network_id=network.id)
    return UnknownGuest(server_id=server_id, host=host, nics=(nic,))


async def hold(cloud: Cloud, *guests: UnknownGuest, host: str = "h1") -> list[HeldAddresses]:
    return await cloud.client.hold_addresses({host: guests}, as_of=float(next(clock)))


async def reserved(cloud: Cloud, provider_uuid: str) -> dict[str, int]:
    states = await cloud.networks.placement.get_providers([provider_uuid])
    return {name: item.reserved for name, item in (states[provider_uuid].inventories or {}).items()}


async def make(cloud: Cloud, network: Network, address: str | None = None, **more: Any) -> Port:
    fixed_ips = (FixedIpRequest(ip_address=address),) if address else None
    return await ports.create_port(
        cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=fixed_ips, **more)
    )


# Rules.


def place(address: str = "10.0.0.2", subnet_id: str = "s", **more: Any) -> Place:
    fields: dict[str, Any] = {"network_id": "n", "provider_uuid": "p", **more}
    return Place(address=address, subnet_id=subnet_id, **fields)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([place()], {"free": ("10.0.0.2",)}),
        ([], {"unknown": ("10.0.0.2",)}),
        ([place(physical_network="rack1")], {"free": ("10.0.0.2",)}),
        ([place(physical_network="rack2")], {"unknown": ("10.0.0.2",)}),
        ([place(cell="cell1")], {"free": ("10.0.0.2",)}),
        ([place(cell="cell2")], {"unknown": ("10.0.0.2",)}),
        ([place(port_id="q", server_id=GUEST)], {"held": ("10.0.0.2",)}),  # its server's own port has it
        ([place(port_id="q", server_id=GUEST, host="h1", of_unknown_guest=True)], {"held": ("10.0.0.2",)}),
        ([place(port_id="q", server_id=OTHER, host="h1", of_unknown_guest=True)], {"held": ("10.0.0.2",)}),  # it went
        ([place(port_id="q", server_id=GUEST, host="h2", of_unknown_guest=True)], {"used": (("q", GUEST, "h2"),)}),
        ([place(port_id="q", server_id=OTHER, host="h2")], {"used": (("q", OTHER, "h2"),)}),
        ([place(port_id="q")], {"used": (("q", "", ""),)}),
    ],
)
def test_what_nobody_has_and_the_host_reaches_is_held(places: list[Place], expected: dict[str, Any]) -> None:
    host = Host("h1", frozenset({"rack1"}))
    plan = plan_host([guest("10.0.0.2")], host, {"10.0.0.2": places})
    (answer,) = plan.answers
    used = tuple((item.port_id, item.server_id, item.host) for item in answer.used)
    assert {"held": answer.addresses_held, "free": answer.free, "used": used, "unknown": answer.unknown} == {
        "held": (), "free": (), "used": (), "unknown": (), **expected
    }  # fmt: skip
    own_port = bool(places) and places[0].port_id is not None and not places[0].of_unknown_guest
    holds = bool((answer.addresses_held or answer.free) and not own_port)
    assert [port.listed for port in plan.ports] == ([] if answer.unknown else [{("s", "10.0.0.2"): holds}])
    assert after_hold(answer).addresses_held == answer.addresses_held + answer.free


def test_of_two_guests_of_a_host_with_one_address_the_first_holds_it() -> None:
    host = Host("h1", frozenset())
    plan = plan_host([guest("10.0.0.2"), guest("10.0.0.2", server_id=OTHER)], host, {"10.0.0.2": [place()]})
    assert [answer.free for answer in plan.answers] == [("10.0.0.2",), ()]
    assert [holder.words for holder in plan.answers[1].used] == [f"server {GUEST} on host h1"]
    assert [port.server_id for port in plan.ports] == [GUEST]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ({"10.0.0.2": True}, True),
        ({"10.0.0.2": False}, False),
        ({"10.0.0.2": True, "10.0.0.3": True}, False),
        ({"10.0.0.2": True, "10.0.0.3": False}, False),
        ({"10.0.0.3": True}, False),
        ({}, False),
    ],
)
def test_a_hidden_port_is_right_when_it_has_and_lists_what_it_should(listed: dict[str, bool], expected: bool) -> None:
    plan = plan_host([guest("10.0.0.2")], Host("h1", frozenset()), {"10.0.0.2": [place()]})
    pairs = {("s", address): has for address, has in listed.items()}
    assert is_held(plan, {plan.ports[0].id: pairs}) is expected
    assert not is_held(plan, {})
    assert not is_held(plan, {plan.ports[0].id: pairs, "p": {}})


def test_a_host_that_nobody_declared_reaches_nothing() -> None:
    plan = plan_host([guest("10.0.0.2")], None, {"10.0.0.2": [place()]})
    assert (plan.ports, plan.answers[0].unknown) == ((), ("10.0.0.2",))


def test_what_is_no_address_is_left_out() -> None:
    other = UnknownGuest(
        server_id=OTHER, host="h1", nics=(ListedNic(mac_address="m", addresses=("10.0.0.2",), network_id="n"),)
    )
    pairs = [(None, "10.0.0.2"), (None, "2001:db8::1"), ("n", "10.0.0.2")]
    assert list_pairs([other, guest("10.0.0.2", "2001:DB8::1", "nonsense"), guest("10.0.0.2")]) == pairs
    assert [canonical(text) for text in ("2001:DB8::1", "nonsense")] == ["2001:db8::1", "nonsense"]


def test_refusals_say_how_many_addresses_are_held() -> None:
    assert held_sentence(1) == "1 of its addresses is held by unknown guests: see roost-manage guests list."
    assert held_sentence(2).startswith("2 of its addresses are held")


# The service.


async def test_a_held_address_is_given_to_nobody_and_reserved(cloud: Cloud) -> None:
    network, (rack,) = await cloud.routed("10.1.0.0/29")  # .2 to .6
    (answer,) = await hold(cloud, guest("10.1.0.2", "10.1.0.3", network=network))
    assert (answer.addresses_held, answer.used, answer.unknown) == (("10.1.0.2", "10.1.0.3"), (), ())
    assert await reserved(cloud, rack.id) == {IPV4_ADDRESS: 2}
    assert await cloud.used(rack.id) == (3, 0)
    given = {(await make(cloud, network, host="h1")).addresses[0].address for _ in range(3)}
    assert given == {"10.1.0.4", "10.1.0.5", "10.1.0.6"}
    with pytest.raises(IpAddressGenerationFailure, match="2 of its addresses are held by unknown guests: see roost-m"):
        await make(cloud, network, host="h1")
    with pytest.raises(IpAddressAlreadyAllocated):
        await make(cloud, network, "10.1.0.2")
    await assert_books_agree(cloud.networks.database)


async def test_no_client_sees_the_port_that_holds_it(cloud: Cloud) -> None:
    await cloud.plain("10.0.0.0/29")
    await cloud.client.set_hosts({"h1": []})
    await hold(cloud, guest("10.0.0.2"))
    assert await ports.list_ports(cloud.networks, PortFilter()) == []
    (port,) = await ports.list_ports(cloud.networks, PortFilter(hidden=True))
    assert (port.device_owner, port.made_for, port.host, port.device_id) == (HELD_OWNER, GUEST, "h1", "")
    for refused in (ports.get_port(cloud.networks, port.id), ports.delete_port(cloud.networks, port.id)):
        with pytest.raises(PortNotFound):
            await refused
    assert await cloud.client.list_attached_ports([GUEST]) == {}
    assert await cloud.client.list_unreached_ports({GUEST: "h2"}) == {}
    with pytest.raises(SubnetInUse):
        await subnets.delete_subnet(cloud.networks, await only(cloud))


async def only(cloud: Cloud) -> str:
    async with cloud.networks.database.connection() as connection:
        (subnet,) = await network_rows.list_subnets(connection)
    return subnet.id


async def test_a_client_cannot_make_a_port_that_counts_as_held(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/29")
    await make(cloud, network, device_owner=HELD_OWNER)
    assert await reserved(cloud, network.id) == {IPV4_ADDRESS: 0}
    assert await cloud.client.list_holding_hosts() == set()
    await assert_books_agree(cloud.networks.database)


async def test_said_twice_it_changes_nothing_and_reads_only(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29")
    await make(cloud, network, "10.1.0.3", host="h1")
    await hold(cloud, guest("10.1.0.2", "10.1.0.3"))
    with counting(cloud) as statements:
        (answer,) = await hold(cloud, guest("10.1.0.2", "10.1.0.3"))
    assert (answer.addresses_held, [item.address for item in answer.used]) == (("10.1.0.2",), ["10.1.0.3"])
    assert [text.splitlines()[1] for text in statements] == [
        "-- network.list_hosts", "-- network.list_listed_places", "-- network.list_held_ports",
    ]  # fmt: skip


async def test_when_the_guest_is_gone_its_address_is_free_again(cloud: Cloud) -> None:
    network, (rack,) = await cloud.routed("10.1.0.0/30")
    await hold(cloud, guest("10.1.0.2"), guest("10.1.0.3", server_id=OTHER))
    assert await cloud.client.list_holding_hosts() == {"h1"}
    assert await cloud.used(rack.id) == (0, 0)
    await hold(cloud)
    assert await cloud.client.list_holding_hosts() == set()
    assert await reserved(cloud, rack.id) == {IPV4_ADDRESS: 0}
    assert (await make(cloud, network, host="h1")).addresses[0].address == "10.1.0.2"
    await assert_books_agree(cloud.networks.database)


async def test_a_guest_that_lists_other_addresses_holds_those(cloud: Cloud) -> None:
    _, (rack,) = await cloud.routed("10.1.0.0/28")
    await hold(cloud, guest("10.1.0.2", "10.1.0.3"))
    await hold(cloud, guest("10.1.0.3", "10.1.0.9"))
    (port,) = await ports.list_ports(cloud.networks, PortFilter(hidden=True))
    assert [item.address for item in port.addresses] == ["10.1.0.3", "10.1.0.9"]
    assert await reserved(cloud, rack.id) == {IPV4_ADDRESS: 2}
    await assert_books_agree(cloud.networks.database)


async def test_an_address_that_goes_from_one_guest_of_the_host_to_another_stays_held(cloud: Cloud) -> None:
    await cloud.routed("10.1.0.0/28")
    await hold(cloud, guest("10.1.0.2"))
    (answer,) = await hold(cloud, guest("10.1.0.2", server_id=OTHER))
    assert answer.addresses_held == ("10.1.0.2",)
    (port,) = await ports.list_ports(cloud.networks, PortFilter(hidden=True))
    assert (port.made_for, [item.address for item in port.addresses]) == (OTHER, ["10.1.0.2"])
    await assert_books_agree(cloud.networks.database)


async def test_an_address_that_a_port_has_stays_with_it_and_is_named(cloud: Cloud) -> None:
    network, (rack,) = await cloud.routed("10.1.0.0/28")
    port = await make(cloud, network, "10.1.0.5", device_id=OTHER, device_owner="compute:nova", host="h1")
    (answer,) = await hold(cloud, guest("10.1.0.5", "10.1.0.6"))
    assert answer.addresses_held == ("10.1.0.6",)
    assert [(item.address, item.port_id, item.server_id, item.host) for item in answer.used] == [
        ("10.1.0.5", port.id, OTHER, "h1")
    ]
    assert await cloud.used(rack.id) == (12, 1)
    assert await cloud.client.list_held_addresses([guest("10.1.0.5", "10.1.0.6")]) == [answer]


@pytest.mark.parametrize("owner", [GUEST, OTHER, ""], ids=["its server's", "another server's", "nobody's"])
async def test_what_another_port_gives_up_is_held_in_the_same_moment(cloud: Cloud, owner: str) -> None:
    network, (rack,) = await cloud.routed("10.1.0.0/29")
    of_server = {"device_id": owner, "device_owner": "compute:nova"} if owner else {}
    port = await make(cloud, network, "10.1.0.2", host="h1", **of_server)
    await hold(cloud, guest("10.1.0.2"))
    assert await reserved(cloud, rack.id) == {IPV4_ADDRESS: 0}
    await ports.delete_port(cloud.networks, port.id)
    with pytest.raises(IpAddressAlreadyAllocated):
        await make(cloud, network, "10.1.0.2")
    await reconcile_once(cloud.networks)
    assert await reserved(cloud, rack.id) == {IPV4_ADDRESS: 1}
    assert await cloud.used(rack.id) == (4, 0)
    await assert_books_agree(cloud.networks.database)
    with counting(cloud) as statements:
        (answer,) = await hold(cloud, guest("10.1.0.2"))
    assert (answer.addresses_held, len(statements)) == (("10.1.0.2",), 3), "it is so already"
    await hold(cloud)
    assert (await make(cloud, network, "10.1.0.2")).addresses[0].claimed
    await reconcile_once(cloud.networks)
    await assert_sound(cloud)


async def test_what_a_port_gives_up_while_its_guest_goes_is_free(cloud: Cloud) -> None:
    """R47: the hidden port was read without it."""
    network, (rack,) = await cloud.routed("10.1.0.0/30")
    port = await make(cloud, network, host="h1")
    await hold(cloud, guest("10.1.0.2"))
    before(addresses, "lock_subnets", partial(ports.delete_port, cloud.networks, port.id))
    await hold(cloud)
    assert await cloud.client.list_holding_hosts() == set()
    assert (await make(cloud, network, "10.1.0.2", host="h1")).addresses[0].claimed
    await reconcile_once(cloud.networks)
    assert await cloud.used(rack.id) == (1, 1)
    await assert_sound(cloud)


@pytest.mark.parametrize("is_left", [False, True])
async def test_what_a_port_gives_up_once_its_guests_hidden_port_goes_is_free(cloud: Cloud, is_left: bool) -> None:
    """R47, a moment later: the subnets are locked while the hidden port is deleted, also that of a lost NIC."""
    network, _ = await cloud.routed("10.1.0.0/30")
    port = await make(cloud, network, host="h1")
    if is_left:
        async with cloud.networks.database.transaction() as tx:
            of_server = replace(port, device_id=GUEST)
            await unknown_guests.hold_left(cloud.networks, tx, of_server, port.addresses)
    else:
        await hold(cloud, guest("10.1.0.2"))
    deleting: list[asyncio.Task[None]] = []

    async def delete() -> None:
        work = ports.delete_port(cloud.networks, port.id)
        deleting.append(asyncio.create_task(work, context=contextvars.Context()))
        await until_blocked(cloud.networks.database, 1)

    before(resources, "delete", delete)
    await (unknown_guests.give_up_left(cloud.networks) if is_left else hold(cloud))
    await asyncio.gather(*deleting)
    assert (await make(cloud, network, "10.1.0.2", host="h1")).addresses[0].claimed
    await reconcile_once(cloud.networks)
    await assert_sound(cloud)


async def test_an_address_of_a_subnet_that_was_made_meanwhile_is_held_the_next_time(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    await cloud.client.set_hosts({"h1": []})
    before(addresses, "lock_subnets", partial(cloud.subnet, network, "10.0.1.0/28"))
    for expected in (["10.0.0.2"], ["10.0.0.2", "10.0.1.2"]):
        await hold(cloud, guest("10.0.0.2", "10.0.1.2"))
        (port,) = await ports.list_ports(cloud.networks, PortFilter(hidden=True))
        assert [item.address for item in port.addresses] == expected
        await assert_books_agree(cloud.networks.database)


async def test_what_an_unknown_guest_gives_up_another_hosts_guest_holds(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    await cloud.client.set_hosts({"h1": [], "h2": []})
    await hold(cloud, guest("10.0.0.2"))
    await hold(cloud, guest("10.0.0.2", server_id=OTHER, host="h2"), host="h2")
    await hold(cloud)
    with pytest.raises(IpAddressAlreadyAllocated):
        await make(cloud, network, "10.0.0.2")
    (port,) = await ports.list_ports(cloud.networks, PortFilter(hidden=True))
    assert (port.host, [item.address for item in port.addresses]) == ("h2", ["10.0.0.2"])
    await hold(cloud, host="h2")
    assert await cloud.client.list_holding_hosts() == set()
    await assert_books_agree(cloud.networks.database)


async def test_what_goes_from_one_guest_to_another_may_be_a_third_ones(cloud: Cloud) -> None:
    """The first drops it, and a guest of its own host and one of another host have it too."""
    await cloud.plain("10.0.0.0/28")
    await cloud.client.set_hosts({"h1": [], "h2": []})
    await hold(cloud, guest("10.0.0.2"))
    await hold(cloud, guest("10.0.0.2", server_id=OTHER, host="h2"), host="h2")
    third = "33333333-3333-3333-3333-333333333333"
    for _ in range(2):
        (answer,) = await hold(cloud, guest("10.0.0.2", server_id=third))
        whose = [answer.server_id] if answer.addresses_held else [holder.server_id for holder in answer.used]
        assert whose in ([third], [OTHER])
    held = [port for port in await ports.list_ports(cloud.networks, PortFilter(hidden=True)) if port.addresses]
    assert [port.made_for for port in held] == whose
    await assert_books_agree(cloud.networks.database)


async def test_two_hosts_with_one_address_are_both_named_where_it_is_asked_for(cloud: Cloud) -> None:
    await cloud.plain("10.0.0.0/28")
    await cloud.client.set_hosts({"h1": [], "h2": []})
    await hold(cloud, guest("10.0.0.5"))
    (answer,) = await hold(cloud, guest("10.0.0.5", server_id=OTHER, host="h2"), host="h2")
    assert [holder.words for holder in answer.used] == [f"server {GUEST} on host h1"]


async def test_an_address_outside_the_pools_is_held_and_counts_nothing(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28", pools=[("10.0.0.8", "10.0.0.10")])
    await cloud.client.set_hosts({"h1": []})
    (answer,) = await hold(cloud, guest("10.0.0.3", "10.0.0.8"))
    assert answer.addresses_held == ("10.0.0.3", "10.0.0.8")
    assert await reserved(cloud, network.id) == {IPV4_ADDRESS: 1}
    with pytest.raises(IpAddressAlreadyAllocated):
        await make(cloud, network, "10.0.0.3")
    await assert_books_agree(cloud.networks.database)


async def test_only_what_the_host_reaches_as_declared_is_held(cloud: Cloud) -> None:
    _, (_, rack2) = await cloud.routed("10.1.0.0/28", "10.2.0.0/28")
    (answer,) = await hold(cloud, guest("10.1.0.2", "10.2.0.2", "192.0.2.1"))
    assert (answer.addresses_held, answer.unknown) == (("10.1.0.2",), ("10.2.0.2", "192.0.2.1"))
    assert await cloud.used(rack2.id) == (13, 0)


async def test_an_address_of_a_flat_networks_pool_is_held(cloud: Cloud) -> None:
    network = await cloud.flat(cell1="10.0.0.0/29", cell2="10.9.0.0/29")
    await cloud.client.set_hosts({"h1": []}, cells_by_host={"h1": "cell1"})
    (answer,) = await hold(cloud, guest("10.0.0.2", "10.9.0.2", network=network))
    assert (answer.addresses_held, answer.unknown) == (("10.0.0.2",), ("10.9.0.2",))
    assert await audit.AUDIT.run(cloud.networks, repairs=Repairs.NONE) == []
    named = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip="10.0.0.2"))
    (refused,) = await cloud.client.ensure_ports([named])
    assert f"is server {GUEST}'s" in refused.reason  # type: ignore[union-attr]
    await assert_sound(cloud)


async def test_ipv6_addresses_are_held_and_reserved_as_their_own_class(cloud: Cloud) -> None:
    network = await cloud.plain("2001:db8::/64", pools=[("2001:db8::10", "2001:db8::1f")])
    await cloud.subnet(network, "2001:db8:1::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    await cloud.client.set_hosts({"h1": []})
    (answer,) = await hold(cloud, guest("2001:DB8::10", "2001:db8:1:0:f816:3eff:fe00:1"))
    assert answer.addresses_held == ("2001:db8::10", "2001:db8:1:0:f816:3eff:fe00:1")
    assert await reserved(cloud, network.id) == {"CUSTOM_IPV6_ADDRESS": 1}
    await assert_books_agree(cloud.networks.database)


async def test_a_mac_address_that_a_port_has_keeps_no_address_from_being_held(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    await cloud.client.set_hosts({"h1": []})
    mac = guest("10.0.0.2").nics[0].mac_address
    await make(cloud, network, "10.0.0.5", mac_address=mac)
    (answer,) = await hold(cloud, guest("10.0.0.2"))
    assert answer.addresses_held == ("10.0.0.2",)
    assert await hold(cloud, guest("10.0.0.2")) == [answer]


async def test_a_build_that_was_promised_the_last_unit_is_refused_when_it_binds(cloud: Cloud) -> None:
    network, (rack,) = await cloud.routed("10.1.0.0/30")
    await hold(cloud)
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert await cloud.claim([port.id], rack.id)
    (answer,) = await hold(cloud, guest("10.1.0.2"))
    assert answer.addresses_held == ("10.1.0.2",)
    assert await cloud.used(rack.id) == (0, 1)
    bind = PortBind(
        port_id=port.id, server_id=server.server_id, host="h1", provider_uuid=rack.id, revision=port.revision
    )
    (refused,) = await cloud.client.bind_ports([bind])
    assert isinstance(refused, BindRefused)
    assert not refused.changed
    await assert_sound(cloud)


async def test_a_set_that_was_read_earlier_than_the_one_that_is_held_changes_nothing(cloud: Cloud) -> None:
    await cloud.routed("10.1.0.0/28")
    earlier = float(next(clock))
    await hold(cloud, guest("10.1.0.2"))
    await cloud.client.hold_addresses({"h1": ()}, as_of=earlier)
    assert await cloud.client.list_holding_hosts() == {"h1"}
    await cloud.client.hold_addresses({"h1": ()}, as_of=float(next(clock)))
    assert await cloud.client.list_holding_hosts() == set()


async def test_what_could_not_be_published_at_once_the_reconciler_publishes(cloud: Cloud) -> None:
    _, (rack,) = await cloud.routed("10.1.0.0/28")

    async def away() -> None:
        raise DatabaseUnavailable("away")

    before(cloud.networks.placement, "ensure_providers", away)
    (answer,) = await hold(cloud, guest("10.1.0.2"))
    assert answer.addresses_held == ("10.1.0.2",)
    assert await reserved(cloud, rack.id) == {IPV4_ADDRESS: 0}
    await reconcile_once(cloud.networks)
    assert await reserved(cloud, rack.id) == {IPV4_ADDRESS: 1}


async def test_boots_and_requests_at_once_never_get_what_is_being_held(cloud: Cloud) -> None:
    network, (rack,) = await cloud.routed("10.1.0.0/28")
    addresses = [f"10.1.0.{number}" for number in range(2, 8)]
    guests = [guest(address, server_id=str(uuid.uuid4())) for address in addresses]
    answers, made = await asyncio.gather(
        hold(cloud, *guests),
        asyncio.gather(*(make(cloud, network, host="h1") for _ in range(13)), return_exceptions=True),
    )
    given = [item.addresses[0].address for item in made if isinstance(item, Port)]
    held = [address for answer in answers for address in answer.addresses_held]
    used = [holder.address for answer in answers for holder in answer.used]
    assert set(held).isdisjoint(given)
    assert sorted(held + used) == sorted(addresses)
    assert set(used) <= set(given)
    assert await reserved(cloud, rack.id) == {IPV4_ADDRESS: len(held)}
    await assert_sound(cloud)


# What else keeps records of addresses.


async def test_the_audit_finds_nothing_where_addresses_are_held(cloud: Cloud) -> None:
    _, (rack,) = await cloud.routed("10.1.0.0/28")
    await hold(cloud, guest("10.1.0.2"))
    assert await audit.AUDIT.run(cloud.networks, repairs=Repairs.NONE) == []
    await execute(cloud, "UPDATE placement.inventory SET reserved = 0")
    (drift,) = await audit.AUDIT.run(cloud.networks, repairs=Repairs.NONE)
    assert (drift.kind.code, drift.key) == ("provider-wrong", rack.id)
    await audit.AUDIT.run(cloud.networks, repairs=Repairs.ALL)
    assert await reserved(cloud, rack.id) == {IPV4_ADDRESS: 1}


async def test_an_address_that_is_marked_as_claimed_though_nobody_may_is_marked_anew(cloud: Cloud) -> None:
    await cloud.routed("10.1.0.0/28")
    await hold(cloud, guest("10.1.0.2"))
    await execute(cloud, "UPDATE network.address SET claimed = true")
    drifts = await audit.AUDIT.run(cloud.networks, repairs=Repairs.ALL)
    assert {drift.kind.code for drift in drifts} == {"address-wrong"}
    await assert_books_agree(cloud.networks.database)


async def test_pools_that_grow_and_shrink_around_a_held_address_claim_nothing_for_it(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28", pools=[("10.0.0.8", "10.0.0.10")])
    await cloud.client.set_hosts({"h1": []})
    await hold(cloud, guest("10.0.0.3", "10.0.0.8"))
    subnet_id = await only(cloud)
    for pools, expected in (
        ((("10.0.0.2", "10.0.0.10"),), (9, 2)),
        ((("10.0.0.4", "10.0.0.10"),), (7, 1)),
        ((("10.0.0.9", "10.0.0.10"),), (2, 0)),
    ):
        await subnets.update_subnet(cloud.networks, subnet_id, SubnetChanges(pools=pools))
        total, held = expected
        assert await reserved(cloud, network.id) == {IPV4_ADDRESS: held}
        assert await cloud.used(network.id) == (total - held, 0)
        assert await hold(cloud, guest("10.0.0.3", "10.0.0.8"))
        await assert_books_agree(cloud.networks.database)


async def test_what_is_published_while_a_pool_is_held_whole_leaves_nothing(cloud: Cloud) -> None:
    _, (rack,) = await cloud.routed("10.1.0.0/30")
    await hold(cloud, guest("10.1.0.2"))
    async with cloud.networks.database.transaction() as tx:
        (source,) = await network_rows.list_sources(tx, [rack.id])
        assert await publications.list_due(tx, [rack.id]) == set()
    assert capacity.count_addresses(source) == {IPV4_ADDRESS: (1, 1)}
    (port,) = await ports.list_ports(cloud.networks, PortFilter(hidden=True))
    plan = plan_host([guest("10.1.0.2")], Host("h1", frozenset()), {"10.1.0.2": [place("10.1.0.2")]})
    pairs = {(item.subnet_id, item.address): True for item in port.addresses}
    assert not is_held(plan, {port.id: pairs})


async def test_pools_grow_while_more_is_promised_than_unknown_guests_leave(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.2", "10.0.0.3")])
    await cloud.client.set_hosts({"h1": []})
    (subnet,) = await subnets.list_subnets(cloud.networks)
    server = cloud.server(Nic(tag="0", network_id=network.id), Nic(tag="1", network_id=network.id))
    for port in await cloud.ensure(server):
        assert await cloud.claim([port.id], network.id)
    await hold(cloud, guest("10.0.0.2"))
    with pytest.raises(SubnetInUse):
        await set_pools(cloud, subnet.id, (2, 2))
    await set_pools(cloud, subnet.id, (2, 2), (3, 3))
    await set_pools(cloud, subnet.id, (3, 3))
    await set_pools(cloud, subnet.id, (2, 9))
    assert await cloud.used(network.id) == (7, 2)


async def set_pools(cloud: Cloud, subnet_id: str, *ends: tuple[int, int]) -> None:
    pools = tuple((f"10.0.0.{first}", f"10.0.0.{last}") for first, last in ends)
    await subnets.update_subnet(cloud.networks, subnet_id, SubnetChanges(pools=pools))
