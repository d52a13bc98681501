"""What a segment's inventory must be, and who must claim which addresses, as tables."""

from typing import Any

import pytest
from tests.placement.worlds import provider

from roost.placement.model import AddressClaim
from roost.placement.rules.neutron import (
    AddressFigures,
    NeutronState,
    PortChange,
    PortNeed,
    Seen,
    SegmentChange,
    SubnetFigures,
    Surplus,
    count_addresses,
    decide_changes,
    decide_claims_of_ports,
    decide_segments,
    is_segment,
    limit_by_truth,
    list_abandoned,
    list_needs,
    list_server_owners,
    sum_addresses,
    sum_needs,
)
from roost.seams.neutron import NeutronNetwork, NeutronPort, NeutronSegment, NeutronSubnet
from roost.seams.placement import IPV4_ADDRESS, Inventory


def a_subnet(subnet: str = "n", segment: str = "a", **members: Any) -> NeutronSubnet:
    """10.0.0.2 to 10.0.0.6 behind a gateway: what Neutron makes of a /29."""
    pools = members.pop("pools", (("10.0.0.2", "10.0.0.6"),))
    return NeutronSubnet(**{"id": subnet, "segment_id": segment, "gateway_ip": "10.0.0.1", "pools": pools, **members})


def a_port(address: str, owner: str = "compute:nova", *, subnet: str = "n", name: str = "p") -> NeutronPort:
    device = "s" if owner.startswith("compute:") else ""
    return NeutronPort(id=name, device_id=device, device_owner=owner, project_id="x", addresses=((subnet, address),))


@pytest.mark.parametrize(
    ("subnets", "ports", "expected"),
    [
        pytest.param([a_subnet()], [], (6, 1), id="a /29"),
        pytest.param([a_subnet(gateway_ip=None)], [], (5, 0), id="without a gateway"),
        pytest.param([a_subnet(gateway_ip="10.0.0.2")], [], (5, 1), id="a gateway in the pool is counted once"),
        pytest.param([a_subnet(enable_dhcp=True)], [], (6, 2), id="DHCP will take one"),
        pytest.param([a_subnet(enable_dhcp=True)], [a_port("10.0.0.2", "network:dhcp")], (6, 2), id="it has"),
        pytest.param(
            [a_subnet(enable_dhcp=True)],
            [a_port("10.0.0.2", "network:dhcp"), a_port("10.0.0.3", "network:dhcp")],
            (6, 3), id="two agents",
        ),
        pytest.param([a_subnet()], [a_port("10.0.0.2")], (6, 1), id="a server's is claimed, not reserved"),
        pytest.param([a_subnet()], [a_port("10.0.0.2", "")], (6, 2), id="nobody's is reserved"),
        pytest.param([a_subnet()], [a_port("10.0.0.1", "network:router_interface")], (6, 1), id="the gateway's own"),
        pytest.param([a_subnet()], [a_port("10.0.0.7", "")], (6, 1), id="outside of the pools nothing is taken"),
        pytest.param([a_subnet()], [a_port("10.0.0.7")], (7, 1), id="a server's outside of the pools takes nothing"),
        pytest.param([a_subnet()], [a_port("fd00::1", subnet="six")], (6, 1), id="IPv6 does not count"),
        pytest.param([a_subnet(), a_subnet("m", gateway_ip=None)], [], (11, 1), id="two subnets add up"),
        pytest.param([a_subnet(pools=())], [], (1, 1), id="no pools"),
    ],
)  # fmt: skip
def test_an_inventory_is_computed(subnets: list[NeutronSubnet], ports: list[NeutronPort], expected: object) -> None:
    assert count_addresses(subnets, ports) == {"a": expected}


def test_a_segments_provider_is_changed_where_it_differs() -> None:
    state = NeutronState([NeutronSegment("a", "N"), NeutronSegment("b", "N")], [a_subnet()], [])
    wrong = provider(1, totals={IPV4_ADDRESS: Inventory(12, 2, 1, 1)}, uuid="a")
    (change,) = decide_segments(state, {"a": wrong})
    assert change.inventory == Inventory(6, 1, 1, 1), "what Neutron does not say stays"
    says = "total 12 of which 2 reserved, should be 6 and 1; its network is N, which the ledger does not know"
    assert change.drift().says == says
    right = provider(1, totals={IPV4_ADDRESS: Inventory(6, 1, 1, 1)}, uuid="a", network_id="N")
    assert decide_segments(state, {"a": right}) == []
    assert decide_segments(state, {}) == [], "Neutron has not published it"


@pytest.mark.parametrize(
    ("subnets", "known", "abandoned"),
    [
        pytest.param(["a", "b"], ["a", "b"], [], id="all have subnets"),
        pytest.param(["b"], ["a", "b"], ["a"], id="one has none left, or is deleted"),
        pytest.param(["b"], ["b"], [], id="one never was a network's: Neutron is just making it"),
        pytest.param([], ["a", "b"], [], id="a user who sees none is not believed"),
    ],
)
def test_segments_without_a_subnet_are_closed(subnets: list[str], known: list[str], abandoned: list[str]) -> None:
    state = NeutronState([], [a_subnet(uuid, uuid) for uuid in subnets], [])
    totals = {IPV4_ADDRESS: Inventory(6, 1, 1, 1)}
    rows = {
        uuid: provider(number, totals=totals, uuid=uuid, network_id="N" if uuid in known else None)
        for number, uuid in enumerate(("a", "b"))
    }
    assert list(list_abandoned(state, rows)) == abandoned
    claims = [claim("s", age_s=0.0)] if abandoned else []
    changes = decide_changes(state, rows, claims, seen=Seen(), grace_s=60.0)
    closed = [change for change in changes if isinstance(change, SegmentChange) and change.network_id is None]
    assert [(change.segment_uuid, change.inventory) for change in closed] == [
        (uuid, Inventory(6, 6, 1, 1)) for uuid in abandoned
    ]
    assert all("no IPv4 subnet of Neutron is left" in change.drift().says for change in closed)
    assert [change.amount for change in changes if isinstance(change, Surplus)] == [1] * len(claims), "at any age"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param((6, 3), (6, 3), id="a port of nobody, or one that a round has counted already: less at once"),
        pytest.param((6, 0), (6, 2), id="that port is gone, which a round has counted already: never more"),
        pytest.param((4, 1), (4, 2), id="a smaller pool"),
        pytest.param((9, 1), (6, 2), id="a larger pool"),
        pytest.param((12, 4), (6, 2), id="the same pools twice, or pools of another subnet: reserved is of those"),
        pytest.param((1, 0), (1, 1), id="no more is reserved than there is"),
    ],
)
def test_of_what_the_notifier_sends_nothing_gives_addresses(sent: tuple[int, int], kept: tuple[int, int]) -> None:
    total, reserved = sent
    limited = limit_by_truth(Inventory(6, 2, 1, 1), Inventory(total, reserved, max_unit=7))
    assert limited == Inventory(*kept, max_unit=7), "what is not computed is as it was sent"


@pytest.mark.parametrize(
    ("name", "network_id", "is_one"),
    [
        pytest.param("Neutron segment id s", "N", True, id="a round has seen it"),
        pytest.param("Neutron segment id s", None, True, id="just published, or without subnets"),
        pytest.param("Neutron segment id t", None, False, id="another's name"),
        pytest.param("pool of an operator", None, False, id="nobody computes its addresses"),
    ],
)
def test_a_segment_is_known_by_its_network_or_its_name(name: str, network_id: str | None, is_one: bool) -> None:
    assert is_segment(provider(1, uuid="s", name=name, network_id=network_id)) == is_one


def test_ports_of_servers_need_their_addresses() -> None:
    ports = [
        a_port("10.0.0.2", name="p1"), a_port("10.0.0.3", name="p2"), a_port("10.0.0.4", "network:dhcp"),
        a_port("10.1.0.4", subnet="flat"), NeutronPort(id="p3", device_id="s", device_owner="compute:nova"),
    ]  # fmt: skip
    needs = list_needs(NeutronState([], [a_subnet()], ports))
    assert [(need.port_uuid, need.segment_uuid, need.amount) for need in needs] == [("p1", "a", 1), ("p2", "a", 1)]
    assert sum_needs(needs) == {("s", "a"): 2}


def need(port: str, amount: int = 1, server: str = "s") -> PortNeed:
    return PortNeed(port_uuid=port, server_uuid=server, project_id="x", segment_uuid="a", amount=amount)


def claim(consumer: str, amount: int = 1, server: str = "", age_s: float = 5.0) -> AddressClaim:
    return AddressClaim(
        consumer_uuid=consumer, server_uuid=server, generation=1, segment_uuid="a", amount=amount, age_s=age_s
    )


def short(change: PortChange | Surplus | SegmentChange) -> tuple[str, int]:
    """The consumer, with what it claims more, or less."""
    assert not isinstance(change, SegmentChange)
    assert change.drift().key
    if isinstance(change, PortChange):
        return change.need.port_uuid, change.need.amount
    return change.consumer_uuid, -change.amount


@pytest.mark.parametrize(
    ("needs", "claims", "seen", "expected"),
    [
        pytest.param([need("p")], [claim("s")], 0, [], id="a server's claim covers its port"),
        pytest.param([need("p")], [], 0, [("p", 1)], id="nobody claims it"),
        pytest.param([need("p")], [claim("p", server="s")], 0, [], id="it claims by itself"),
        pytest.param([need("p")], [claim("p", server="t")], 0, [("p", 1)], id="it was another server's"),
        pytest.param([need("p", 2)], [claim("p", server="s")], 0, [("p", 2)], id="it has got one more"),
        pytest.param([need("p"), need("q")], [claim("s")], 0, [("q", 1)], id="hot-plugged"),
        pytest.param([need("p"), need("q")], [claim("s"), claim("p", server="s")], 0, [], id="each by one of them"),
        pytest.param(
            [need("p"), need("q")], [claim("s", 2), claim("p", server="s")], 0, [("p", -1)], id="covered twice"
        ),
        pytest.param([], [claim("p", server="s")], 0, [("p", -1)], id="the port is gone"),
        pytest.param([], [claim("s")], 0, [], id="its port is still to be made"),
        pytest.param([], [claim("s", age_s=99)], 0, [("s", -1)], id="no port was made in all that time"),
        pytest.param([], [claim("s")], 1, [("s", -1)], id="its port was there, and is gone"),
        pytest.param([], [claim("s", age_s=2)], 1, [], id="built again since"),
        pytest.param([need("p")], [claim("s", 3)], 2, [("s", -1)], id="one of two was unplugged, one is to be made"),
    ],
)  # fmt: skip
def test_what_nobody_claims_is_claimed_and_what_nobody_has_is_given_back(
    needs: list[PortNeed], claims: list[AddressClaim], seen: int, expected: list[tuple[str, int]]
) -> None:
    before = Seen({("s", "a"): seen} if seen else {}, 3.0)
    changes = decide_claims_of_ports(needs, claims, seen=before, grace_s=60.0)
    assert [short(change) for change in changes] == expected


def test_a_whole_state_is_decided_at_once() -> None:
    state = NeutronState([NeutronSegment("a", "N")], [a_subnet()], [a_port("10.0.0.2")])
    row = provider(1, totals={IPV4_ADDRESS: Inventory(6, 2, 1, 1)}, uuid="a", network_id="N")
    changes = decide_changes(state, {"a": row}, [], seen=Seen(), grace_s=1.0)
    assert [type(change) for change in changes] == [SegmentChange, PortChange]
    assert decide_changes(state, {}, [], seen=Seen(), grace_s=1.0) == []


def test_addresses_are_summed_up_whoever_has_them() -> None:
    pools = (("10.0.0.2", "10.0.0.6"), ("10.0.0.9", "10.0.0.9"))
    subnets = [
        a_subnet(network_id="N", name="first", cidr="10.0.0.0/28", pools=pools),
        NeutronSubnet(id="m", segment_id="b", network_id="gone"),
    ]
    ports = [a_port("10.0.0.2"), a_port("10.0.0.3", ""), a_port("fd00::1", subnet="six")]
    without = [NeutronPort(id="q", device_id="s"), NeutronPort(id="r")]
    state = NeutronState([], subnets, [*ports, *without], [NeutronNetwork("N", "blue", "x")])
    assert sum_addresses(state) == AddressFigures(
        (
            SubnetFigures(
                network_id="gone", network_name="", project_id="", subnet_name="", cidr="", segment_id="b",
                total=0, used=0,
            ),
            SubnetFigures(
                network_id="N", network_name="blue", project_id="x", subnet_name="first", cidr="10.0.0.0/28",
                segment_id="a", total=6, used=2,
            ),
        ),
        1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("owners_seen", "zones", "expected"),
    [
        pytest.param([], {}, {"compute:nova"}, id="the default zone"),
        pytest.param([], {"a": "east"}, {"compute:east"}, id="a zone that the configuration says"),
        pytest.param(["compute:west"], {}, {"compute:nova", "compute:west"}, id="one that a port shows"),
        pytest.param(["network:dhcp", ""], {}, {"compute:nova"}, id="ports of others show none"),
    ],
)
def test_the_owners_of_servers_are_by_the_zones_of_a_segments_hosts(
    owners_seen: list[str], zones: dict[str, str], expected: set[str]
) -> None:
    ports = [a_port(f"10.0.0.{number}", owner) for number, owner in enumerate(owners_seen, 2)]
    assert list_server_owners([a_subnet()], ports, zones) == {"a": expected}
