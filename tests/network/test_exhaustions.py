"""Where no address is free, in words."""

from typing import Any

import pytest
from tests.network.cloud import NEVER
from tests.network.parts import a_network, a_subnet

from roost.network.model.networks import Network, Segment, SubnetKind
from roost.network.rules.availability import Room, named, sentence
from roost.seams.addresses import Counts, show_exhausted, show_free
from roost.seams.placement import IPV4_ADDRESS, IPV6_ADDRESS

SEGMENT = Segment(
    id="g", network_id="n", name=None, description="", network_type="vlan", physical_network=None,
    segmentation_id=None, revision=1, created_at=NEVER, updated_at=NEVER,
)  # fmt: skip


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (a_network(), "network net (n)"),
        (a_network(name=""), "network n"),
        (SEGMENT, "segment g"),
        (a_subnet(name="small"), "subnet small (s)"),
        (a_subnet(), "subnet s"),
    ],
)
def test_a_place_is_named_with_its_kind_and_id(item: Network | Segment | SubnetKind, words: str) -> None:
    assert named(item) == words


def room(name: str, four: tuple[int, int] | None = None, six: tuple[int, int] | None = None) -> Room:
    counts = {IPV4_ADDRESS: four, IPV6_ADDRESS: six}
    return Room(name, {name: count for name, count in counts.items() if count is not None})


@pytest.mark.parametrize(
    ("rooms", "more", "words"),
    [
        ([room("net", (0, 5))], {}, "The addresses of network net ran out: 0 of 5 free."),
        ([room("net", (0, 5))], {"segmented": True}, "The addresses of network net ran out: net 0 of 5 free."),
        ([room("net", (0, 5))], {"name": ""}, "The addresses of network n ran out: 0 of 5 free."),
        ([room("a", (0, 5)), room("b", (2, 5))], {}, "Addresses of network net: a 0 of 5 free, b 2 of 5 free."),
        ([room("net", (0, 5), (7, 9))], {},
         "The IPv4 addresses of network net ran out: IPv4 0 of 5 free and IPv6 7 of 9 free."),
        ([room("net", (0, 5), (0, 9))], {},
         "The addresses of network net ran out: IPv4 0 of 5 free and IPv6 0 of 9 free."),
        ([room("a", (1, 5)), room("b")], {}, "Addresses of network net: a 1 of 5 free, b no addresses."),
        ([room(f"r{number}", (1, 1)) for number in range(33)], {}, "r31 1 of 1 free, 1 more."),
        ([room(f"r{number}", (1, 1)) for number in range(32)], {}, "r31 1 of 1 free."),
    ],
)  # fmt: skip
def test_the_sentence_says_what_the_network_has(rooms: list[Room], more: dict[str, Any], words: str) -> None:
    text = sentence(["subnet s"], a_network(**more), rooms)
    assert text.startswith("No more IP addresses available on subnet s. ")
    assert text.endswith(words)


def test_the_sentence_names_some_of_many_full_places_and_what_unknown_guests_hold() -> None:
    for count, words in ((32, " or subnet s31. The addresses"), (40, " or subnet s31 or 8 more. The addresses")):
        places = [f"subnet s{number}" for number in range(count)]
        text = sentence(places, a_network(), [room("net", (0, 5))], held=2)
        assert words in text
    assert text.endswith(" 2 of its addresses are held by unknown guests: see roost-manage guests list.")


FOUR, BOTH = {IPV4_ADDRESS: (0, 5)}, {IPV4_ADDRESS: (0, 2), IPV6_ADDRESS: (7, 9)}


@pytest.mark.parametrize(
    ("everywhere", "exhausted", "free"),
    [
        ([FOUR], "The addresses of network net ran out", "0 of 5 free"),
        ([FOUR, BOTH], "The IPv4 addresses of network net ran out", "IPv4 0 of 7 free and IPv6 7 of 9 free"),
        ([{IPV4_ADDRESS: (1, 5)}], None, "1 of 5 free"),
        ([], None, "no addresses"),
    ],
)
def test_what_is_free_in_several_places_together(everywhere: list[Counts], exhausted: str | None, free: str) -> None:
    assert show_exhausted("net", everywhere) == exhausted
    assert show_free(everywhere, everywhere) == free
