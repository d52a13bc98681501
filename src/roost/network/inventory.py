"""Decides what the ledger should know of a segment, or of a network without segments: its addresses are capacity."""

from roost.network import addressing, segments
from roost.network.model import ProviderSource
from roost.seams.placement import IPV4_ADDRESS, SHARING, Inventory, ProviderState

TOTAL_MAX = 2**31 - 1


def provider_state(source: ProviderSource) -> ProviderState | None:
    """The provider as it should be, whole; None when it has no pools and should not exist.

    max_unit is the total: two NICs of one server may share a segment. reserved is 0: what holds an address is a port.
    """
    total = min(addressing.count(source.pools or ()), TOTAL_MAX)
    if total == 0:
        return None
    return ProviderState(
        uuid=source.provider_uuid,
        name=segments.provider_name(source),
        inventories={IPV4_ADDRESS: Inventory(total=total, max_unit=total)},
        traits=frozenset({SHARING}),
        placement_aggregates=frozenset({segments.host_aggregate(source).uuid}),
    )
