"""Host aggregates, and their mirror in placement: a host's provider is in the placement aggregates of its host's.

Aggregates that somebody else put a provider into are never touched.
"""

from collections.abc import Mapping, Sequence, Set

from roost.compute.errors import HostAggregateExists, HostAggregateNotFound, HostAggregatesBusy
from roost.compute.model.cloud import Host, HostAggregate
from roost.compute.rules.aggregates import decide_memberships, list_zones, zones_by_host
from roost.compute.rules.notifications import AggregateChange
from roost.compute.service.context import Compute
from roost.compute.service.notifications import announce_aggregates
from roost.compute.store import aggregates as store
from roost.platform.database import Connection, reading
from roost.platform.retries import retried
from roost.seams.compute import HostAggregateState

MIRROR_ROUNDS_MAX = 5

_list_provider_aggregates = reading(store.list_provider_aggregates)
_list_mirrored = reading(store.list_mirrored)


async def ensure_host_aggregates(compute: Compute, aggregates: Sequence[HostAggregateState]) -> None:
    """Create those that do not exist yet; by UUID. Raises HostAggregateExists when a name is another aggregate's."""
    by_uuid = {aggregate.uuid: aggregate for aggregate in aggregates}
    async with compute.database.transaction() as tx:
        uuids_known = await _known_uuids(compute, tx, list(by_uuid))
        taken = await store.insert_host_aggregates(tx, list(by_uuid.values()))
        if taken:
            raise HostAggregateExists(f"There are other host aggregates with the names {', '.join(taken)}.")
        await _announce(compute, tx, "create", by_uuid.keys() - uuids_known)


async def delete_host_aggregates(compute: Compute, uuids: Sequence[str]) -> None:
    """Delete them, then take their UUIDs off every provider; also off those that an earlier, cut off call left."""
    if not uuids:
        return
    async with compute.database.transaction() as tx:
        await _announce(compute, tx, "delete", set(uuids))
        await store.delete_host_aggregates(tx, uuids)
    providers_by_aggregate = await compute.placement.list_aggregate_providers(uuids)
    providers = {provider for members in providers_by_aggregate.values() for provider in members}
    if providers:
        await compute.placement.set_placement_aggregates(
            dict.fromkeys(sorted(providers), frozenset()), managed=frozenset(uuids)
        )


async def set_segment_aggregates(
    compute: Compute, aggregates_by_host: Mapping[str, frozenset[str]], *, managed: frozenset[str]
) -> None:
    """Put these hosts into these of the `managed` host aggregates and into no other managed one; then placement too.

    Placement is told even where nothing changed: an earlier call may have been cut off in between.
    """
    hosts = sorted(aggregates_by_host)
    async with compute.database.transaction() as tx:
        existing = await store.lock_host_aggregates(tx, managed)
        current = await store.list_memberships(tx, hosts, managed=existing)
        change = decide_memberships(current, aggregates_by_host, existing)
        await store.write_memberships(tx, added=change.added, removed=change.removed)
        await _announce(compute, tx, "add_host", {uuid for uuid, _ in change.added})
        await _announce(compute, tx, "remove_host", {uuid for uuid, _ in change.removed})
    await mirror_hosts(compute, hosts, managed=managed)


async def _known_uuids(compute: Compute, tx: Connection, uuids: Sequence[str]) -> set[str]:
    """Return those of the host aggregates that exist already; none where nobody is told of new ones."""
    if compute.outbox is None:
        return set()
    return {aggregate.uuid for aggregate in await store.list_host_aggregates(tx, uuids=uuids)}


async def _announce(compute: Compute, tx: Connection, change: AggregateChange, uuids: Set[str]) -> None:
    if compute.outbox is not None and uuids:
        await announce_aggregates(compute, tx, change, await store.list_host_aggregates(tx, uuids=sorted(uuids)))


@retried(HostAggregatesBusy, most=MIRROR_ROUNDS_MAX)
async def mirror_hosts(
    compute: Compute,
    hosts: Sequence[str],
    *,
    managed: frozenset[str] | None = None,
    leave: frozenset[str] | None = None,
) -> None:
    """Put the hosts' providers into those `managed` placement aggregates that mirror the hosts', and into no others.

    managed: None for all that Roost keeps. leave: those that a provider may be taken out of, None for all the managed.
    Each writer reads the state again after it wrote, so that of two writers none leaves an older state. Raises
    HostAggregatesBusy when the state changes every time.
    """
    if managed is None:
        managed = frozenset(await _list_mirrored(compute))
    if not managed:
        return
    state = await _list_provider_aggregates(compute, hosts, managed=managed)
    if not state:
        return
    await compute.placement.set_placement_aggregates(state, managed=managed if leave is None else leave)
    if state != await _list_provider_aggregates(compute, hosts, managed=managed):
        raise HostAggregatesBusy


list_host_aggregates = reading(store.list_host_aggregates)
list_with_metadata = reading(store.list_with_metadata)


async def list_hosts_by_zone(compute: Compute, hosts: Sequence[Host]) -> dict[str, list[Host]]:
    """Return zone -> those of the hosts that are in it, by name; zones of aggregates without hosts have none."""
    default = compute.settings.default_availability_zone
    aggregates = await list_with_metadata(compute)
    zones, named = zones_by_host(aggregates), list_zones(aggregates, default=default)
    by_zone: dict[str, list[Host]] = {zone: [] for zone in named}
    for host in hosts:
        by_zone[zones.get(host.name, default)].append(host)
    return by_zone if by_zone[default] or len(by_zone) == 1 else {k: v for k, v in by_zone.items() if k != default}


async def get_host_aggregate(compute: Compute, aggregate_id: int) -> HostAggregate:
    """Return the host aggregate with that number. Raises HostAggregateNotFound."""
    aggregates = await list_host_aggregates(compute, aggregate_id)
    if not aggregates:
        raise missing_aggregate(aggregate_id)
    return aggregates[0]


def missing_aggregate(aggregate_id: int | str) -> HostAggregateNotFound:
    """Return the refusal of what is no host aggregate's number."""
    return HostAggregateNotFound(f"Aggregate {aggregate_id} could not be found.")
