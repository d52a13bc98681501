"""Telling the ledger and the host aggregates what is true: recomputed, then set; one publisher at a time.

A change that adds capacity is committed first and published then. A change that takes some is published within its
transaction, in which the ledger agrees or refuses. So no state in between offers more than there is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress

from msgspec import Struct

from roost.network.errors import PublicationPending
from roost.network.model.networks import CELL_DEFAULT, PLAIN_NAME, Host, ProviderSource
from roost.network.model.ports import Port, PortFilter
from roost.network.rules import capacity, segments
from roost.network.rules.capacity import claim_of
from roost.network.service import Networks
from roost.network.store import addresses as address_rows
from roost.network.store import networks as store
from roost.network.store import ports as port_rows
from roost.network.store import publications
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.errors import RoostError
from roost.platform.repeat import at_once
from roost.seams.compute import HostAggregateState
from roost.seams.placement import Claimed, ConsumerClaim, ProviderState, Refused, Rule

BATCH_MAX = 500
LEASE_SHARE = 0.8
"""The share of its lease that a publisher may use. It has ended then before another begins."""

WAIT_S = 15.0
POLL_S = 0.02
ROUNDS_MAX = 10


async def publish(networks: Networks, provider_uuids: Sequence[str]) -> set[str]:
    """Return once the ledger knows what was committed of the providers before the call.

    Return the providers that should be deleted but are in use, so that they stay. Raises PublicationPending when
    another publisher is slow, after 15 s; the reconciler goes on then.
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


async def publish_due(networks: Networks, provider_uuids: Sequence[str]) -> set[str]:
    """Publish those of the providers that are due and leased by nobody, at most BATCH_MAX.

    Return the providers that should be deleted but are in use, so that they stay. Raises TimeoutError when the ledger
    or the host aggregates take longer than the lease allows.
    """
    owner, lease_s = networks.env.new_uuid(), networks.settings.publish_lease_s
    leased: dict[str, int] = {}
    try:
        async with networks.database.transaction() as tx:
            begun = asyncio.get_running_loop().time()  # not after the lease: this process may stall before it knows
            leased = await publications.lease(tx, provider_uuids, owner=owner, lease_s=lease_s, limit=BATCH_MAX)
        if not leased:
            return set()
        async with asyncio.timeout_at(begun + LEASE_SHARE * lease_s):
            stayed = await _tell(networks, list(leased))
        async with networks.database.transaction() as tx:
            await publications.finish(tx, leased | dict.fromkeys(stayed, 0), owner=owner)
            await publications.forget(tx, sorted(leased.keys() - stayed))
        return stayed
    except BaseException:
        with suppress(RoostError):  # the lease runs out if the database is away; who is cancelled stays cancelled
            async with networks.database.transaction() as tx:
                await publications.finish(tx, dict.fromkeys(leased, 0), owner=owner)
        raise


publish_now = at_once(publish_due, "publishing addresses")


class CapacityInUse(Exception):
    """Builds, or ports being made, have claims of these providers for more than the change would leave."""


class _PublishedMeanwhile(Exception):
    """A publisher is at work on one of the providers, or a claim that moves was changed: the change is repeated."""


class Taken(Struct, frozen=True, kw_only=True):
    """What a transaction that takes capacity has written.

    provider_uuids: the providers to be published. coming: provider UUID -> resource class -> how many addresses become
    free when it commits. moving: ports whose addresses are on another of the providers now.
    """

    provider_uuids: Sequence[str]
    coming: Mapping[str, Mapping[str, int]] = {}
    moving: Sequence[Port] = ()


async def take(
    networks: Networks, provider_uuids: Sequence[str], change: Callable[[Connection], Awaitable[Taken]]
) -> None:
    """Run `change`, commit it once the ledger agrees to the capacity that it leaves, and publish it.

    `change` may be run again, in a new transaction. A process that dies in between leaves a publication that is due.
    Raises what `change` raises, PublicationPending, and CapacityInUse; then nothing is changed.
    """
    async with networks.database.transaction() as tx:
        await publications.want(tx, provider_uuids)
    crash_point("subnet.after-begin")
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                with suppress(_PublishedMeanwhile):
                    # The ledger is called while rows are locked, as `releases` does, and on a connection apart.
                    async with networks.releasing, networks.database.transaction() as tx:  # R14
                        taken = await change(tx)
                        await _agree(networks, tx, taken)
                    break
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise PublicationPending from error
    crash_point("subnet.after-finish")
    await publish(networks, taken.provider_uuids)


async def _agree(networks: Networks, tx: Connection, taken: Taken) -> None:
    """Have the ledger agree to what the transaction leaves of the providers.

    Raises CapacityInUse when it does not, and _PublishedMeanwhile when a publisher holds a lease on one of them.
    """
    uuids = sorted(taken.provider_uuids)
    if await publications.want(tx, uuids):  # it locks their rows: nobody begins to publish them
        raise _PublishedMeanwhile
    sources = {source.provider_uuid: source for source in await store.list_sources(tx, uuids)}
    states = [_state(uuid, sources.get(uuid), taken.coming.get(uuid, {})) for uuid in uuids]
    crash_point("subnet.before-agreement")
    if not taken.moving:
        if await networks.placement.fit_providers(states):
            raise CapacityInUse
    elif not await _reshape(networks, states, taken.moving):
        raise CapacityInUse
    crash_point("subnet.after-agreement")


def _state(uuid: str, source: ProviderSource | None, coming: Mapping[str, int]) -> ProviderState:
    """Return the provider as it should be while the coming addresses do not count yet. Without a source it is empty."""
    state = capacity.provider_state(source, coming) if source else None
    name = segments.provider_name(source) if source else PLAIN_NAME.format(uuid)
    return state or ProviderState(uuid=uuid, name=name, inventories={})


async def _reshape(networks: Networks, states: Sequence[ProviderState], moving: Sequence[Port]) -> bool:
    """Set the providers, and move the claims of ports whose addresses are on them now, in one step (R11).

    Return False when claims of others are in the way. Raises _PublishedMeanwhile where a claim was changed meanwhile.
    """
    emptied = {state.uuid for state in states if not state.inventories}
    # A provider that is gone already would be made again, and nobody would be told to delete it.
    providers_known = await networks.placement.get_providers(sorted(emptied))
    consumers = await networks.placement.get_consumers([port.id for port in moving])
    claims: list[ConsumerClaim] = [
        consumers[port.id].claiming(claim_of(port.addresses))
        for port in moving
        if port.id in consumers and emptied & consumers[port.id].allocations.keys()
    ]
    setting = [state for state in states if state.uuid in providers_known or state.uuid not in emptied]
    answer = await networks.placement.reshape(setting, claims)
    if isinstance(answer, Refused) and any(item.rule is Rule.CONSUMER_GENERATION for item in answer.shortfalls):
        raise _PublishedMeanwhile
    return not isinstance(answer, Refused)


async def claim_with_capacity(
    networks: Networks, sources: Sequence[ProviderSource], claims: Sequence[ConsumerClaim]
) -> Claimed | Refused:
    """Set the inventories of the sources and make the claims, both in one step; return the ledger's answer."""
    states = [state for state in map(capacity.provider_state, sources) if state is not None]
    return await networks.placement.reshape(states, claims)


async def _follow_subnet(networks: Networks, provider_uuid: str) -> bool:
    """Move claims on this provider to that of its network's only subnet; return whether any moved.

    A process leaves such claims if it dies after it told the ledger that the subnet joins a segment, and before it
    commits that.
    """
    async with networks.database.transaction(snapshot=True) as tx:
        segments_read = await store.list_segments(tx, [provider_uuid])
        network_id = segments_read[0].network_id if segments_read else provider_uuid
        subnets = await store.list_subnets(tx, network_ids=[network_id])
        # It was on the network and is on a segment, or the other way round.
        if len(subnets) != 1 or bool(segments_read) == (subnets[0].segment_id is not None):
            return False
        (source,) = await store.list_sources(tx, [subnets[0].provider_uuid])
        port_ids = await address_rows.list_subnet_ports(tx, [subnets[0].id])
        moving = await port_rows.list_ports(tx, PortFilter(ids=tuple(port_ids)))
    if not moving:
        return False
    states = [_state(source.provider_uuid, source, {}), _state(provider_uuid, None, {})]
    with suppress(_PublishedMeanwhile):
        return await _reshape(networks, states, moving)
    return False


async def set_hosts(
    networks: Networks, physical_networks_by_host: Mapping[str, Sequence[str]], *, cells_by_host: Mapping[str, str] = {}
) -> None:
    """Write what the hosts reach, and put them in the host aggregates that follow. Other hosts stay as they are.

    cells_by_host: a host that it does not name is in the default cell. Raises PublicationPending when segments keep
    coming and going meanwhile.
    """
    names = sorted(physical_networks_by_host)
    reached = {name: frozenset(physical_networks_by_host[name]) for name in names}
    async with networks.database.transaction() as tx:
        await store.set_hosts(tx, [Host(name, reached[name], cells_by_host.get(name, CELL_DEFAULT)) for name in names])
    await _place_hosts(networks, names=names)


async def _place_hosts(
    networks: Networks, sources: Sequence[ProviderSource] | None = None, *, names: Sequence[str] | None = None
) -> None:
    """Make the sources' host aggregates, and put the hosts in them, again until nothing changes meanwhile.

    sources, names: None for all that there are by now. Raises PublicationPending when changes go on.
    """
    applied: tuple[Mapping[str, frozenset[str]], frozenset[str]] | None = None
    for _ in range(ROUNDS_MAX):
        async with networks.database.connection() as connection:
            sources_now = await store.list_sources(connection) if sources is None else sources
            hosts = await store.list_hosts(connection, names)
        aggregates = {item.uuid: item for item in map(segments.host_aggregate, sources_now)}
        by_host, managed = segments.aggregates_by_host(hosts, sources_now), frozenset(aggregates)
        if (by_host, managed) == applied:
            return
        # R12: a segment that went meanwhile may have lost its host aggregate before it was ensured here again.
        gone = applied[1] - managed if applied else frozenset()
        await networks.compute.delete_host_aggregates(sorted(gone))
        await networks.compute.ensure_host_aggregates(list(aggregates.values()))
        await networks.compute.set_segment_aggregates(by_host, managed=managed)
        applied = by_host, managed
    raise PublicationPending


async def _tell(networks: Networks, provider_uuids: Sequence[str]) -> set[str]:
    """Set host aggregates and providers as they should be. Return the providers that stay because they are in use."""
    async with networks.database.transaction(snapshot=True) as tx:
        sources = await store.list_sources(tx, provider_uuids)
    if sources:
        await _place_hosts(networks, sources)
    states = {source.provider_uuid: capacity.provider_state(source) for source in sources}
    crash_point("publish.before-inventory")
    await networks.placement.ensure_providers([state for state in states.values() if state is not None])
    empty = [uuid for uuid in provider_uuids if states.get(uuid) is None]
    stayed = set(await networks.placement.delete_providers(empty)) if empty else set()
    if any([await _follow_subnet(networks, uuid) for uuid in sorted(stayed)]):
        stayed = set(await networks.placement.delete_providers(sorted(stayed)))
    crash_point("publish.after-inventory")
    gone = [segments.segment_aggregate_uuid(uuid) for uuid in empty if uuid not in states and uuid not in stayed]
    await networks.compute.delete_host_aggregates(gone)
    if gone:
        await _drop_plain_aggregates(networks)
    return stayed


async def _drop_plain_aggregates(networks: Networks) -> None:
    """Delete the host aggregates of physical networks on which no network without segments is left."""
    states = await networks.compute.list_host_aggregates()
    plain = {uuid for uuid, item in states.items() if segments.is_plain_aggregate(HostAggregateState(uuid, item.name))}
    async with networks.database.transaction(snapshot=True) as tx:
        sources = await store.list_sources(tx)
    await drop_aggregates(networks, plain - {segments.host_aggregate(source).uuid for source in sources})


async def drop_aggregates(networks: Networks, uuids: Set[str]) -> list[str]:
    """Delete host aggregates. Those of their providers that exist by now become due for publication; return them."""
    if not uuids:
        return []
    await networks.compute.delete_host_aggregates(sorted(uuids))
    async with networks.database.transaction() as tx:
        sources = await store.list_sources(tx)
        needing = [source.provider_uuid for source in sources if segments.host_aggregate(source).uuid in uuids]
        await publications.want(tx, needing)
    return needing
