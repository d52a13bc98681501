"""Which ports are free of their addresses, what they claim meanwhile, and what a search makes of it."""

from typing import Any

import pytest
from msgspec.structs import replace

from roost.compute.model.cloud import Flavor
from roost.compute.model.work import Move, MoveKind, Placed, Plan, Stage, Work
from roost.conductor.context import Build
from roost.conductor.readdress import claim_both, free_ports, list_freeable, may_readdress
from roost.conductor.resume import HostSearch
from roost.network.model.ports import Address
from roost.network.rules.capacity import claim_while_readdressed
from roost.seams.compute import RequestSpec
from roost.seams.network import NetworkView, Port, PortBind
from roost.seams.placement import Claimed, ConsumerState

SPEC = RequestSpec(vcpus=1, memory_mb=1, disk_gb=1)
FLAVOR = Flavor(id="1", name="small", vcpus=1, ram_mb=1, disk_gb=1)
ONE: dict[str, int] = {"IPV4_ADDRESS": 1}


def port(name: str = "a", **fields: Any) -> Port:
    base = Port(
        id=name, tag="0", network_id="routed", project_id="p", mac_address="m", revision=1, preserve_on_delete=False,
        needs_address=False, addresses=("10.1.0.2",), provider_uuid="s1", pinned=True,
    )  # fmt: skip
    return replace(base, **fields)


def consumer(**allocations: Any) -> ConsumerState:
    return ConsumerState(
        consumer_uuid="a", generation=1, consumer_type="PORT", project_id="p", user_id="u", allocations=allocations
    )


def work(kind: MoveKind | None = MoveKind.EVACUATE, *, readdress: bool = True) -> Work:
    plan = Plan(spec=SPEC, flavor=FLAVOR, old_spec=SPEC, old_flavor=FLAVOR, readdress=readdress)
    move = None if kind is None else Move(uuid="m", kind=kind, status="preparing", source_host="h1", plan=plan)
    return Work(
        server_id="s", stage=Stage.PLACE, attempt=1, failures=0, excluded_hosts=(), placed=None, failure=None,
        deleting=False, name="web", project_id="p", user_id="u", spec=SPEC, active=True, move=move,
    )  # fmt: skip


def search(*ports: Port, readdress: bool = True, **consumers: ConsumerState) -> HostSearch:
    return HostSearch(Build(work(readdress=readdress)), ports, consumers)


@pytest.mark.parametrize(
    ("kind", "readdress", "may"),
    [(MoveKind.EVACUATE, True, True), (MoveKind.EVACUATE, False, False), (None, True, False)],
)
def test_who_may_be_readdressed(kind: MoveKind | None, readdress: bool, may: bool) -> None:
    assert may_readdress(work(kind, readdress=readdress)) == may


def test_ports_on_routed_networks_can_be_freed() -> None:
    networks = {
        name: NetworkView(id=name, name=name, routed=name != "plain", segments=(), flat=name == "flat")
        for name in ("routed", "plain", "flat")
    }
    ports = (
        port("a"), port("b", network_id="plain"), port("c", network_id="flat", pools=("pool",)),
        port("d", addresses=(), provider_uuid=None),
    )  # fmt: skip
    assert list_freeable(ports, networks) == {"a"}


def test_a_free_port_holds_the_server_nowhere_and_has_a_tag() -> None:
    later = port("b", tag="")
    freed = free_ports((port("a"), later, port("c", tag="2")), {"a", "b"})
    assert [(one.id, one.tag, one.pinned) for one in freed] == [("a", "0", False), ("b", "b", False), ("c", "2", True)]


@pytest.mark.parametrize(
    ("held", "coming", "claimed"),
    [
        (consumer(s1=ONE), {"a": {"s2": ONE}}, {"a": {"s1": ONE, "s2": ONE}}),
        (consumer(s1=ONE), {"a": {"s1": ONE}}, {}),
        (consumer(s1=ONE, s2=ONE), {"a": {"s3": ONE}}, {"a": {"s1": ONE, "s3": ONE}}),
        (consumer(s1=ONE, s2=ONE), {}, {"a": {"s1": ONE}}),
        (consumer(s1=ONE), {}, {}),
        (None, {"a": {"s2": ONE}}, {"a": {"s2": ONE}}),
    ],
)
def test_what_is_claimed_while_both_addresses_are_wanted(held: Any, coming: Any, claimed: Any) -> None:
    consumers = {} if held is None else {"a": held}
    assert claim_both((port(),), consumers, coming) == claimed
    assert claim_both((port(pools=("pool",)),), consumers, coming) == coming


@pytest.mark.parametrize(
    ("provider_uuid", "claimed", "total"),
    [("s2", ("IPV4_ADDRESS",), {"s1": ONE, "s2": ONE}), ("s1", ("IPV4_ADDRESS",), {"s1": {"IPV4_ADDRESS": 2}}),
     (None, (), {"s1": ONE})],
)  # fmt: skip
def test_what_a_port_holds_while_it_is_readdressed(provider_uuid: str | None, claimed: Any, total: Any) -> None:
    address = Address(subnet_id="n", address="10.1.0.2", port_id="a", in_pool=True, claimed=True, provider_uuid="s1")
    bind = PortBind(port_id="a", server_id="s", host="h2", provider_uuid=provider_uuid, revision=1, claimed=claimed)
    assert claim_while_readdressed([address], bind) == total


def test_a_search_knows_what_comes_beside_the_addresses() -> None:
    known = search(port(), a=consumer(s1=ONE, s2=ONE))
    assert known.claims_coming == {"a": ("s2", ONE)}
    assert search(port(), readdress=False, a=consumer(s1=ONE, s2=ONE)).claims_coming == {}
    known.freed_ids = frozenset({"a"})
    assert [one.pinned for one in known.ports_asked] == [False]


@pytest.mark.parametrize(
    ("freed", "claims", "left"),
    [
        (True, {"a": ("s2", ONE)}, {"a": ("10.1.0.2",)}), (True, {"a": ("s1", ONE)}, {}),
        (True, {}, {"a": ("10.1.0.2",)}), (False, {}, {}), (False, {"a": ("s2", ONE)}, {"a": ("10.1.0.2",)}),
    ],
)  # fmt: skip
def test_which_addresses_are_left(freed: bool, claims: Any, left: Any) -> None:
    known = search(port(), a=consumer(s1=ONE))
    known.freed_ids = frozenset({"a"} if freed else ())
    known.placed_on("h2", Claimed(generations={}), claims=claims)
    assert isinstance(known.outcome, Placed)
    assert known.outcome.addresses_left == left
    assert known.outcome.providers_by_port == ({"a": "s2"} if claims.get("a", ("",))[0] == "s2" else {})


def test_a_claim_without_an_address_is_kept_where_it_comes_out_again() -> None:
    known = search(port(addresses=(), pinned=False, needs_address=True), readdress=False, a=consumer(s1=ONE))
    known.leaving = True
    known.placed_on("h2", Claimed(generations={}), claims={"a": ("s1", ONE)})
    assert isinstance(known.outcome, Placed)
    assert (known.outcome.providers_by_port, known.outcome.addresses_left) == ({"a": "s1"}, {})
