"""Decides what the ledger should know of a segment, or of a network without segments: its addresses are capacity."""

from collections.abc import Iterable

from roost.network.model.networks import ProviderSource, Subnet, SubnetKind
from roost.network.rules import addressing, segments, uses
from roost.seams.placement import ADDRESS_CLASSES, SHARING, Inventory, ProviderState

TOTAL_MAX = 2**31 - 1
"""What an inventory can say of itself; an IPv6 pool may have more, of which so many are handed out."""


def counts(subnet: SubnetKind) -> bool:
    """Whether the subnet's pools are capacity: in inventory, and claimed by whoever holds an address of them.

    They are where any server's port can be given one: not where addresses follow from MACs, nor where service types
    keep servers out. It does not depend on the port: what counts is claimed by routers' and DHCP ports too.
    """
    return not uses.is_automatic(subnet) and uses.is_for_servers(subnet)


def claimed_by_ports(subnet: SubnetKind) -> bool:
    """Whether ports' own claims count what is held of the pools: what is of a flat network's, servers claim."""
    return counts(subnet) and subnet.cell is None


def totals(subnets: Iterable[Subnet]) -> dict[str, int]:
    """How many addresses of each resource class a provider with these subnets has; a class without any is left out.

    Subnets on their way out count no more.
    """
    found = dict.fromkeys(ADDRESS_CLASSES, 0)
    for subnet in subnets:
        if counts(subnet) and not subnet.deleting:
            found[uses.class_of(subnet.ip_version)] += addressing.count(subnet.pools)
    return {name: min(total, TOTAL_MAX) for name, total in found.items() if total > 0}


def reserved(source: ProviderSource) -> dict[str, int]:
    """Return how many addresses of each resource class unknown guests hold: of subnets that `totals` counts."""
    amounts = dict.fromkeys(ADDRESS_CLASSES, 0)
    for subnet in source.subnets:
        if counts(subnet) and not subnet.deleting:
            amounts[uses.class_of(subnet.ip_version)] += source.reserved.get(subnet.id, 0)
    return amounts


def classes(subnets: Iterable[SubnetKind]) -> tuple[str, ...]:
    """The resource classes of which a server's port claims one each on a provider with these subnets."""
    versions = {subnet.ip_version for subnet in subnets if counts(subnet) and not subnet.deleting}
    return tuple(name for name in ADDRESS_CLASSES if name in {uses.class_of(version) for version in versions})


def provider_state(source: ProviderSource) -> ProviderState | None:
    """The provider as it should be, whole; None when it has no addresses that count and should not exist.

    max_unit is the total: two NICs of one server may share a segment. reserved is what unknown guests hold: it may be
    more than is free, since the last unit may be promised to a build by then.
    """
    by_class, reserved_by_class = totals(source.subnets), reserved(source)
    if not by_class:
        return None
    return ProviderState(
        uuid=source.provider_uuid,
        name=segments.provider_name(source),
        inventories={
            name: Inventory(total=total, reserved=min(reserved_by_class[name], total), max_unit=total)
            for name, total in by_class.items()
        },
        traits=frozenset({SHARING}),
        placement_aggregates=frozenset({segments.host_aggregate(source).uuid}),
    )
