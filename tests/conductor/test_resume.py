"""What a search for a host keeps of what an earlier lease claimed, and what it writes down at its end."""

import pytest
from msgspec.structs import replace
from tests.conductor.test_allocate import a_claim, a_nic
from tests.conductor.test_context import WORK

from roost.compute.model import Placed
from roost.conductor.context import Build
from roost.conductor.resume import HostSearch, with_claim
from roost.seams.network import FlatNic, FlatNics, Nic, Port
from roost.seams.placement import IPV4_ADDRESS, Claimed, ConsumerState

PORT = Port(
    id="port0", tag="0", network_id="n", project_id="p", mac_address="m", revision=1, preserve_on_delete=False,
    needs_address=True,
)  # fmt: skip
ASSIGNED = replace(PORT, addresses=("10.0.0.2",), provider_uuid="seg1")
ADDRESS = {IPV4_ADDRESS: 1}


def a_consumer(uuid: str, provider: str, generation: int = 1) -> ConsumerState:
    return ConsumerState(
        consumer_uuid=uuid, generation=generation, consumer_type="PORT", project_id="p", user_id="u",
        allocations={provider: ADDRESS},
    )  # fmt: skip


def a_build(*tags: str) -> Build:
    nics = tuple(Nic(tag=tag, network_id="n") for tag in tags)
    return Build(replace(WORK, spec=replace(WORK.spec, nics=nics)))


@pytest.mark.parametrize(
    ("port", "consumer", "provider"),
    [
        pytest.param(PORT, None, None, id="no claim"),
        pytest.param(PORT, a_consumer("port0", "seg2"), "seg2", id="a claim without an address"),
        pytest.param(ASSIGNED, None, "seg1", id="an address without a claim"),
        pytest.param(ASSIGNED, a_consumer("port0", "seg2"), "seg1", id="where the address is, whatever is claimed"),
    ],
)
def test_a_port_is_where_its_address_is_or_else_its_claim(
    port: Port, consumer: ConsumerState | None, provider: str | None
) -> None:
    assert with_claim(port, consumer) == replace(port, provider_uuid=provider)


@pytest.mark.parametrize("leaving", [False, True], ids=["staying", "leaving"])
@pytest.mark.parametrize(
    ("port", "unassigned"),
    [(PORT, {"port0": "seg2"}), (ASSIGNED, {})],
    ids=["claimed and not assigned", "assigned"],
)
def test_a_claim_without_an_address_is_kept_unless_the_server_may_leave_it(
    port: Port, unassigned: dict[str, str], leaving: bool
) -> None:
    search = HostSearch.of(a_build("0"), [port], {"port0": a_consumer("port0", "seg2")}, None)
    search.leaving = leaving
    assert search.providers_unassigned == unassigned
    assert search.claims_kept == ({} if leaving else {one: (uuid, ADDRESS) for one, uuid in unassigned.items()})


@pytest.mark.parametrize(
    ("nic", "leaving", "kept"),
    [
        (a_nic("1", "a", on="a"), False, {"1": "a"}),
        (a_nic("1", "a", on="a"), True, {}),
        (replace(a_nic("1", "a", on="a"), fixed_ip="10.0.0.1"), True, {"1": "a"}),  # it was asked for by its address
        (a_nic("1", "b"), False, {}),
    ],
)
def test_the_pool_of_a_flat_network_is_kept_unless_the_server_may_leave_it(
    nic: FlatNic, leaving: bool, kept: dict[str, str]
) -> None:
    flat = FlatNics(server_id="s", ticket=7, nics=(nic,))
    search = HostSearch.of(a_build("1"), [], {"s": a_claim(a=1)}, flat)
    search.leaving = leaving
    assert (search.pools_kept, search.ticket) == (kept, 7)


@pytest.mark.parametrize(
    ("tags", "ports", "flat", "whole"),
    [("", 0, 0, True), ("0", 1, 0, True), ("0", 0, 1, True), ("01", 1, 1, True), ("01", 1, 0, False),
     ("01", 0, 0, False)],
)  # fmt: skip
def test_a_search_is_whole_when_every_nic_was_found(tags: str, ports: int, flat: int, whole: bool) -> None:
    nics = FlatNics(server_id="s", ticket=1, nics=tuple(replace(a_nic("1", "a"), network_id="f") for _ in range(flat)))
    search = HostSearch.of(a_build(*tags), [PORT] * ports, {}, nics if flat else None)
    assert search.is_whole is whole
    assert search.server_id == "s"
    assert search.network_ids == ({"n"} if ports else set()) | ({"f"} if flat else set())


def test_without_a_claim_of_the_server_flat_nics_have_no_pool() -> None:
    flat = FlatNics(server_id="s", ticket=1, nics=(a_nic("1", "a", on="a"),))
    assert HostSearch.of(a_build("1"), [], {}, flat).pools_kept == {}


@pytest.mark.parametrize("leaving", [False, True], ids=["staying", "leaving"])
def test_a_server_is_placed_with_what_is_kept_and_what_is_new(leaving: bool) -> None:
    ports = [PORT, replace(PORT, id="port1", tag="1"), replace(PORT, id="port2", tag="2"),
             replace(ASSIGNED, id="port3", tag="3", needs_address=False)]  # fmt: skip
    flat = FlatNics(server_id="s", ticket=7, nics=(a_nic("4", "a", on="a"), a_nic("5", "b", "c")))
    held = {"port0": a_consumer("port0", "seg2"), "s": a_claim(a=1)}
    search = HostSearch.of(a_build(*"012345"), ports, held, flat)
    search.leaving = leaving
    search.placed_on("h9", Claimed({"s": 2}), claims={"port1": ("seg1", ADDRESS)}, pools={"5": "c"})
    kept = not leaving
    assert search.outcome == Placed(
        host="h9",
        providers_by_port={**({"port0": "seg2"} if kept else {}), "port1": "seg1"},
        classes_by_port={"port0": (IPV4_ADDRESS,) if kept else (), "port1": (IPV4_ADDRESS,), "port2": ()},
        generations={"s": 2},
        pools_by_tag={**({"4": "a"} if kept else {}), "5": "c"},
        ticket=7,
    )
