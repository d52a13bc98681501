"""Operators' host aggregates: made, changed, deleted, and who is in them.

A change of members is one transaction, which also has the members published again: placement is told at once, and where
it cannot be reached, by the next round that publishes hosts. So no answer waits for placement, and no failure is lost.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import asyncpg
import structlog

from roost.compute.errors import (
    HostAggregateExists,
    HostAggregateProtected,
    HostAggregateRefused,
    HostNotFound,
    HostNotInAggregate,
    HostZoneConflict,
)
from roost.compute.model.cloud import HostAggregate
from roost.compute.model.server import Requester
from roost.compute.rules import aggregates as rules
from roost.compute.rules.notifications import AggregateChange
from roost.compute.service.aggregates import get_host_aggregate, missing_aggregate
from roost.compute.service.context import Compute
from roost.compute.service.hosts import publish_hosts
from roost.compute.service.notifications import announce_aggregates
from roost.compute.store import aggregates as store
from roost.compute.store import hosts as hosts_store
from roost.platform.database import Connection
from roost.platform.errors import RoostError, reason_of

MIRROR_TIMEOUT_S = 4.0
"""A change is answered within 5 s, whatever placement does."""

log = structlog.get_logger()


async def create_aggregate(compute: Compute, name: str, zone: str | None, by: Requester | None = None) -> HostAggregate:
    """Make an empty aggregate. Raises HostAggregateRefused for the zone's name, HostAggregateExists."""
    metadata = {} if zone is None else {rules.ZONE_KEY: zone}
    _raise(rules.metadata_problem(metadata))
    async with compute.database.transaction() as tx:
        aggregate_id = await store.insert_host_aggregate(tx, compute.env.new_uuid(), name, metadata)
        if aggregate_id is None:
            raise HostAggregateExists(f"Aggregate {name} already exists.")
        await _announce(compute, tx, "create", aggregate_id, by)
    return await get_host_aggregate(compute, aggregate_id)


async def update_aggregate(
    compute: Compute,
    aggregate_id: int,
    *,
    name: str | None = None,
    metadata: Mapping[str, str | None] | None = None,
    by: Requester | None = None,
) -> HostAggregate:
    """Change its name, and set or, with None, remove metadata.

    Raises HostAggregateNotFound, HostAggregateProtected, HostAggregateRefused (a zone that its members cannot be in, a
    ratio that is none), HostAggregateExists.
    """
    changes = metadata or {}
    async with compute.database.transaction() as tx:
        aggregate = await _lock(tx, aggregate_id)
        _raise(rules.metadata_problem(changes))
        after = {key: value for key, value in {**aggregate.metadata, **changes}.items() if value is not None}
        members = await store.lock_hosts(tx, aggregate.hosts)
        others = await _list_others(tx, aggregate, members)
        servers = await hosts_store.count_servers(tx, members)
        _raise(
            rules.refuse_zone_change(
                aggregate,
                after.get(rules.ZONE_KEY),
                others,
                servers,
                default=compute.settings.default_availability_zone,
            ),
            f"Cannot change aggregate {aggregate_id}. Reason: ",
        )
        try:
            await store.update_host_aggregate(tx, aggregate_id, name or aggregate.name, after)
        except asyncpg.UniqueViolationError:
            raise HostAggregateExists(f"Aggregate {name} already exists.") from None
        await _announce(compute, tx, "update_prop" if name else "update_metadata", aggregate_id, by)
        ratios_change = any(after.get(key) != aggregate.metadata.get(key) for key in rules.RATIO_KEYS.values())
        if ratios_change:
            await store.want_hosts(tx, members)
    if ratios_change:
        await _publish(compute, aggregate, members)
    return await get_host_aggregate(compute, aggregate_id)


async def delete_aggregate(compute: Compute, aggregate_id: int, by: Requester | None = None) -> None:
    """Delete it, and its UUID from every provider.

    Raises HostAggregateNotFound, HostAggregateProtected, HostAggregateRefused while hosts are in it.
    """
    async with compute.database.transaction() as tx:
        aggregate = await _lock(tx, aggregate_id)
        if aggregate.hosts:
            _raise(f"Cannot delete aggregate {aggregate_id}. Reason: Host aggregate is not empty.")
        await _announce(compute, tx, "delete", aggregate_id, by)
        await store.retire_host_aggregate(tx, aggregate_id)
    try:
        await _in_time(clear_providers(compute, [aggregate.uuid]))
    except (RoostError, TimeoutError, OSError) as error:
        _warn(aggregate, (), error)


async def clear_providers(compute: Compute, uuids: Sequence[str]) -> int:
    """Take every provider out of these placement aggregates; return how many were in one."""
    members = await compute.placement.list_aggregate_providers(uuids)
    providers = sorted({provider for group in members.values() for provider in group})
    if providers:
        await compute.placement.set_placement_aggregates(
            dict.fromkeys(providers, frozenset()), managed=frozenset(uuids)
        )
    return len(providers)


async def add_host(compute: Compute, aggregate_id: int, host: str, by: Requester | None = None) -> HostAggregate:
    """Put a host into it.

    Raises HostAggregateNotFound, HostNotFound, HostAggregateProtected, HostAggregateExists (it is in it already) and
    HostZoneConflict (it would be in two zones, or its servers would change theirs).
    """
    async with compute.database.transaction() as tx:
        aggregate = await _lock(tx, aggregate_id)
        if not await store.lock_hosts(tx, [host]):
            raise HostNotFound(f"Compute host {host} could not be found.")
        if host in aggregate.hosts:
            raise HostAggregateExists(f"Aggregate {aggregate_id} already has host {host}.")
        await _refuse_conflict(compute, tx, aggregate, host, rules.refuse_host_added, "add host to")
        await store.write_memberships(tx, added=[(aggregate.uuid, host)], removed=[])
        await _announce(compute, tx, "add_host", aggregate_id, by)
        await store.want_hosts(tx, [host])
    await _publish(compute, aggregate, [host])
    return await get_host_aggregate(compute, aggregate_id)


async def remove_host(compute: Compute, aggregate_id: int, host: str, by: Requester | None = None) -> HostAggregate:
    """Take a host out of it, also one that is no more.

    Raises HostAggregateNotFound, HostAggregateProtected, HostNotInAggregate and HostZoneConflict (its servers would
    change their zone).
    """
    async with compute.database.transaction() as tx:
        aggregate = await _lock(tx, aggregate_id)
        await store.lock_hosts(tx, [host])
        if host not in aggregate.hosts:
            raise HostNotInAggregate(
                f"Cannot remove host {host} in aggregate {aggregate_id}: Aggregate {aggregate_id} has no host {host}."
            )
        await _refuse_conflict(compute, tx, aggregate, host, rules.refuse_host_removed, "remove host from")
        await store.write_memberships(tx, added=[], removed=[(aggregate.uuid, host)])
        await _announce(compute, tx, "remove_host", aggregate_id, by)
        await store.want_hosts(tx, [host])
    await _publish(compute, aggregate, [host])
    return await get_host_aggregate(compute, aggregate_id)


async def _lock(tx: Connection, aggregate_id: int) -> HostAggregate:
    aggregate = await store.lock_host_aggregate(tx, aggregate_id)
    if aggregate is None:
        raise missing_aggregate(aggregate_id)
    if sentence := rules.protected_sentence(aggregate):
        raise HostAggregateProtected(sentence)
    return aggregate


async def _announce(
    compute: Compute, tx: Connection, change: AggregateChange, aggregate_id: int, by: Requester | None
) -> None:
    """Notify of the change, where anybody is notified."""
    if compute.outbox is not None:
        await announce_aggregates(compute, tx, change, await store.list_host_aggregates(tx, aggregate_id), by)


async def _list_others(
    tx: Connection, aggregate: HostAggregate, hosts: Sequence[str]
) -> dict[str, list[HostAggregate]]:
    """Return host -> the other aggregates with metadata that it is in."""
    known = [other for other in await store.list_with_metadata(tx) if other.id != aggregate.id]
    return {host: [other for other in known if host in other.hosts] for host in hosts}


def _raise(problem: str | None, prefix: str = "") -> None:
    if problem is not None:
        raise HostAggregateRefused(prefix + problem)


async def _refuse_conflict(
    compute: Compute, tx: Connection, aggregate: HostAggregate, host: str, rule: Callable[..., str | None], what: str
) -> None:
    """Raise HostZoneConflict where the rule has something against the host's change."""
    others = (await _list_others(tx, aggregate, [host]))[host]
    servers = (await hosts_store.count_servers(tx, [host])).get(host, 0)
    problem = rule(aggregate, host, others, servers, default=compute.settings.default_availability_zone)
    if problem is not None:
        raise HostZoneConflict(f"Cannot {what} aggregate {aggregate.id}. Reason: {problem}")


async def _publish(compute: Compute, aggregate: HostAggregate, hosts: Sequence[str]) -> None:
    """Publish the members to placement now; what cannot be told stays wanted, and is told by a later round."""
    try:
        await _in_time(publish_hosts(compute, hosts))
    except (RoostError, TimeoutError, OSError) as error:
        _warn(aggregate, hosts, error)


async def _in_time(telling: Coroutine[Any, Any, object]) -> None:
    """Wait for what is told to placement for MIRROR_TIMEOUT_S. Raises TimeoutError, and whatever it raised until then.

    A write to a placement elsewhere that is cut off waits for its answer: it ends by itself, and nobody waits for it.
    """
    task = asyncio.ensure_future(telling)
    try:
        done, _ = await asyncio.wait([task], timeout=MIRROR_TIMEOUT_S)
    finally:
        if not task.done():
            _ENDING.add(task)
            task.add_done_callback(_end)
            task.cancel()
    if not done:
        raise TimeoutError
    task.result()


_ENDING: set[asyncio.Future[object]] = set()


def _end(task: asyncio.Future[object]) -> None:
    _ENDING.discard(task)
    if not task.cancelled():
        task.exception()  # placement is told again anyhow


def _warn(aggregate: HostAggregate, hosts: Sequence[str], error: BaseException) -> None:
    log.warning(
        "placement could not be told of a host aggregate; it will be, or run roost-manage sync_placement_aggregates",
        aggregate=aggregate.name,
        hosts=", ".join(hosts) or None,
        reason=str(error) if isinstance(error, RoostError) else reason_of(error),
    )
