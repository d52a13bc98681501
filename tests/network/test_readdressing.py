"""What becomes of a port's addresses when a client names others."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.network.parts import a_network, a_port, a_provider, a_subnet, an_address

from roost.network.errors import FixedIpsSubnetsNotOnSameSegment, InvalidInput, PortBound
from roost.network.model.ports import Address, AddressPair, FixedIpRequest, PortChanges
from roost.network.rules.addressing import Demand
from roost.network.rules.readdressing import (
    DISTRIBUTED_OWNER,
    Matched,
    apply_changes,
    decide_automatic,
    match,
    plan_change,
    refuse_mac_address,
    refuse_spread,
    renews,
)
from roost.network.rules.requests import NetworkState, Placing
from roost.network.settings import FIXED_IPS_MAX

TWO, THREE = an_address("10.0.0.2"), an_address("10.0.0.3")
OTHER = an_address("10.1.0.2", "s2")
EUI = an_address("2001:db8::1", "auto")
HELD = {item.address: item for item in (TWO, THREE, OTHER, EUI)}


def item(text: str) -> FixedIpRequest:
    """Return a named address, or a named subnet, or both: "s/10.0.0.2"."""
    subnet_id, _, address = text.rpartition("/")
    if address in ("s", "s2", "auto"):
        return FixedIpRequest(subnet_id=address)
    return FixedIpRequest(subnet_id=subnet_id or None, ip_address=address)


@pytest.mark.parametrize(
    ("named", "kept", "dropped", "wanted"),
    [
        ([], [], [TWO, THREE, OTHER], []),
        (["10.0.0.3"], [THREE], [TWO, OTHER], []),
        (["s/10.0.0.3"], [THREE], [TWO, OTHER], []),
        (["s2/10.0.0.3"], [], [TWO, THREE, OTHER], ["s2/10.0.0.3"]),
        (["10.0.0.4"], [], [TWO, THREE, OTHER], ["10.0.0.4"]),
        (["s"], [TWO], [THREE, OTHER], []),
        (["s", "10.0.0.2"], [TWO, THREE], [OTHER], []),
        (["s", "s", "s"], [TWO, THREE], [OTHER], ["s"]),
        (["s2", "10.0.0.4"], [OTHER], [TWO, THREE], ["10.0.0.4"]),
    ],
)
def test_named_addresses_are_matched_first_and_then_subnets(
    named: list[str], kept: list[Address], dropped: list[Address], wanted: list[str]
) -> None:
    matched = match(list(HELD.values()), [item(text) for text in named], {"auto"})
    assert matched == Matched(tuple(kept), tuple(dropped), tuple(map(item, wanted)), (EUI,))


def test_an_eui64_address_that_is_named_is_kept_as_any() -> None:
    assert match([EUI], [item("auto")], {"auto"}) == Matched((EUI,), (), ())


@pytest.mark.parametrize("named", [["10.0.0.2", "10.0.0.2"], ["s"] * (FIXED_IPS_MAX + 1)])
def test_what_no_port_can_have_is_refused(named: list[str]) -> None:
    with pytest.raises(InvalidInput):
        match([], [item(text) for text in named], set())


HERE, THERE = Placing("n", (Demand("p", ("s",)),)), Placing("n2", (Demand("p", ("s2",)),))


@pytest.mark.parametrize(
    ("kept", "placing", "owner", "stays", "spread"),
    [
        ((), None, "", True, False),
        ((TWO,), None, "", True, False),
        ((), HERE, "", True, False),
        ((TWO,), HERE, "", True, False),
        ((), THERE, "", False, False),
        ((TWO,), THERE, "", True, True),
        ((), THERE, DISTRIBUTED_OWNER, True, False),
        ((TWO,), THERE, DISTRIBUTED_OWNER, True, False),
    ],
)
def test_eui64_addresses_go_where_the_port_leaves_their_segment(
    kept: tuple[Address, ...], placing: Placing | None, owner: str, stays: bool, spread: bool
) -> None:
    port = a_port(device_owner=owner)
    settled = decide_automatic(port, Matched(kept, (OTHER,), (), (EUI,)), placing)
    assert settled == Matched((*kept, EUI) if stays else kept, (OTHER,) if stays else (OTHER, EUI), ())
    if not spread:
        refuse_spread(port, settled.kept, placing)
        return
    with pytest.raises(FixedIpsSubnetsNotOnSameSegment, match="subnets of 2 segments"):
        refuse_spread(port, settled.kept, placing)


ROUTER = "network:router_interface"


@pytest.mark.parametrize(
    ("before", "after", "renewed"),
    [
        ({}, {}, False),
        ({}, {"device_owner": "compute:nova"}, False),
        ({}, {"mac_address": "fa:16:3e:00:00:02"}, True),
        ({"device_owner": ROUTER}, {"device_owner": ROUTER}, False),
        ({"device_owner": ROUTER}, {}, True),
        ({}, {"device_owner": ROUTER}, False),
    ],
)
def test_another_mac_or_no_router_any_more_needs_other_eui64_addresses(
    before: dict[str, Any], after: dict[str, Any], renewed: bool
) -> None:
    assert renews(a_port(**before), a_port(**after)) is renewed


@pytest.mark.parametrize(
    ("host", "mac_address", "refused"),
    [(None, "fa:16:3e:00:00:02", False), ("h1", "fa:16:3e:00:00:01", False), ("h1", "fa:16:3e:00:00:02", True)],
)
def test_a_bound_port_keeps_its_mac_address(host: str | None, mac_address: str, refused: bool) -> None:
    port = a_port(host=host)
    if not refused:
        refuse_mac_address(port, mac_address)
        return
    with pytest.raises(PortBound, match="old_mac fa:16:3e:00:00:01, new_mac fa:16:3e:00:00:02: unbind it first"):
        refuse_mac_address(port, mac_address)


def test_what_a_client_names_of_a_port_is_read_as_the_port_is_stored() -> None:
    port = a_port(TWO, made_for="server", device_id="server")
    pairs = (AddressPair(ip_address="10.0.0.9"),)
    changes = PortChanges(
        device_id="other", host="h1", mac_address="FA-16-3E-00-00-07", allowed_address_pairs=pairs, name="new"
    )
    changed = apply_changes(port, changes)
    assert (changed.device_id, changed.made_for, changed.name) == ("other", None, "new")
    assert (changed.host, changed.vif_type, changed.mac_address) == ("h1", "ovs", "fa:16:3e:00:00:07")
    assert changed.allowed_address_pairs == (AddressPair(ip_address="10.0.0.9", mac_address="fa:16:3e:00:00:07"),)
    unbound = apply_changes(changed, PortChanges(host=""))
    assert (unbound.host, unbound.vif_type, unbound.addresses) == (None, "unbound", (TWO,))


UNCLAIMED = an_address("10.0.0.2", in_pool=False, claimed=False)


@pytest.mark.parametrize(
    ("addresses", "named", "dropped", "demanded", "needs_claim", "trims"),
    [
        ((), None, (), 0, False, False),
        ((TWO,), ["10.0.0.2"], (), 0, False, False),
        ((TWO,), ["10.0.0.4"], (TWO,), 1, False, False),
        ((TWO,), [], (TWO,), 0, False, True),
        ((TWO, THREE), ["10.0.0.4"], (TWO, THREE), 1, False, True),
        ((TWO,), ["10.0.0.2", "10.0.0.4"], (), 1, True, False),
        ((TWO,), ["10.0.0.4", "10.0.0.5"], (TWO,), 2, True, True),
        ((UNCLAIMED,), ["10.0.0.4"], (UNCLAIMED,), 1, True, False),
    ],
)
def test_the_ledger_is_asked_for_what_the_dropped_addresses_claims_do_not_cover(
    addresses: tuple[Address, ...],
    named: list[str] | None,
    dropped: tuple[Address, ...],
    demanded: int,
    needs_claim: bool,
    trims: bool,
) -> None:
    port = a_port(*addresses)
    state = NetworkState(network=a_network(), subnets=(a_subnet(),), providers={"n": a_provider("n", None)})
    plan = plan_change(port, port, None if named is None else [item(text) for text in named], state)
    kept = tuple(address for address in addresses if address not in dropped)
    assert (plan.before, plan.after, plan.dropped) == (port, replace(port, addresses=kept), dropped)
    assert [len(placing.demands) for placing in plan.placings] == ([demanded] if demanded else [])
    assert (plan.needs_claim, plan.trims) == (needs_claim, trims)
    assert plan_change(port, port, None, None).placings == ()
