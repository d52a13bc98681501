"""Telling the ledger and the host aggregates what is true: recomputed, then set; one publisher at a time."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from roost.network.errors import PublicationPending
from roost.network.model.networks import CELL_DEFAULT, Host, ProviderSource
from roost.network.rules import inventory, segments
from roost.network.service import Networks, claim_moves
from roost.network.store import networks as store
from roost.network.store import publications, subnet_changes
from roost.network.store import subnets as subnet_rows
from roost.platform.crash import crash_point
from roost.platform.errors import RoostError
from roost.seams.compute import HostAggregateState

BATCH_MAX = 500
LEASE_SHARE = 0.8
"""How much of its lease a publisher may use: then it is done, or has given up, before another begins."""

MOVES_PER_S = 500
"""A lease is longer by so much where claims move with their inventories; several thousand move in a second."""

WAIT_S = 15.0
POLL_S = 0.02
ROUNDS_MAX = 10


async def publish(networks: Networks, provider_uuids: Sequence[str]) -> set[str]:
    """Return once the ledger knows what was committed of these before the call.

    Returns those that should go and stay, because they are still in use. Raises PublicationPending when another
    publisher is slow, after 15 s; the reconciler goes on then.
    """
    if not provider_uuids:
        return set()
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                stayed = await publish_due(networks, provider_uuids)
                async with networks.database.connection() as connection:
                    due = await publications.list_due(connection, provider_uuids)
                if not due - stayed:
                    return stayed
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise PublicationPending from error


async def publish_due(networks: Networks, provider_uuids: Sequence[str] | None = None) -> set[str]:
    """Publish those of the providers (None: any, up to a limit) that are due and that nobody else publishes.

    Returns those that should go and stay, because they are still in use. Raises TimeoutError when the ledger or the
    host aggregates take longer than the lease allows.
    """
    owner = networks.env.new_uuid()
    try:
        return await _publish_leased(networks, provider_uuids, owner)
    except BaseException:
        with suppress(RoostError):  # the lease runs out if the database is away; who is cancelled stays cancelled
            async with networks.database.transaction() as tx:
                await publications.give_up(tx, owner=owner)
        raise


async def _publish_leased(networks: Networks, provider_uuids: Sequence[str] | None, owner: str) -> set[str]:
    async with networks.database.transaction() as tx:
        moving = await subnet_changes.count_moving(tx, provider_uuids)
        lease_s = networks.settings.publish_lease_s + moving / MOVES_PER_S
        begun = asyncio.get_running_loop().time()  # not after the lease: this process may stall before it knows of it
        wanted = await publications.lease(tx, provider_uuids, owner=owner, lease_s=lease_s, limit=BATCH_MAX)
    if not wanted:
        return set()
    async with asyncio.timeout_at(begun + LEASE_SHARE * lease_s):
        stayed = await _tell(networks, list(wanted))
    told = {uuid: state for uuid, state in wanted.items() if uuid not in stayed}
    async with networks.database.transaction() as tx:
        await publications.lock(tx, list(wanted))
        await publications.finish(tx, told, owner=owner)
        await publications.give_up(tx, owner=owner)
        behind = {source.provider_uuid for source in await subnet_rows.list_sources(tx, list(told))}
        await publications.forget(tx, [uuid for uuid in told if uuid not in behind])
    return stayed


async def set_hosts(
    networks: Networks, physical_networks_by_host: Mapping[str, Sequence[str]], *, cells_by_host: Mapping[str, str] = {}
) -> None:
    """Keep what the hosts reach, and put them in the host aggregates that follow from it; no other host is touched.

    cells_by_host: a host that it does not name is in the default one. Raises PublicationPending when segments keep
    coming and going meanwhile.
    """
    names = sorted(physical_networks_by_host)
    reached = [msgspec.json.encode(sorted(set(physical_networks_by_host[name]))).decode() for name in names]
    async with networks.database.transaction() as tx:
        await store.set_hosts(tx, names, reached, [cells_by_host.get(name, CELL_DEFAULT) for name in names])
    applied: _Wanted | None = None
    for _ in range(ROUNDS_MAX):
        async with networks.database.connection() as connection:
            sources = await subnet_rows.list_sources(connection)
            wanted = _wanted(await store.list_hosts(connection, names), sources)
        if wanted == applied:
            return
        # R12: a segment that went meanwhile may have lost its host aggregate before it was ensured here again.
        gone = applied.managed - wanted.managed if applied else frozenset()
        await networks.compute.delete_host_aggregates(sorted(gone))
        await networks.compute.ensure_host_aggregates(_host_aggregates(sources))
        await networks.compute.set_segment_aggregates(wanted.by_host, managed=wanted.managed)
        applied = wanted
    raise PublicationPending


class _Wanted(Struct, frozen=True):
    """Which of the managed host aggregates each host should be in."""

    by_host: Mapping[str, frozenset[str]]
    managed: frozenset[str]


async def _tell(networks: Networks, provider_uuids: Sequence[str]) -> set[str]:
    """Make host aggregates and providers be as they should; returns those that should be less than is in use."""
    async with networks.database.transaction(snapshot=True) as tx:
        sources = await subnet_rows.list_sources(tx, provider_uuids)
        changing = await subnet_rows.list_subnets(tx, await subnet_changes.list_changing(tx, provider_uuids))
    await networks.compute.ensure_host_aggregates(_host_aggregates(sources))
    await _place_hosts(networks, sources)
    states = {source.provider_uuid: inventory.provider_state(source) for source in sources}
    crash_point("publish.before-inventory")
    told, refusing = await claim_moves.reshape(networks, provider_uuids, states, changing)
    done = told | refusing
    await networks.placement.ensure_providers(
        [state for uuid, state in states.items() if state is not None and uuid not in done]
    )
    empty = [uuid for uuid in provider_uuids if states.get(uuid) is None]
    stayed = set(await networks.placement.delete_providers(empty)) if empty else set()
    crash_point("publish.after-inventory")
    gone = [segments.segment_aggregate_uuid(uuid) for uuid in empty if uuid not in states and uuid not in stayed]
    await networks.compute.delete_host_aggregates(gone)
    if gone:
        await _drop_plain_aggregates(networks)
    return stayed | refusing


async def _drop_plain_aggregates(networks: Networks) -> None:
    """Delete the host aggregates of physical networks on which there is no network without segments any more.

    Such a network may be made meanwhile: then it is said again, which puts everything where it belongs.
    """
    there = await networks.compute.list_host_aggregates()
    found = [HostAggregateState(uuid, item.name) for uuid, item in there.items()]
    plain = {item.uuid for item in found if segments.is_plain_aggregate(item)}
    unneeded = plain - (await _plain_networks(networks)).keys()
    if not unneeded:
        return
    await networks.compute.delete_host_aggregates(sorted(unneeded))
    meanwhile = await _plain_networks(networks)
    again = [network_id for uuid in unneeded for network_id in meanwhile.get(uuid, ())]
    async with networks.database.transaction() as tx:
        await publications.want(tx, again)


async def _plain_networks(networks: Networks) -> dict[str, list[str]]:
    """Host aggregate -> the networks without segments that it is for."""
    async with networks.database.connection() as connection:
        network_ids = await subnet_rows.list_plain_networks(connection)
    return {segments.plain_aggregate(physical_network).uuid: ids for physical_network, ids in network_ids.items()}


async def _place_hosts(networks: Networks, sources: Sequence[ProviderSource]) -> None:
    """Put all hosts where they belong as far as the sources go, until nothing changed while that was done."""
    applied: _Wanted | None = None
    for _ in range(ROUNDS_MAX):
        async with networks.database.connection() as connection:
            wanted = _wanted(await store.list_hosts(connection), sources)
        if wanted == applied or not wanted.managed:
            return
        await networks.compute.set_segment_aggregates(wanted.by_host, managed=wanted.managed)
        applied = wanted
    raise PublicationPending


def _wanted(hosts: Sequence[Host], sources: Sequence[ProviderSource]) -> _Wanted:
    managed = frozenset(segments.host_aggregate(source).uuid for source in sources)
    return _Wanted(segments.aggregates_by_host(hosts, sources), managed)


def _host_aggregates(sources: Sequence[ProviderSource]) -> list[HostAggregateState]:
    return list({item.uuid: item for item in map(segments.host_aggregate, sources)}.values())
