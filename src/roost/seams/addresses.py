"""The one equation of address capacity: of a segment of a Neutron, and of Roost's own networks.

What is free is always the pools without what ports hold of them: a change of the pools moves no claim.
"""

TOTAL_MAX = 2**31 - 1
"""What an inventory can say of itself; an IPv6 pool may have more, of which so many are handed out."""


def count_capacity(*, pooled: int, claimed_outside: int, unclaimed_inside: int) -> tuple[int, int]:
    """Return (total, reserved) of addresses of one resource class of a provider.

    pooled: addresses in the pools. claimed_outside: addresses outside them that a claim counts. unclaimed_inside:
    addresses of the pools that are held and that no claim counts.
    """
    total = min(pooled + claimed_outside, TOTAL_MAX)
    return total, min(unclaimed_inside, total)
