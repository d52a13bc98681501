"""Decides what a port's claim in the ledger is to be: its claimed addresses, by provider and resource class.

While its addresses change it is more: what the port has and what it gets, so that neither can be somebody else's.
"""

from collections.abc import Iterable

from roost.network.model import Address
from roost.network.rules import uses
from roost.seams.placement import Allocations


def claim_of(addresses: Iterable[Address]) -> dict[str, dict[str, int]]:
    """What a port with these addresses is to hold; empty: nothing."""
    claim: dict[str, dict[str, int]] = {}
    for item in addresses:
        if item.claimed:
            resources = claim.setdefault(item.provider_uuid, {})
            name = uses.class_of(6 if ":" in item.address else 4)
            resources[name] = resources.get(name, 0) + 1
    return claim


def covers(held: Allocations, claim: Allocations) -> bool:
    """Whether who holds this holds the claim, and perhaps more."""
    return all(
        held.get(provider, {}).get(name, 0) >= amount
        for provider, resources in claim.items()
        for name, amount in resources.items()
    )


def same(one: Allocations, other: Allocations) -> bool:
    """Whether two claims are for the same."""
    return covers(one, other) and covers(other, one)


def added(one: Allocations, other: Allocations) -> dict[str, dict[str, int]]:
    """Both claims together."""
    total = {provider: dict(resources) for provider, resources in one.items()}
    for provider, resources in other.items():
        mine = total.setdefault(provider, {})
        for name, amount in resources.items():
            mine[name] = mine.get(name, 0) + amount
    return total
