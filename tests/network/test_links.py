"""What may carry a segment."""

from typing import Any

import pytest
from tests.network.parts import a_network, a_subnet

from roost.network import errors
from roost.network.errors import InvalidInput, NetworkMTUSubnetConflict
from roost.network.model.networks import Link
from roost.network.rules import links

VLAN = Link(network_type="vlan", physical_network="rack1", segmentation_id=7)
FLAT = Link(network_type="flat", physical_network="rack1")
TUNNEL = Link(network_type="vxlan", segmentation_id=9)


@pytest.mark.parametrize(
    ("kind", "physical_network", "number", "refusal"),
    [
        ("flat", "rack1", None, None),
        ("vlan", "rack1", None, None),
        ("vlan", "rack1", 1, None),
        ("vlan", "rack1", 4094, None),
        ("local", None, None, None),
        *((tunnel, None, number, None) for tunnel in ("vxlan", "gre", "geneve") for number in (None, 0, 2**24 - 1)),
        ("other", None, None, "provider:network_type 'other': expected one of flat, vlan, vxlan, gre, geneve, local."),
        ("flat", None, None, "provider:network_type flat needs a provider:physical_network."),
        ("vlan", "", 7, "provider:network_type vlan needs a provider:physical_network."),
        ("local", "rack1", None, "provider:physical_network: a local network has none, leave it out."),
        ("vxlan", "rack1", 7, "provider:physical_network: a vxlan network has none, leave it out."),
        ("flat", "rack1", 7, "provider:segmentation_id: a flat network has none, leave it out."),
        ("local", None, 0, "provider:segmentation_id: a local network has none, leave it out."),
        ("vlan", "rack1", 0, "provider:segmentation_id 0: a vlan has one from 1 to 4094."),
        ("vlan", "rack1", 4095, "provider:segmentation_id 4095: a vlan has one from 1 to 4094."),
        ("gre", None, 2**24, "provider:segmentation_id 16777216: expected at most 16777215."),
    ],
)
def test_a_link_that_cannot_be_is_refused_by_attribute(
    kind: str, physical_network: str | None, number: int | None, refusal: str | None
) -> None:
    link = Link(network_type=kind, physical_network=physical_network, segmentation_id=number)
    if refusal is None:
        links.refuse_link(link, "provider:")
        return
    with pytest.raises(InvalidInput) as refused:
        links.refuse_link(link, "provider:")
    assert str(refused.value) == refusal


def test_only_numbers_and_whole_physical_networks_are_exclusive() -> None:
    vague = [Link(network_type="vlan", physical_network="rack1"), Link(network_type="local")]
    assert links.exclusive([VLAN, *vague, FLAT, TUNNEL]) == [VLAN, FLAT, TUNNEL]


@pytest.mark.parametrize(
    ("wanted", "taken", "error", "words"),
    [
        ([], [], None, ""),
        ([VLAN, FLAT, TUNNEL], [], None, ""),
        ([VLAN, VLAN], [], "SegmentsContainDuplicateEntry", "Two of the segments are the same"),
        ([FLAT, VLAN], [(FLAT, "n2")], "FlatNetworkInUse", "Physical network rack1 is in use by network n2."),
        ([VLAN], [(VLAN, "n2")], "VlanIdInUse", "The VLAN 7 on physical network rack1 is in use by network n2"),
        ([TUNNEL], [(TUNNEL, "n2")], "TunnelIdInUse", "The vxlan tunnel 9 is in use by network n2"),
        ([TUNNEL, VLAN], [(TUNNEL, "n2"), (VLAN, "n3")], "TunnelIdInUse", "network n2"),
    ],
)
def test_no_link_carries_two_segments(
    wanted: list[Link], taken: list[tuple[Link, str]], error: str | None, words: str
) -> None:
    if error is None:
        links.refuse_taken(wanted, taken)
        return
    with pytest.raises(getattr(errors, error), match=words):
        links.refuse_taken(wanted, taken)


@pytest.mark.parametrize(
    ("carriers", "change", "refused"),
    [
        ((), {}, None),
        ((), {"network_type": "vxlan", "segmentation_id": 9}, None),
        ((), {"segmentation_id": 8}, "segmentation_id"),
        ((VLAN,), {"physical_network": "rack1", "segmentation_id": 7}, None),
        ((VLAN,), {"network_type": "vxlan"}, "network_type"),
        ((VLAN,), {"physical_network": None}, "physical_network"),
        ((VLAN, FLAT), {"network_type": "vlan"}, "network_type"),  # several segments: the network's own attributes
        ((VLAN, FLAT), {"network_type": "vxlan"}, None),
    ],
)
def test_what_carries_a_network_is_never_changed(
    carriers: tuple[Link, ...], change: dict[str, Any], refused: str | None
) -> None:
    network = a_network(network_type="vxlan", segmentation_id=9, links=carriers)
    if refused is None:
        links.refuse_other_link(network, change)
        return
    with pytest.raises(InvalidInput, match=f"^provider:{refused} cannot be changed"):
        links.refuse_other_link(network, change)


@pytest.mark.parametrize(
    ("mtu", "cidrs", "refused"),
    [
        (1, (), False),
        (68, ("10.0.0.0/29",), False),
        (67, ("10.0.0.0/29",), True),
        (1280, ("10.0.0.0/29", "2001:db8::/64"), False),
        (1279, ("10.0.0.0/29", "2001:db8::/64"), True),
        (1279, ("10.0.0.0/29",), False),
    ],
)
def test_an_mtu_is_large_enough_for_the_networks_subnets(mtu: int, cidrs: tuple[str, ...], refused: bool) -> None:
    subnets = [a_subnet(cidr, cidr) for cidr in cidrs]
    if not refused:
        links.refuse_small_mtu(mtu, subnets)
        return
    with pytest.raises(NetworkMTUSubnetConflict, match=rf"MTU {mtu} is less than {mtu + 1}.* {cidrs[-1]}\.$"):
        links.refuse_small_mtu(mtu, subnets)
