"""Says where no address is free, and where on the network some still are: one sentence for ports and for servers.

The words are those of roost.scheduling.explain, so that a server's fault and a port's refusal read alike.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from roost.network.model.networks import Network, Segment, SubnetKind
from roost.seams.placement import ADDRESS_CLASSES, FAMILY_WORDS
from roost.seams.unknown_guests import held_sentence

ROOMS_MAX = 32
"""Segments or subnets that a sentence lists one by one."""


class Room(Struct, frozen=True):
    """A segment, a subnet or a whole network, and of each of its resource classes (addresses free, of how many)."""

    name: str
    left: Mapping[str, tuple[int, int]]


def named(item: Network | Segment | SubnetKind) -> str:
    """What people call it, and its id: the error has to say which one it is."""
    kind = "subnet" if isinstance(item, SubnetKind) else "segment" if isinstance(item, Segment) else "network"
    return f"{kind} {item.name} ({item.id})" if item.name else f"{kind} {item.id}"


def sentence(full: Sequence[str], network: Network, rooms: Sequence[Room], *, held: int = 0) -> str:
    """No address is free on what is named; rooms: what the network has, the full ones among them.

    held: how many addresses of the network unknown guests have.
    """
    families = [name for name in ADDRESS_CLASSES if any(name in room.left for room in rooms)]
    out = [name for name in families if not any(room.left[name][0] for room in rooms if name in room.left)]
    which = "" if len(out) == len(families) else f"{FAMILY_WORDS[out[0]]} " if out else ""
    called = network.name or network.id
    head = f"The {which}addresses of network {called} ran out" if out else f"Addresses of network {called}"
    several = len(rooms) > 1 or network.segmented
    shown = [f"{room.name} {_told(room, families)}" if several else _told(room, families) for room in rooms[:ROOMS_MAX]]
    if len(rooms) > ROOMS_MAX:
        shown.append(f"{len(rooms) - ROOMS_MAX} more")
    where = " or ".join(full if len(full) <= ROOMS_MAX else [*full[:ROOMS_MAX], f"{len(full) - ROOMS_MAX} more"])
    also = f" {held_sentence(held)}" if held else ""
    return f"No more IP addresses available on {where}. {head}: {', '.join(shown)}.{also}"


def _told(room: Room, families: Sequence[str]) -> str:
    labels = {name: f"{FAMILY_WORDS[name]} " if len(families) > 1 else "" for name in families}
    counts = [
        f"{labels[name]}{room.left[name][0]} of {room.left[name][1]} free" for name in families if name in room.left
    ]
    return " and ".join(counts) or "no addresses"
