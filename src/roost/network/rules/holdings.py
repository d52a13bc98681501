"""Decides what a port's claim in the ledger is to be: its claimed addresses, by provider and resource class.

While its addresses change it is more: what the port has and what it gets, so that neither can be somebody else's.
"""

from collections.abc import Iterable

from roost.network.model.ports import Address
from roost.network.rules import addressing, uses
from roost.seams.network import PortBind
from roost.seams.placement import Allocations, ConsumerClaim, ConsumerType, add_allocations


def claim_of(addresses: Iterable[Address]) -> dict[str, dict[str, int]]:
    """Return the claim of a port with these addresses; empty if none of them is claimed."""
    claim: dict[str, dict[str, int]] = {}
    for item in addresses:
        if item.claimed:
            resources = claim.setdefault(item.provider_uuid, {})
            name = uses.class_of(addressing.version_of(addressing.parse(item.address)))
            resources[name] = resources.get(name, 0) + 1
    return claim


def claim_while_readdressed(addresses: Iterable[Address], bind: PortBind) -> dict[str, dict[str, int]]:
    """Return the claim of a port while a bind replaces its addresses: the old and the new ones."""
    coming = {bind.provider_uuid: dict.fromkeys(bind.claimed, 1)} if bind.provider_uuid else {}
    return add_allocations(claim_of(addresses), coming)


def port_claim(port_id: str, project_id: str, allocations: Allocations, generation: int | None = None) -> ConsumerClaim:
    """Return the claim with which a port holds this. generation: None where it has no claim yet."""
    return ConsumerClaim(
        consumer_uuid=port_id,
        generation=generation,
        consumer_type=ConsumerType.PORT.value,
        project_id=project_id,
        user_id=project_id,
        allocations=allocations,
    )
