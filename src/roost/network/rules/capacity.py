"""Decides what the ledger should know: which addresses of a segment are capacity, and which of them a port claims.

A network without segments is like a segment. While a port's addresses change its claim is more: what the port has and
what it gets, so that neither can be somebody else's.
"""

from collections.abc import Iterable, Mapping

from roost.network.model.networks import Holdings, ProviderSource, Subnet, SubnetKind
from roost.network.model.ports import Address
from roost.network.rules import addressing, segments, uses
from roost.seams.addresses import count_capacity
from roost.seams.network import PortBind
from roost.seams.placement import (
    ADDRESS_CLASSES,
    SHARING,
    Allocations,
    ConsumerClaim,
    ConsumerType,
    Inventory,
    ProviderState,
    add_allocations,
)


def counts(subnet: SubnetKind) -> bool:
    """Return whether the subnet's pools are capacity: in inventory, and claimed by whoever holds an address of them.

    They are where any server's port can be given one: not where addresses follow from MACs, nor where service types
    keep servers out. It does not depend on the port: what counts is claimed by routers' and DHCP ports too.
    """
    return not uses.is_automatic(subnet) and uses.is_for_servers(subnet)


def claimed_by_ports(subnet: SubnetKind) -> bool:
    """Return whether ports' own claims count the pools' held addresses. Servers claim those of flat networks."""
    return counts(subnet) and not subnet.is_pool


def classes(subnets: Iterable[SubnetKind]) -> tuple[str, ...]:
    """Return the resource classes that a server's port claims on a provider with these subnets, one of each."""
    names = {uses.class_of(subnet.ip_version) for subnet in subnets if counts(subnet)}
    return tuple(name for name in ADDRESS_CLASSES if name in names)


def count_addresses(source: ProviderSource, coming: Mapping[str, int] = {}) -> dict[str, tuple[int, int]]:
    """Return resource class -> (total, reserved) of a provider; a class without addresses is left out.

    A subnet that is no capacity counts without pools. Addresses claimed while it was capacity are outside of them.
    coming: resource class -> free addresses of the pools that do not count yet.
    """
    counted: dict[str, tuple[int, int]] = {}
    for name in ADDRESS_CLASSES:
        pooled, claimed_outside, unclaimed_inside = -coming.get(name, 0), 0, 0
        for subnet in source.subnets:
            if uses.class_of(subnet.ip_version) != name:
                continue
            holdings = source.holdings.get(subnet.id, Holdings())
            claimed_outside += holdings.claimed_outside
            if counts(subnet):
                pooled += addressing.count(subnet.pools)
                unclaimed_inside += holdings.unclaimed_inside
            else:
                claimed_outside += holdings.claimed_inside
        counted[name] = count_capacity(
            pooled=pooled, claimed_outside=claimed_outside, unclaimed_inside=unclaimed_inside
        )
    return {name: amounts for name, amounts in counted.items() if amounts[0] > 0}


def provider_state(source: ProviderSource, coming: Mapping[str, int] = {}) -> ProviderState | None:
    """Return the provider as it should be, whole; None when it has no addresses that count and should not exist.

    max_unit is the total: two NICs of one server may share a segment. What nobody claims is reserved: it may be more
    than is free, since the last unit may be promised to a build by then. coming: as count_addresses has it.
    """
    counted = count_addresses(source, coming)
    if not counted:
        return None
    return ProviderState(
        uuid=source.provider_uuid,
        name=segments.provider_name(source),
        inventories={
            name: Inventory(total=total, reserved=reserved, max_unit=total)
            for name, (total, reserved) in counted.items()
        },
        traits=frozenset({SHARING}),
        placement_aggregates=frozenset({segments.host_aggregate(source).uuid}),
    )


def changes_capacity(before: Subnet, after: Subnet) -> bool:
    """Return whether the ledger must be told of a subnet's change."""
    return (before.pools, before.segment_id, counts(before)) != (after.pools, after.segment_id, counts(after))


def claim_of(addresses: Iterable[Address]) -> dict[str, dict[str, int]]:
    """Return the claim of a port with these addresses; empty if none of them is claimed."""
    numbers = ((item.provider_uuid, addressing.parse(item.address)) for item in addresses if item.claimed)
    return add_allocations(*({uuid: {uses.class_of(addressing.version_of(number)): 1}} for uuid, number in numbers))


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
