"""Which provider an earlier claim is for: of a port's own, and of the server's for its ports on flat networks."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.compute.model.work import Placed
from roost.conductor.context import Build
from roost.conductor.resume import HostSearch, with_claims
from roost.seams.network import Port
from roost.seams.placement import IPV4_ADDRESS, Claimed, ConsumerState


def a_port(tag: str, *pools: str, on: str | None = None) -> Port:
    """A port that may be in these pools, none on another network; on: the provider that its address is on."""
    return Port(
        id=f"p{tag}", tag=tag, network_id="n", project_id="p", mac_address="", revision=1, preserve_on_delete=False,
        needs_address=on is None, addresses=() if on is None else ("10.0.0.1",), pools=pools, provider_uuid=on,
    )  # fmt: skip


def claims(of_server: dict[str, int], **of_ports: str) -> dict[str, ConsumerState]:
    """The server's claim of addresses by pool, beside its host's, and ports' own by provider."""
    server = {"host": {"VCPU": 1}} | {uuid: {IPV4_ADDRESS: amount} for uuid, amount in of_server.items()}
    ports = {port_id: {uuid: {IPV4_ADDRESS: 1}} for port_id, uuid in of_ports.items()}
    return {
        uuid: ConsumerState(
            consumer_uuid=uuid, generation=1, consumer_type=None, project_id="p", user_id="u", allocations=allocations
        )
        for uuid, allocations in {"s": server, **ports}.items()
    }


@pytest.mark.parametrize(
    ("ports", "held", "providers"),
    [
        pytest.param([a_port("0")], {}, [None], id="nothing is claimed"),
        pytest.param([a_port("0")], claims({}, p0="x"), ["x"], id="a port's own claim"),
        pytest.param([a_port("0", on="x")], claims({}, p0="x"), ["x"], id="a port with an address"),
        pytest.param([a_port("0", "a", "b")], claims({}), [None], id="nothing is claimed of its pools"),
        pytest.param([a_port("0", "a", "b")], claims({"b": 1}), ["b"], id="the pool that is claimed"),
        pytest.param([a_port("0", "a", "b")], claims({"c": 1}), [None], id="a pool that it may not be in"),
        pytest.param([a_port("0", "a"), a_port("1", "a")], claims({"a": 1}), ["a", None], id="one address for two"),
        pytest.param([a_port("0", "a"), a_port("1", "a")], claims({"a": 2}), ["a", "a"], id="two addresses for two"),
        pytest.param([a_port("0", "a", "b"), a_port("1", "a")], claims({"a": 1, "b": 1}), ["b", "a"],
                     id="who has one pool goes first"),
        pytest.param([a_port("0", "a"), a_port("1", "a", on="a")], claims({"a": 1}), [None, "a"],
                     id="who has an address goes first of all"),
        pytest.param([a_port("0"), a_port("1", "a")], claims({"a": 1}, p0="x"), ["x", "a"], id="both kinds"),
    ],
)  # fmt: skip
def test_a_claim_is_for_the_ports_that_have_no_other(
    ports: list[Port], held: dict[str, ConsumerState], providers: list[str | None]
) -> None:
    known = with_claims("s", ports, held)
    assert [port.id for port in known] == [port.id for port in ports]
    assert [port.provider_uuid for port in known] == providers


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, unique=True), max_size=4),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)),
)
def test_no_more_is_given_than_is_claimed(pools: list[list[str]], claimed: dict[str, int]) -> None:
    ports = [a_port(str(number), *names) for number, names in enumerate(pools)]
    given_ = [port.provider_uuid for port in with_claims("s", ports, claims(claimed))]
    assert all(given_.count(name) <= claimed.get(name, 0) for name in "abc")
    for pool, names in zip(given_, pools, strict=True):
        assert pool is None or pool in names
        if pool is None:
            assert all(given_.count(name) == claimed.get(name, 0) for name in names), "what it may have is all given"


def a_search(*ports: Port, consumers: dict[str, ConsumerState] | None = None, leaving: bool = False) -> HostSearch:
    work: Any = SimpleNamespace(server_id="s", spec=SimpleNamespace(nics=ports))
    known = with_claims("s", ports, consumers or {})
    return HostSearch(Build(work, known), known, consumers or {}, leaving=leaving)


def test_a_search_keeps_what_is_claimed_until_the_server_may_leave_it() -> None:
    ports = [a_port("0"), a_port("1", on="y"), a_port("2", "a"), a_port("3")]
    held = claims({"a": 1}, p0="x", p1="y")
    staying, leaving = a_search(*ports, consumers=held), a_search(*ports, consumers=held, leaving=True)
    assert staying.server_id == "s"
    assert staying.network_ids == {"n"}
    assert staying.providers_unassigned == leaving.providers_unassigned == {"p0": "x"}
    assert staying.claims_kept == {"p0": ("x", {IPV4_ADDRESS: 1}), "p2": ("a", {IPV4_ADDRESS: 1})}
    assert leaving.claims_kept == {}
    assert (staying.pools_kept, leaving.pools_kept) == ({"p2": "a"}, {})


def test_a_server_is_placed_with_what_it_keeps_and_what_is_new() -> None:
    search = a_search(a_port("0"), a_port("2", "a"), a_port("3"), consumers=claims({"a": 1}, p0="x"))
    search.placed_on("h1", Claimed({"s": 2, "p0": 1, "p3": 0}), claims={"p3": ("z", {IPV4_ADDRESS: 1})})
    assert isinstance(search.outcome, Placed)
    assert search.outcome.host == "h1"
    assert search.outcome.providers_by_port == {"p0": "x", "p2": "a", "p3": "z"}
    assert search.outcome.generations == {"s": 2, "p0": 1, "p3": 0}
