"""Says where no address is free, and where on the network some are. Ports and servers get the same sentence.

What is free is said in the words of a server's fault: roost.seams.addresses.
"""

from collections.abc import Sequence

from msgspec import Struct

from roost.network.model.networks import Network, Segment, SubnetKind
from roost.seams.addresses import Counts, show_exhausted, show_free
from roost.seams.unknown_guests import held_sentence

ROOMS_MAX = 32
"""Segments or subnets that a sentence lists one by one."""


class Room(Struct, frozen=True):
    """A segment, a subnet or a whole network, and what it has."""

    name: str
    counts: Counts


def named(item: Network | Segment | SubnetKind) -> str:
    """Return the kind, the name if it has one, and the id, so that an error says which one it is."""
    kind = "subnet" if isinstance(item, SubnetKind) else "segment" if isinstance(item, Segment) else "network"
    return f"{kind} {item.name} ({item.id})" if item.name else f"{kind} {item.id}"


def sentence(full: Sequence[str], network: Network, rooms: Sequence[Room], *, held: int = 0) -> str:
    """Return the sentence that no address is free on what `full` names.

    rooms: all that the network has, the full ones too. held: how many of its addresses unknown guests hold.
    """
    called, counts = network.name or network.id, [room.counts for room in rooms]
    head = show_exhausted(called, counts) or f"Addresses of network {called}"
    several = len(rooms) > 1 or network.segmented
    shown = [(f"{room.name} " if several else "") + show_free([room.counts], counts) for room in rooms[:ROOMS_MAX]]
    if len(rooms) > ROOMS_MAX:
        shown.append(f"{len(rooms) - ROOMS_MAX} more")
    where = " or ".join(full if len(full) <= ROOMS_MAX else [*full[:ROOMS_MAX], f"{len(full) - ROOMS_MAX} more"])
    also = f" {held_sentence(held)}" if held else ""
    return f"No more IP addresses available on {where}. {head}: {', '.join(shown)}.{also}"
