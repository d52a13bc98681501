"""Decides what the ledger should know of a segment, or of a network without segments: its addresses are capacity."""

from roost.network import addressing, segments
from roost.network.model import COMPUTE_OWNER, ProviderSource, Subnet
from roost.seams.placement import IPV4_ADDRESS, SHARING, Inventory, ProviderState

TOTAL_MAX = 2**31 - 1
AUTOMATIC_MODES = ("slaac", "dhcpv6-stateless")


def counts(subnet: Subnet) -> bool:
    """Whether the subnet's pools are capacity: not where compute ports may have none, or where MACs say addresses."""
    for_compute = not subnet.service_types or any(text.startswith(COMPUTE_OWNER) for text in subnet.service_types)
    return for_compute and subnet.ipv6_address_mode not in AUTOMATIC_MODES


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
