"""What a client's port needs. Source: Neutron, db_base_plugin_v2.create_port_db and tests of the segments plugin."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.network.parts import SLAAC, a_network, a_port, a_provider, a_subnet, an_address

from roost.network import errors
from roost.network.errors import InvalidInput, PortChanged
from roost.network.model.networks import Host, Subnet
from roost.network.model.ports import Address, FixedIpRequest
from roost.network.rules import requests
from roost.network.rules.addressing import Demand, parse
from roost.network.rules.requests import AddressPlan, NetworkState, Placing
from roost.network.settings import FIXED_IPS_MAX
from roost.seams.placement import IPV4_ADDRESS, IPV6_ADDRESS

RACK1 = a_subnet("s1", "10.1.0.0/29", segment_id="g1")
RACK2 = a_subnet("s2", "10.2.0.0/29", segment_id="g2")
PLAIN = a_subnet("s1", "10.1.0.0/29")
HOSTS = {
    None: None,
    "h1": Host("h1", frozenset({"rack1"})),
    "h2": Host("h2", frozenset({"rack2"})),
    "nowhere": None,
}


def a_state(*subnets: Subnet, segmented: bool = False) -> NetworkState:
    """Return a network of these subnets; segment g<n> is on rack<n>, and called so."""
    providers = {subnet.provider_uuid for subnet in subnets}
    racks = {uuid: f"rack{uuid[1:]}" if uuid.startswith("g") else None for uuid in providers}
    return NetworkState(
        network=a_network(segmented=segmented),
        subnets=subnets,
        providers={uuid: a_provider(uuid, rack, name=rack or uuid) for uuid, rack in racks.items()},
    )


ROUTED = a_state(RACK1, RACK2, segmented=True)


def plan(
    state: NetworkState, host: str | None = None, fixed_ips: Sequence[FixedIpRequest] | None = None, owner: str = ""
) -> AddressPlan:
    state = replace(state, host=HOSTS[host], host_name=host or "")
    return requests.plan_addresses("p", state, device_owner=owner, fixed_ips=fixed_ips)


@pytest.mark.parametrize(("host", "reached"), [("h1", ["g1"]), ("h2", ["g2"]), ("nowhere", [])])
def test_a_host_reaches_providers_of_its_physical_networks(host: str, reached: list[str]) -> None:
    state = replace(ROUTED, host=HOSTS[host], host_name=host)
    assert [uuid for uuid in state.providers if state.reaches(uuid)] == reached


STATES = {"routed": ROUTED, "plain": a_state(PLAIN), "no subnets": a_state()}
NAMED: dict[str | None, Sequence[FixedIpRequest] | None] = {
    None: None,
    "[]": (),
    "subnet": [FixedIpRequest(subnet_id="s1")],
    "address": [FixedIpRequest(ip_address="10.1.0.4")],
}
UNCONNECTED, INCOMPATIBLE = "HostNotConnectedToAnySegment", "HostNotCompatibleWithFixedIps"
EXPECTED: dict[tuple[str, str | None, str | None], tuple[str, int] | str] = {
    ("routed", None, None): ("deferred", 0),
    ("routed", None, "[]"): ("none", 0),
    ("routed", None, "subnet"): ("immediate", 1),
    ("routed", None, "address"): ("immediate", 1),
    ("routed", "h1", None): ("immediate", 1),
    ("routed", "h1", "[]"): ("none", 0),
    ("routed", "h1", "subnet"): ("immediate", 1),
    ("routed", "h1", "address"): ("immediate", 1),
    ("routed", "h2", None): ("immediate", 1),
    ("routed", "h2", "[]"): ("none", 0),
    ("routed", "h2", "subnet"): INCOMPATIBLE,
    ("routed", "h2", "address"): INCOMPATIBLE,
    ("routed", "nowhere", None): UNCONNECTED,
    ("routed", "nowhere", "[]"): UNCONNECTED,
    ("routed", "nowhere", "subnet"): UNCONNECTED,
    ("routed", "nowhere", "address"): UNCONNECTED,
    **{
        ("plain", host, named): ("none", 0) if named == "[]" else ("immediate", 1)
        for host, named in itertools.product(HOSTS, NAMED)
    },
    **{
        ("no subnets", host, named): ("none", 0)
        if named == "[]"
        else ("immediate", 0)
        if named is None
        else "InvalidInput"
        for host, named in itertools.product(HOSTS, NAMED)
    },
}


@pytest.mark.parametrize(("kind", "host", "named"), list(itertools.product(STATES, HOSTS, NAMED)))
def test_what_a_new_port_needs(kind: str, host: str | None, named: str | None) -> None:
    expected = EXPECTED[kind, host, named]
    if isinstance(expected, tuple):
        planned = plan(STATES[kind], host, NAMED[named])
        assert (planned.ip_allocation, len(planned.placings)) == expected
        if planned.placings:
            where = {"routed": "g2" if host == "h2" else "g1", "plain": "n"}[kind]
            assert [placing.provider_uuid for placing in planned.placings] == [where]
            assert planned.placings[0].claim == {where: {IPV4_ADDRESS: 1}}
        return
    with pytest.raises(getattr(errors, expected)) as refused:
        plan(STATES[kind], host, NAMED[named])
    if expected == INCOMPATIBLE:
        assert "they are on segment rack1 (g1), the host reaches segment rack2 (g2)." in str(refused.value)
    if expected == UNCONNECTED:
        assert "no agent has reported it. Have it report the physical network of segment rack1 (g1)" in str(
            refused.value
        )


ROUTED_TO = a_subnet("r", "10.9.0.0/29", service_types=("network:routed",))
TYPED = replace(PLAIN, id="t", service_types=("compute:nova",))
SIX = a_subnet("six", "2001:db8::/64")
AUTO = a_subnet("auto", "2001:db8:1::/64", **SLAAC)


@pytest.mark.parametrize(
    ("state", "host", "owner", "placings"),
    [
        (a_state(PLAIN, SIX), None, "", [["s1", "six"]]),
        (a_state(PLAIN, AUTO), None, "", [["s1"]]),
        (a_state(AUTO), None, "", [[]]),
        (a_state(TYPED, PLAIN), None, "", [["s1"]]),
        (a_state(PLAIN, TYPED), None, "compute:nova", [["t s1"]]),
        (a_state(ROUTED_TO, PLAIN), None, "network:routed", [["r"], ["s1"]]),
        (a_state(ROUTED_TO, RACK1, segmented=True), None, "network:routed", [["r"]]),
        (a_state(ROUTED_TO, RACK1, segmented=True), None, "", "deferred"),
        (a_state(ROUTED_TO, RACK1, segmented=True), "h1", "", [["s1"]]),
        (a_state(ROUTED_TO, RACK1, segmented=True), "nowhere", "", UNCONNECTED),
        (a_state(ROUTED_TO), None, "", "IpAddressGenerationFailureNoMatchingSubnet"),
        (
            a_state(replace(RACK1, service_types=("compute:x",)), RACK2, segmented=True), "h1", "",
            "IpAddressGenerationFailureNoMatchingSubnet",
        ),
    ],
)  # fmt: skip
def test_a_port_gets_one_address_of_each_version_from_subnets_for_its_owner(
    state: NetworkState, host: str | None, owner: str, placings: list[list[str]] | str
) -> None:
    if isinstance(placings, str) and placings != "deferred":
        with pytest.raises(getattr(errors, placings)):
            plan(state, host, owner=owner)
        return
    planned = plan(state, host, owner=owner)
    ids = [[" ".join(demand.subnet_ids) for demand in placing.demands] for placing in planned.placings]
    assert (ids or planned.ip_allocation) == placings


def named(*texts: str) -> list[FixedIpRequest]:
    """Return addresses that are named, or subnets by their id; "s1/10.1.0.4" is both."""
    items = [text.rpartition("/") for text in texts]
    return [
        FixedIpRequest(subnet_id=last) if "." not in last and not last.startswith("2001")
        else FixedIpRequest(subnet_id=first or None, ip_address=last)
        for first, _, last in items
    ]  # fmt: skip


MIXED = a_state(replace(PLAIN, pools=PLAIN.pools[:0]), SIX, AUTO, ROUTED_TO)
ROUTER = "network:router_interface"


@pytest.mark.parametrize(
    ("state", "texts", "owner", "answer"),
    [
        (ROUTED, ["10.1.0.4"], "", [("s1", "10.1.0.4", True, True)]),
        (ROUTED, ["s1/10.1.0.4", "s1"], "", [("s1", "10.1.0.4", True, True), ("s1", None, True, True)]),
        (ROUTED, ["10.1.0.1"], "", [("s1", "10.1.0.1", False, False)]),  # the gateway's, which is in no pool
        (a_state(replace(PLAIN, pools=())), ["10.1.0.4"], "", [("s1", "10.1.0.4", False, False)]),
        (MIXED, ["10.1.0.4", "six"], "", [("s1", "10.1.0.4", False, False), ("six", None, True, True)]),
        (MIXED, ["10.9.0.4"], "network:routed", [("r", "10.9.0.4", True, False)]),
        (MIXED, ["auto"], "", []),
        (MIXED, ["auto"], ROUTER, [("auto", None, True, False)]),
        (MIXED, ["2001:db8:1::9"], ROUTER, [("auto", "2001:db8:1::9", True, False)]),
        (MIXED, ["2001:db8:1::9"], "", "AllocationOnAutoAddressSubnet"),
        (MIXED, ["10.9.0.4"], "", "InvalidIpForNetwork"),
        (ROUTED, ["s2/10.1.0.4"], "", "InvalidIpForSubnet"),
        (ROUTED, ["10.1.0.0"], "", "InvalidIpForNetwork"),
        (ROUTED, ["10.1.0.7"], "", "InvalidIpForNetwork"),
        (ROUTED, ["other"], "", "InvalidInput"),
        (ROUTED, ["10.1.0.4", "10.1.0.4"], "", "InvalidInput"),
        (ROUTED, ["10.1.0.4", "10.2.0.4"], "", "FixedIpsSubnetsNotOnSameSegment"),
        (ROUTED, ["10.1.0.4", "10.2.0.4"], "network:distributed", "FixedIpsSubnetsNotOnSameSegment"),
    ],
)
def test_a_named_address_or_subnet_is_given_or_refused_by_kind(
    state: NetworkState, texts: list[str], owner: str, answer: list[tuple[str, str | None, bool, bool]] | str
) -> None:
    if isinstance(answer, str):
        with pytest.raises(getattr(errors, answer)):
            plan(state, fixed_ips=named(*texts), owner=owner)
        return
    (placing,) = plan(state, fixed_ips=named(*texts), owner=owner).placings
    assert [(d.subnet_ids[0], d.address, d.in_pool, d.claimed) for d in placing.demands] == [
        (subnet_id, None if text is None else parse(text), in_pool, claimed)
        for subnet_id, text, in_pool, claimed in answer
    ]


@pytest.mark.parametrize("owner", ["", "compute:nova", "network:dhcp", "network:router_gateway"])
@pytest.mark.parametrize("more", [{"host": "h1"}, {"fixed_ips": named("10.1.0.4")}], ids=["by host", "by address"])
def test_whoever_gets_an_address_of_a_pool_claims_it(owner: str, more: dict[str, Any]) -> None:
    """Source: upstream counts DHCP once for each subnet and other owners' ports as reserved: here a port is a port."""
    (placing,) = plan(ROUTED, owner=owner, **more).placings
    assert placing.claim == {"g1": {IPV4_ADDRESS: 1}}


BARE, OTHER = Host("bare", frozenset()), Host("other", frozenset({"office"}))


@pytest.mark.parametrize(
    ("host", "text", "error", "says"),
    [
        (None, "", UNCONNECTED, r"no agent has reported it\. .* \(rack1, rack2\), or choose"),
        (BARE, "", UNCONNECTED, r": it reports none\. Have it report .* \(rack1, rack2\)"),
        (OTHER, "", UNCONNECTED, r": it reports office\. Have it report"),
        (None, "192.0.2.1", "InvalidIpForNetwork", r"192\.0\.2\.1 .*: 10\.1\.0\.0/29, 10\.2\.0\.0/29\."),
        (None, "s1/10.2.0.2", "InvalidIpForSubnet", r"10\.2\.0\.2 .*, which has 10\.1\.0\.0/29\."),
    ],
)
def test_a_refusal_says_what_there_is(host: Host | None, text: str, error: str, says: str) -> None:
    """An operator who mistyped a host or an address need not look up what was meant."""
    state = replace(ROUTED, host=host, host_name="" if text else "h")
    with pytest.raises(getattr(errors, error), match=says):
        requests.plan_addresses("p", state, device_owner="", fixed_ips=named(text) if text else None)


def test_a_named_fixed_ip_says_something() -> None:
    with pytest.raises(InvalidInput, match="each needs a subnet_id, an ip_address, or both"):
        plan(ROUTED, fixed_ips=[FixedIpRequest()])


@pytest.mark.parametrize(("count", "refused"), [(0, False), (FIXED_IPS_MAX, False), (FIXED_IPS_MAX + 1, True)])
def test_no_port_has_more_addresses_than_the_most(count: int, refused: bool) -> None:
    if not refused:
        requests.refuse_many("x" * count)
        return
    with pytest.raises(InvalidInput, match=f"{count} were given"):
        requests.refuse_many("x" * count)


@pytest.mark.parametrize(
    ("count", "owner", "refused"),
    [
        (None, "", False), (0, "", False), (2, "", False), (3, "", True), (3, "compute:nova", True),
        (3, "network:dhcp", False), (16, "network:router_interface", False),
    ],
)  # fmt: skip
def test_a_client_names_no_more_addresses_than_the_setting_says(count: int | None, owner: str, refused: bool) -> None:
    fixed_ips = None if count is None else "x" * count
    if not refused:
        requests.refuse_surplus(fixed_ips, owner, most=2)
        return
    with pytest.raises(InvalidInput, match=r"^Exceeded maximum amount of fixed ips per port\. 3 were named, expected"):
        requests.refuse_surplus(fixed_ips, owner, most=2)


OTHERS = replace(PLAIN, id="o", service_types=("network:x",))


@pytest.mark.parametrize(
    ("subnets", "ways"),
    [
        ([], [()]),
        ([AUTO], [()]),
        ([PLAIN], [(("s1",),)]),
        ([PLAIN, TYPED], [(("t", "s1"),)]),
        ([PLAIN, SIX], [(("s1",), ("six",))]),
        ([PLAIN, OTHERS], [(("o",),), (("s1",),)]),
        ([PLAIN, OTHERS, SIX], [(("o",), ("six",)), (("s1",), ("six",))]),
    ],
)
def test_what_is_no_capacity_is_tried_before_capacity(
    subnets: list[Subnet], ways: list[tuple[tuple[str, ...], ...]]
) -> None:
    alternatives = requests.alternatives("p", subnets)
    assert [tuple(demand.subnet_ids for demand in demands) for demands in alternatives] == ways
    for demand in itertools.chain(*alternatives):
        assert demand.claimed is (demand.subnet_ids != ("o",))
        assert demand.ip_version == (6 if demand.subnet_ids == ("six",) else 4)


@pytest.mark.parametrize(
    ("demand", "subnets", "ids"),
    [
        (Demand("p", ("s1", "t")), [PLAIN, TYPED], ("s1", "t")),
        (Demand("p", ("s1", "t")), [TYPED], ("t",)),
        (Demand("p", ("s1", "o")), [PLAIN, OTHERS], ("s1",)),
        (Demand("p", ("o",), claimed=False), [OTHERS], ("o",)),
        (Demand("p", ("s1",), claimed=False), [PLAIN], None),
        (Demand("p", ("s1",), parse("10.1.0.1"), in_pool=False, claimed=False), [PLAIN], ("s1",)),
        (Demand("p", ("s1",)), [], None),
    ],
)
def test_a_demand_loses_the_subnets_that_changed_since_it_was_planned(
    demand: Demand, subnets: list[Subnet], ids: tuple[str, ...] | None
) -> None:
    placing = Placing("n", (demand,))
    if ids is None:
        with pytest.raises(PortChanged):
            requests.demands_today(placing, subnets)
        return
    assert requests.demands_today(placing, subnets) == (replace(demand, subnet_ids=ids),)


POOL = replace(PLAIN, cell="cell1")


@pytest.mark.parametrize(
    ("classes", "subnets", "fixed_ip", "demands"),
    [
        ((), [PLAIN], None, []),
        ((IPV4_ADDRESS,), [OTHERS, PLAIN, TYPED], None, [Demand("p", ("t", "s1"))]),
        (
            (IPV4_ADDRESS, IPV6_ADDRESS), [SIX, PLAIN, AUTO], None,
            [Demand("p", ("s1",)), Demand("p", ("six",), ip_version=6)],
        ),
        ((IPV4_ADDRESS,), [POOL], None, [Demand("p", ("s1",), claimed=False)]),
        ((IPV4_ADDRESS,), [POOL], "10.1.0.4", [Demand("p", ("s1",), parse("10.1.0.4"), claimed=False)]),
    ],
)  # fmt: skip
def test_a_servers_port_demands_one_address_for_each_class_that_it_has_claimed(
    classes: tuple[str, ...], subnets: list[Subnet], fixed_ip: str | None, demands: list[Demand]
) -> None:
    assert requests.claimed_demands("p", classes, subnets, fixed_ip) == demands


@pytest.mark.parametrize(
    ("state", "host", "addresses", "error"),
    [
        (ROUTED, "h1", [an_address("10.1.0.2", "s1", "g1")], None),
        (ROUTED, "h2", [an_address("10.1.0.2", "s1", "g1")], INCOMPATIBLE),
        (ROUTED, "nowhere", [an_address("10.1.0.2", "s1", "g1")], UNCONNECTED),
        (ROUTED, "h1", [], None),
        (ROUTED, "nowhere", [], UNCONNECTED),
        (a_state(), "nowhere", [], None),
    ],
)
def test_a_port_is_bound_where_its_addresses_are(
    state: NetworkState, host: str, addresses: list[Address], error: str | None
) -> None:
    def refuse() -> None:
        requests.refuse_host(a_port(*addresses), replace(state, host=HOSTS[host], host_name=host))

    if error is None:
        refuse()
        return
    with pytest.raises(getattr(errors, error)):
        refuse()


@pytest.mark.parametrize(("count", "words"), [(8, r"rack8 \(g8\) \(rack1, "), (10, r"rack7 \(g7\), 2 more \(rack1, ")])
def test_a_refusal_names_some_of_many_segments(count: int, words: str) -> None:
    subnets = [a_subnet(f"s{n}", f"10.{n}.0.0/29", segment_id=f"g{n}") for n in range(1, count + 1)]
    with pytest.raises(errors.HostNotConnectedToAnySegment, match=words):
        plan(a_state(*subnets, segmented=True), "nowhere")
