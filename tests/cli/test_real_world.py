"""What guests' NICs show from outside, beside what the records say: a sentence for each thing that differs."""

from collections.abc import Mapping

import pytest

from roost.cli.asking.real_world import NicKnown, WorldSeen, list_world_problems

WEB = NicKnown(server="web", tap="rt1", mac="52:54:00:00:00:01", addresses=("10.0.0.2",), host="h1")
STOPPED = NicKnown(server="old", tap="rt2", mac="52:54:00:00:00:02", addresses=("10.0.0.3", "2001:db8::3"), host=None)
OTHER = "52:54:00:00:00:09"
ANSWERS: dict[str, set[str]] = {"10.0.0.2": {WEB.mac}, "10.0.0.3": set(), "10.0.0.4": set()}
UP: dict[str, tuple[str, ...]] = {"rt1": ("h1",)}


def seen_of(answers: Mapping[str, set[str]], up: Mapping[str, tuple[str, ...]]) -> WorldSeen:
    macs_by_address = {address: frozenset(macs) for address, macs in {**ANSWERS, **answers}.items()}
    return WorldSeen(asked=3, macs_by_address=macs_by_address, hosts_by_tap=up)


@pytest.mark.parametrize(
    ("answers", "up", "problems"),
    [
        ({}, UP, []),
        ({"10.0.0.2": {WEB.mac, OTHER}}, UP, [f"address 10.0.0.2 answers twice, as {WEB.mac} and {OTHER}"]),
        ({"10.0.0.2": {OTHER}}, UP, [f"address 10.0.0.2 of server web answers as {OTHER}: expected {WEB.mac}"]),
        ({"10.0.0.2": set()}, UP, ["running server web does not answer at its address 10.0.0.2"]),
        ({"10.0.0.3": {STOPPED.mac}}, UP, ["address 10.0.0.3 of server old, which does not run, answers"]),
        ({"10.0.0.4": {OTHER}}, UP, [f"address 10.0.0.4 is free, and {OTHER} answers at it"]),
        ({}, {"rt1": ("h1", "h2")}, ["a NIC of server web is up on h1 and h2: expected h1"]),
        ({}, {}, ["a NIC of server web is up on nowhere: expected h1"]),
        ({}, {**UP, "rt2": ("h2",)}, ["a NIC of server old is up on h2: expected nowhere"]),
        ({}, {**UP, "rt3": ("h2",)}, ["NIC rt3 is up on h2: no server has it"]),
    ],
)
def test_each_thing_that_differs_is_one_sentence(
    answers: dict[str, set[str]], up: dict[str, tuple[str, ...]], problems: list[str]
) -> None:
    assert list_world_problems([WEB, STOPPED], seen_of(answers, up)) == problems
