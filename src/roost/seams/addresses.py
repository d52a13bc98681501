"""The one equation of address capacity, of a segment of a Neutron and of Roost's own networks; and its words.

What is free is always the pools without what ports hold of them: a change of the pools moves no claim.
"""

from collections.abc import Mapping, Sequence

from roost.seams.placement import ADDRESS_CLASSES, FAMILY_WORDS

TOTAL_MAX = 2**31 - 1
"""What an inventory can say of itself; an IPv6 pool may have more, of which so many are handed out."""


def count_capacity(*, pooled: int, claimed_outside: int, unclaimed_inside: int) -> tuple[int, int]:
    """Return (total, reserved) of addresses of one resource class of a provider.

    pooled: addresses in the pools. claimed_outside: addresses outside them that a claim counts. unclaimed_inside:
    addresses of the pools that are held and that no claim counts.
    """
    total = min(pooled + claimed_outside, TOTAL_MAX)
    return total, min(unclaimed_inside, total)


Counts = Mapping[str, tuple[int, int]]
"""Resource class -> (addresses free, addresses in all), of a segment, a subnet or a network."""


def show_free(counts: Sequence[Counts], everywhere: Sequence[Counts]) -> str:
    """Return how many addresses of each class are free in these places together. everywhere: all of their network."""
    families = _families(everywhere)
    parts = []
    for name in families:
        pairs = [amounts[name] for amounts in counts if name in amounts]
        label = f"{FAMILY_WORDS[name]} " if len(families) > 1 else ""
        if pairs:
            parts.append(f"{label}{sum(free for free, _ in pairs)} of {sum(total for _, total in pairs)} free")
    return " and ".join(parts) or "no addresses"


def show_exhausted(network: str, everywhere: Sequence[Counts]) -> str | None:
    """Return that the network's addresses of some class ran out, in words; None where each is free somewhere."""
    families = _families(everywhere)
    out = [name for name in families if not any(amounts[name][0] for amounts in everywhere if name in amounts)]
    if not out:
        return None
    which = "" if len(out) == len(families) else f"{FAMILY_WORDS[out[0]]} "
    return f"The {which}addresses of network {network} ran out"


def _families(everywhere: Sequence[Counts]) -> list[str]:
    return [name for name in ADDRESS_CLASSES if any(name in amounts for amounts in everywhere)]
