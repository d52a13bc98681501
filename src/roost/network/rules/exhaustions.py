"""Says where no address is free, and where on the network some are. Ports and servers get the same sentence.

Its words are those of roost.scheduling.explain, so that a server's fault and a port's refusal read alike.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from roost.network.model.networks import Network, Segment, SubnetKind
from roost.seams.placement import ADDRESS_CLASSES, FAMILY_WORDS
from roost.seams.unknown_guests import held_sentence

ROOMS_MAX = 32
"""Segments or subnets that a sentence lists one by one."""


class Room(Struct, frozen=True):
    """A segment, a subnet or a whole network. counts: resource class -> (addresses free, addresses in all)."""

    name: str
    counts: Mapping[str, tuple[int, int]]


def named(item: Network | Segment | SubnetKind) -> str:
    """Return the kind, the name if it has one, and the id, so that an error says which one it is."""
    kind = "subnet" if isinstance(item, SubnetKind) else "segment" if isinstance(item, Segment) else "network"
    return f"{kind} {item.name} ({item.id})" if item.name else f"{kind} {item.id}"


def sentence(full: Sequence[str], network: Network, rooms: Sequence[Room], *, held: int = 0) -> str:
    """Return the sentence that no address is free on what `full` names.

    rooms: all that the network has, the full ones too. held: how many of its addresses unknown guests hold.
    """
    families = [name for name in ADDRESS_CLASSES if any(name in room.counts for room in rooms)]
    out = [name for name in families if not any(room.counts[name][0] for room in rooms if name in room.counts)]
    which = "" if len(out) == len(families) else f"{FAMILY_WORDS[out[0]]} " if out else ""
    called = network.name or network.id
    head = f"The {which}addresses of network {called} ran out" if out else f"Addresses of network {called}"
    several = len(rooms) > 1 or network.segmented
    shown = [(f"{room.name} " if several else "") + _show_counts(room, families) for room in rooms[:ROOMS_MAX]]
    if len(rooms) > ROOMS_MAX:
        shown.append(f"{len(rooms) - ROOMS_MAX} more")
    where = " or ".join(full if len(full) <= ROOMS_MAX else [*full[:ROOMS_MAX], f"{len(full) - ROOMS_MAX} more"])
    also = f" {held_sentence(held)}" if held else ""
    return f"No more IP addresses available on {where}. {head}: {', '.join(shown)}.{also}"


def _show_counts(room: Room, families: Sequence[str]) -> str:
    labels = {name: f"{FAMILY_WORDS[name]} " if len(families) > 1 else "" for name in families}
    parts = [
        f"{labels[name]}{room.counts[name][0]} of {room.counts[name][1]} free"
        for name in families
        if name in room.counts
    ]
    return " and ".join(parts) or "no addresses"
