"""What is drift: every case of every kind."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.network.parts import SLAAC, a_port, a_source, a_subnet, an_address

from roost.network.model.networks import AddressRange
from roost.network.model.ports import FreeChange, FreeState, Mismarked, Port, PortOrigin
from roost.network.rules import addressing, drift, segments
from roost.network.rules.drift import (
    PORT_LATE,
    PORT_RESERVED,
    PORT_STRAY,
    PORT_UNOWNED,
    judge_server_port,
)
from roost.platform.drift import Kind
from roost.seams.compute import ServerState
from roost.seams.placement import IPV4_ADDRESS, IPV6_ADDRESS, Inventory, ProviderState

FACTS = ("made_by_roost", "reserved", "port_reserved", "bound")
MADE, LENT, USERS = {"made_by_roost": True}, {"reserved": True, "port_reserved": True}, dict[str, bool]()
RUNS = ServerState(claiming=True, unfinished=False)
BUILDING = ServerState(claiming=True, unfinished=True)
LEAVING = ServerState(claiming=False, unfinished=True)
ENDED = ServerState(claiming=False, unfinished=False)


@pytest.mark.parametrize(
    ("facts", "server", "kind"),
    [
        (MADE, None, PORT_STRAY),
        (MADE, ENDED, PORT_STRAY),
        (LENT, None, PORT_STRAY),
        (LENT, ENDED, PORT_STRAY),
        ({"reserved": True}, None, PORT_STRAY),
        (USERS, None, PORT_UNOWNED),
        (USERS, ENDED, None),
        (USERS, RUNS, None),
        (MADE, RUNS, None),
        (MADE | LENT, RUNS, PORT_LATE),
        (LENT, RUNS, PORT_LATE),
        (MADE | {"reserved": True}, RUNS, PORT_LATE),
        (MADE | LENT | {"bound": True}, RUNS, PORT_RESERVED),
        (LENT | {"bound": True}, RUNS, PORT_RESERVED),
        ({"reserved": True}, RUNS, PORT_RESERVED),
    ],
)
def test_a_port_has_drifted_by_its_server(
    facts: dict[str, bool], server: ServerState | None, kind: Kind | None
) -> None:
    judged = judge_server_port(port(**facts), server)
    assert (judged.kind if judged else None) == kind


def test_nothing_of_a_server_that_is_at_work_has_drifted() -> None:
    for answers in itertools.product([False, True], repeat=len(FACTS)):
        for server in (BUILDING, LEAVING):
            assert judge_server_port(port(**dict(zip(FACTS, answers, strict=True))), server) is None


def test_a_port_of_no_server_is_left_to_its_owner() -> None:
    assert judge_server_port(replace(port(), device_owner="network:router_interface"), None) is None


def port(**facts: bool) -> Port:
    """Return a server's port. reserved: it, or an address of it; port_reserved: it."""
    address = an_address("10.0.0.2", assigned_for="s" if facts.get("reserved") else None)
    return a_port(
        address, device_id="s", device_owner="compute:nova", made_for="s" if facts.get("made_by_roost") else None,
        reserved_from=PortOrigin() if facts.get("port_reserved") else None, host="h" if facts.get("bound") else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("free", "wanted"),
    [
        ([], []),
        ([], [AddressRange(1, 5)]),
        ([AddressRange(1, 5)], []),
        ([AddressRange(1, 5)], [AddressRange(1, 3), AddressRange(5, 5)]),
    ],
    ids=["nothing", "all of it is free again", "nothing is free any more", "one begins where another did"],
)
def test_free_ranges_are_replaced_whole(free: list[AddressRange], wanted: list[AddressRange]) -> None:
    change = addressing.difference({"s": free}, {"s": wanted})
    assert change == FreeChange(tuple(("s", one) for one in free), tuple(("s", one) for one in wanted))


def pools(*pairs: tuple[int, int]) -> list[AddressRange]:
    return [AddressRange(first, last) for first, last in pairs]


@pytest.mark.parametrize(
    ("held", "free"),
    [
        ((), [(1, 9), (20, 29)]),
        ((1,), [(2, 9), (20, 29)]),
        ((3, 4, 29, 40), [(1, 2), (5, 9), (20, 28)]),
        (tuple(range(30)), []),
    ],
)
def test_free_is_what_the_pools_have_and_nobody_holds(held: tuple[int, ...], free: list[tuple[int, int]]) -> None:
    assert addressing.free_of(pools((1, 5), (6, 9), (20, 29)), held) == tuple(pools(*free))


def free_state(ranges: Sequence[tuple[int, int]], count_held: int, overlapping: int) -> FreeState:
    """The state of a subnet with a pool of nine addresses."""
    return FreeState(
        subnet_id="s",
        name="small",
        pools=tuple(pools((1, 9))),
        free=tuple(pools(*ranges)),
        count_held=count_held,
        overlapping=overlapping,
    )


@pytest.mark.parametrize(
    ("free", "held", "overlapping", "says"),
    [
        ([(1, 9)], 0, 0, None),
        ([(1, 4), (5, 9)], 0, 0, None),
        ([(2, 9)], 1, 0, None),
        ([(2, 4), (5, 9)], 1, 0, None),
        ([(2, 9)], 0, 0, "8 free, 9 should be; 0 of them are held"),
        ([(1, 9)], 1, 0, "9 free, 8 should be; 0 of them are held"),
        ([(1, 9)], 1, 1, "9 free, 8 should be; 1 of them are held"),
        ([(2, 9)], 1, 1, "8 free, 8 should be; 1 of them are held"),
        ([(3, 9)], 1, 0, "7 free, 8 should be; 0 of them are held"),
        ([(1, 4), (4, 8)], 0, 0, "9 free, 9 should be; 0 of them are held"),
        ([(2, 5), (5, 8)], 1, 0, "8 free, 8 should be; 0 of them are held"),
        ([(2, 10)], 0, 0, "9 free, 9 should be; 0 of them are held"),
        ([], 9, 0, None),
    ],
    ids=[
        *("all", "cut", "one held", "cut with one held", "one lost", "one twice", "held and free", "another held"),
        *("one lost beside", "overlapping", "doubled", "outside", "none"),
    ],
)
def test_free_ranges_drift_from_the_pools_without_what_is_held(
    free: list[tuple[int, int]], held: int, overlapping: int, says: str | None
) -> None:
    judged = drift.judge_free(free_state(free, held, overlapping))
    assert (judged and (judged.kind, judged.key, judged.name, judged.says)) == (
        says and (drift.FREE_WRONG, "s", "small", says)
    )


COUNTED, OTHERS = a_subnet(), a_subnet(service_types=("network:x",))
POOL, AUTO = a_subnet(cell="cell1"), a_subnet(cidr="2001:db8::/64", **SLAAC)


def test_the_drift_of_a_mark_says_what_is_and_what_should_be() -> None:
    mismarked = Mismarked("s", "10.0.0.2", in_pool=False, claimed=True, in_pool_wanted=True, claimed_wanted=False)
    judged = drift.judge_marks(mismarked, "small")
    assert (judged.kind, judged.key, judged.name) == (drift.ADDRESS_WRONG, "10.0.0.2", "small")
    assert judged.says == "is outside the pools and claimed, should be in the pools and not claimed"


HAS = a_port(an_address("10.0.0.2"), an_address("10.0.0.3", in_pool=False, claimed=False), name="web")
ONE = {"n": {IPV4_ADDRESS: 1}}


@pytest.mark.parametrize(
    ("addressed", "held", "kind"),
    [
        (HAS, ONE, None),
        (HAS, {**ONE, "n2": {IPV4_ADDRESS: 0}}, None),
        (a_port(), {}, None),
        (None, {}, None),
        (None, ONE, drift.PORT_CLAIM_STRAY),
        (a_port(), ONE, drift.PORT_CLAIM_IDLE),
        (HAS, {"n": {IPV4_ADDRESS: 2}}, drift.PORT_CLAIM_LARGE),
        (HAS, {**ONE, "n2": {IPV6_ADDRESS: 1}}, drift.PORT_CLAIM_LARGE),
        (HAS, {}, drift.PORT_CLAIM_SMALL),
        (HAS, {"n2": {IPV4_ADDRESS: 1}}, drift.PORT_CLAIM_SMALL),
    ],
)
def test_a_claim_drifts_from_its_ports_addresses(addressed: Port | None, held: Any, kind: Kind | None) -> None:
    judged = drift.judge_claim("p", addressed, held)
    assert (judged.kind if judged else None) == kind
    assert judged is None or judged.name == (addressed.name if addressed else "")
    assert judged is None or judged.says.startswith("claims ")


STATE = ProviderState(
    uuid="g", name="segment", inventories={IPV4_ADDRESS: Inventory(total=5, max_unit=5)}, traits=frozenset({"SHARES"}),
    placement_aggregates=frozenset({"a"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "found", "says"),
    [
        (None, None, None),
        (STATE, STATE, None),
        (STATE, replace(STATE, traits=frozenset({"SHARES", "CUSTOM_MORE"})), None),
        (STATE, None, "is missing"),
        (STATE, replace(STATE, name="other"), "its name is other"),
        (STATE, replace(STATE, inventories=None), "has no inventory, should have 5 IPV4_ADDRESS"),
        (STATE, replace(STATE, inventories={IPV4_ADDRESS: Inventory(total=5, reserved=2, max_unit=5)}),
         "has 5 IPV4_ADDRESS (reserved 2), should have 5 IPV4_ADDRESS"),
        (STATE, replace(STATE, traits=frozenset()), "traits none, should be SHARES"),
        (STATE, replace(STATE, placement_aggregates=frozenset("bcdefgh")),
         "in placement aggregates b, c, d, e, f and 2 more, should be in a"),
        (STATE, replace(STATE, name="other", traits=None), "its name is other; traits none, should be SHARES"),
    ],
)  # fmt: skip
def test_a_provider_drifts_from_what_its_segment_makes_it(
    wanted: ProviderState | None, found: ProviderState | None, says: str | None
) -> None:
    judged = drift.judge_provider("g", wanted, found, sourced=True)
    assert (judged and (judged.kind, judged.name, judged.says)) == (says and (drift.PROVIDER_WRONG, "segment", says))


@pytest.mark.parametrize(("sourced", "says"), [(True, "nothing with pools"), (False, "no segment or network")])
def test_a_provider_of_nothing_is_a_stray(sourced: bool, says: str) -> None:
    judged = drift.judge_provider("g", None, STATE, sourced=sourced)
    assert judged is not None
    assert (judged.kind, judged.says) == (drift.PROVIDER_STRAY, f"{says} stands behind it")


@pytest.mark.parametrize(
    ("members", "says"),
    [
        (["h1", "h2"], None),
        (None, "is missing"),
        (["h1"], "lacks h2"),
        (["h1", "h2", "h3"], "has besides h3"),
        (["h3", "h4"], "lacks h1, h2; has besides h3, h4"),
        (["h1", "h2", *"abcde"], "has besides a, b, c, d, e"),
        ([], "lacks h1, h2"),
    ],
)
def test_a_host_aggregate_drifts_from_the_hosts_that_reach_its_segment(
    members: list[str] | None, says: str | None
) -> None:
    judged = drift.judge_aggregate("a", "rack1", {"h1", "h2"}, members)
    assert (judged and (judged.kind, judged.key, judged.name, judged.says)) == (
        says and (drift.AGGREGATE_WRONG, "a", "rack1", says)
    )


def test_every_host_aggregate_of_a_source_should_have_its_hosts_also_when_there_are_none() -> None:
    sources = [a_source("g1", routed=True, physical_network="rack1"), a_source("g2", routed=True)]
    uuids = [segments.host_aggregate(source).uuid for source in sources]
    by_host = {"h1": frozenset(uuids[1:]), "h2": frozenset(uuids[1:]), "h3": frozenset[str]()}
    assert drift.wanted_members(by_host, sources) == {uuids[0]: set(), uuids[1]: {"h1", "h2"}}
