"""Decides which addresses consumers keep when an unmodified Nova moves their claims: it knows nothing of addresses.

An address belongs to the server as long as its port does, whichever host it is on: no claim of Nova's moves one to a
migration or drops one. A server that claims an address which its port had claimed by itself takes that claim over.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from roost.placement.model import LockedLedger
from roost.platform.grouping import grouped
from roost.seams.neutron import NeutronPort
from roost.seams.placement import IPV4_ADDRESS, ClaimGroup, ConsumerClaim, Refused, Rule
from roost.seams.service_types import COMPUTE_OWNER

Addresses = Mapping[str, int]
"""Segment's provider UUID -> how many addresses."""


def keep_addresses(
    group: ClaimGroup, addresses_held: Mapping[str, Addresses], port_releases: Mapping[str, Sequence[ConsumerClaim]]
) -> ClaimGroup:
    """Return the group in which each consumer keeps the addresses that it holds, and ports give theirs to servers.

    addresses_held: by consumer. port_releases: by server, of what its ports claim by themselves. What one consumer
    would drop and another one take stays where it is. A group that claims nothing at all is a release, and stays one.
    Where Neutron was asked (`nics_addressed`) only the other NICs add to the claim, and its ports keep theirs.
    """
    if not any(claim.allocations for claim in group.consumers):
        return group
    dropped: dict[str, int] = {}
    for claim in group.consumers:
        for segment, amount in addresses_held.get(claim.consumer_uuid, {}).items():
            dropped[segment] = dropped.get(segment, 0) + max(amount - _asked(claim, segment), 0)
    claims: list[ConsumerClaim] = []
    taken_over: list[ConsumerClaim] = []
    for claim in group.consumers:
        kept = addresses_held.get(claim.consumer_uuid, {})
        allocations = {uuid: dict(resources) for uuid, resources in claim.allocations.items()}
        for segment in {*kept, *(uuid for uuid in claim.allocations if _asked(claim, uuid))}:
            amount_asked, amount_kept = _asked(claim, segment), kept.get(segment, 0)
            releases = port_releases.get(claim.consumer_uuid, ())
            if segment in group.nics_addressed:
                amount_asked = amount_kept + max(amount_asked - group.nics_addressed[segment], 0)
                releases = ()
            moved = min(max(amount_asked - amount_kept, 0), dropped.get(segment, 0))
            dropped[segment] = dropped.get(segment, 0) - moved
            amount = max(amount_asked - moved, amount_kept)
            _set(allocations, segment, amount)
            taken_over += _take_over(releases, addresses_held, segment, amount - amount_kept)
        claims.append(replace(claim, allocations=allocations))
    return replace(group, consumers=(*claims, *taken_over))


def keep_all_addresses(
    groups: Sequence[ClaimGroup], locked: LockedLedger, server_by_port: Mapping[str, str]
) -> list[ClaimGroup]:
    """Return the groups, of those whose addresses stay as `keep_addresses` has them.

    server_by_port: of the locked consumers that are ports of the groups' servers.
    """
    if not any(group.addresses_stay for group in groups):
        return list(groups)
    uuids = {provider_id: uuid for uuid, provider_id in locked.provider_ids.items()}
    class_id = locked.resource_class_ids.get(IPV4_ADDRESS)
    addresses_held = {
        consumer_uuid: {uuids[key[0]]: amount for key, amount in row.allocations.items() if key[1] == class_id}
        for consumer_uuid, row in locked.consumers.items()
    }
    port_releases = grouped(
        (server_uuid, _release(port_uuid, locked.consumers[port_uuid].generation))
        for port_uuid, server_uuid in sorted(server_by_port.items())
        if port_uuid in locked.consumers
    )
    return [keep_addresses(group, addresses_held, port_releases) if group.addresses_stay else group for group in groups]


def find_short_segments(group: ClaimGroup, refused: Refused) -> set[str]:
    """Return the segments on which a server that moves is short of addresses, if it is short of nothing else.

    None for a consumer that must be new: while a server is booted, Neutron knows no ports of it.
    """
    shortfalls = refused.shortfalls
    if not group.addresses_stay or len(group.consumers) > 1 or group.consumers[0].generation is None:
        return set()
    if {(shortfall.rule, shortfall.resource_class) for shortfall in shortfalls} != {(Rule.CAPACITY, IPV4_ADDRESS)}:
        return set()
    return {shortfall.provider_uuid for shortfall in shortfalls}


def count_nics(ports: Sequence[NeutronPort], server_uuid: str, only_segments: Mapping[str, str]) -> dict[str, int]:
    """Return segment -> how many ports of a server have an IPv4 address there. only_segments: by network."""
    return Counter(
        only_segments[port.network_id]
        for port in ports
        if port.device_id == server_uuid
        and port.device_owner.startswith(COMPUTE_OWNER)
        and port.network_id in only_segments
        and any(":" not in address for _, address in port.addresses)
    )


def with_whole_units(locked: LockedLedger) -> tuple[LockedLedger, frozenset[int]]:
    """Return the ledger in which one claim may take all of a segment's addresses, and the ids of the segments.

    Neutron says a max_unit of 1, and a server may have two NICs on a segment.
    """
    class_id = locked.resource_class_ids.get(IPV4_ADDRESS)
    inventories = {
        key: row._replace(max_unit=max(row.max_unit, row.capacity)) if key[1] == class_id else row
        for key, row in locked.inventories.items()
    }
    segment_ids = frozenset(provider_id for provider_id, held_class_id in inventories if held_class_id == class_id)
    return replace(locked, inventories=inventories), segment_ids


def _release(port_uuid: str, generation: int) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=port_uuid, generation=generation, consumer_type=None, project_id="", user_id="", allocations={}
    )


def _asked(claim: ConsumerClaim, segment: str) -> int:
    return claim.allocations.get(segment, {}).get(IPV4_ADDRESS, 0)


def _set(allocations: dict[str, dict[str, int]], segment: str, amount: int) -> None:
    resources = allocations.setdefault(segment, {})
    resources[IPV4_ADDRESS] = amount
    if not amount:
        del resources[IPV4_ADDRESS]
    if not resources:
        del allocations[segment]


def _take_over(
    port_releases: Sequence[ConsumerClaim], addresses_held: Mapping[str, Addresses], segment: str, amount: int
) -> list[ConsumerClaim]:
    """Return the releases of ports' claims on a segment, whole ones, up to an amount of addresses."""
    releases = []
    for release in port_releases:
        addresses = addresses_held[release.consumer_uuid]
        if addresses.keys() == {segment} and addresses[segment] <= amount:
            releases.append(release)
            amount -= addresses[segment]
    return releases
