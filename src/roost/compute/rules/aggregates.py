"""What may change of host aggregates, and what follows from them for a host: its zone and its allocation ratios.

Source of the sentences and refusals: Nova, compute/api.py, AggregateAPI.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from roost.compute.model.cloud import HostAggregate
from roost.seams.placement import DISK_GB, MEMORY_MB, VCPU

Membership = tuple[str, str]
"""(host aggregate UUID, host name)."""

Memberships = Mapping[str, frozenset[str]]
"""Host name -> UUIDs of host aggregates that it is in."""

ZONE_KEY = "availability_zone"

RATIO_KEYS = {VCPU: "cpu_allocation_ratio", MEMORY_MB: "ram_allocation_ratio", DISK_GB: "disk_allocation_ratio"}
"""Resource class -> the metadata that says its allocation ratio on the members. Source: Nova, AggregateCoreFilter."""

RATIO = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")


class MembershipChange(Struct, frozen=True):
    """What to write, each sorted."""

    added: tuple[Membership, ...]
    removed: tuple[Membership, ...]


def decide_memberships(current: Memberships, desired: Memberships, managed: frozenset[str]) -> MembershipChange:
    """Return what turns `current` into `desired`.

    current: the named hosts' memberships. managed: the aggregates that the caller keeps and that exist; others that
    `desired` names are gone by now, and others in current are somebody else's: both are left out.
    """
    added: set[Membership] = set()
    removed: set[Membership] = set()
    for host, aggregates in desired.items():
        has, needs = current.get(host, frozenset()) & managed, aggregates & managed
        added.update((aggregate, host) for aggregate in needs - has)
        removed.update((aggregate, host) for aggregate in has - needs)
    return MembershipChange(tuple(sorted(added)), tuple(sorted(removed)))


def zone_of(aggregates: Sequence[HostAggregate], *, default: str) -> str:
    """Return the zone of a host that is in these aggregates."""
    return next((aggregate.metadata[ZONE_KEY] for aggregate in aggregates if ZONE_KEY in aggregate.metadata), default)


def zones_by_host(aggregates: Sequence[HostAggregate]) -> dict[str, str]:
    """Return host -> the zone that an aggregate puts it into; hosts of the default zone are left out."""
    return {
        host: aggregate.metadata[ZONE_KEY]
        for aggregate in aggregates
        if ZONE_KEY in aggregate.metadata
        for host in aggregate.hosts
    }


def list_zones(aggregates: Sequence[HostAggregate], *, default: str) -> dict[str, frozenset[str]]:
    """Return zone -> the hosts that aggregates put into it, by name; the default zone has all others as well."""
    zones: dict[str, frozenset[str]] = {default: frozenset()}
    for aggregate in aggregates:
        if zone := aggregate.metadata.get(ZONE_KEY):
            zones[zone] = zones.get(zone, frozenset()) | frozenset(aggregate.hosts)
    return dict(sorted(zones.items()))


def ratios_by_host(hosts: Sequence[str], aggregates: Sequence[HostAggregate]) -> dict[str, dict[str, float]]:
    """Return host -> resource class -> the allocation ratio that its aggregates say, the smallest of several."""
    ratios: dict[str, dict[str, float]] = {host: {} for host in hosts}
    for aggregate in aggregates:
        for resource_class, key in RATIO_KEYS.items():
            if key not in aggregate.metadata:
                continue
            ratio = float(aggregate.metadata[key])
            for host in ratios.keys() & set(aggregate.hosts):
                ratios[host][resource_class] = min(ratio, ratios[host].get(resource_class, ratio))
    return ratios


def protected_sentence(aggregate: HostAggregate) -> str | None:
    """Return why an operator may not change the aggregate, or None."""
    if aggregate.of_operator:
        return None
    return (
        f"Aggregate {aggregate.id} ({aggregate.name}) is of the hosts that reach a segment: the network service keeps "
        "it. It follows from the physical networks that the hosts' agents report; make another for your own groups."
    )


def metadata_problem(metadata: Mapping[str, str | None]) -> str | None:
    """Return why an aggregate cannot have this metadata, or None."""
    if ZONE_KEY in metadata and metadata[ZONE_KEY] is not None:
        zone = str(metadata[ZONE_KEY])
        if not zone.strip() or ":" in zone or len(zone) > 255:
            return f"availability_zone {zone!r}: expected 1 to 255 characters, none of them a colon."
    for key in RATIO_KEYS.values():
        ratio = metadata.get(key)
        if ratio is not None and (not RATIO.fullmatch(ratio) or not float(ratio) > 0):
            return f"{key} {ratio!r}: expected a number above 0, such as 1.5."
    return None


def refuse_zone_change(
    aggregate: HostAggregate,
    zone: str | None,
    others: Mapping[str, Sequence[HostAggregate]],
    servers: Mapping[str, int],
    *,
    default: str,
) -> str | None:
    """Return why the members of an aggregate cannot be in this zone from now on, or None. zone None: it names none.

    others: member -> the other aggregates that it is in. servers: member -> how many servers it has.
    """
    if zone == aggregate.metadata.get(ZONE_KEY):
        return None
    elsewhere = sorted({zone_of(aggregates, default="") for aggregates in others.values()} - {"", zone})
    if zone is not None and elsewhere:
        return f"One or more hosts already in availability zone(s) {elsewhere}"
    moving = [
        host
        for host, aggregates in others.items()
        if servers.get(host)
        and zone_of([aggregate, *aggregates], default=default) != (zone or zone_of(aggregates, default=default))
    ]
    return "One or more hosts contain instances in this zone" if moving else None


def refuse_host_added(
    aggregate: HostAggregate, host: str, others: Sequence[HostAggregate], servers: int, *, default: str
) -> str | None:
    """Return why a host with so many servers cannot come into the aggregate, or None. others: that it is in."""
    zone = aggregate.metadata.get(ZONE_KEY)
    if zone is None:
        return None
    elsewhere = zone_of(others, default="")
    if elsewhere not in ("", zone):
        return f"One or more hosts already in availability zone(s) {[elsewhere]}"
    return _refuse_new_zone(host, "added to", zone_of(others, default=default), zone, servers)


def refuse_host_removed(
    aggregate: HostAggregate, host: str, others: Sequence[HostAggregate], servers: int, *, default: str
) -> str | None:
    """Return why a host with so many servers cannot leave the aggregate, or None. others: that it stays in."""
    zone = aggregate.metadata.get(ZONE_KEY)
    if zone is None:
        return None
    return _refuse_new_zone(host, "removed from", zone, zone_of(others, default=default), servers)


def _refuse_new_zone(host: str, verb: str, old: str, new: str, servers: int) -> str | None:
    if old == new or not servers:
        return None
    return (
        f"Host {host} cannot be {verb} the aggregate: its availability zone would change from {old} to {new}, and it "
        f"has {servers} server{'s' if servers > 1 else ''}. Move them away first; shelve_offload and unshelve take a "
        "server to another zone."
    )
