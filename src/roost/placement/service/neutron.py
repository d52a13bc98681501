"""The ledger's rounds with Neutron: read what is, decide what should be, write what differs. Twice does nothing.

A round is made of changes that stand alone, so one that is cut off anywhere leaves less for the next. What somebody
else wrote meanwhile is not overwritten: each write names the generation that was read; the next round looks again.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roost.placement.errors import ConcurrentUpdate, InventoryInUse, ReshapeProviderNotFound
from roost.placement.model import NameKind, ProviderRow
from roost.placement.rules.drift import CLAIM_PORTLESS, INVENTORY_UNLIKE_POOLS, PORT_UNCLAIMED
from roost.placement.rules.neutron import (
    AddressFigures,
    Change,
    NeutronState,
    PortChange,
    SegmentChange,
    Surplus,
    decide_changes,
    sum_addresses,
)
from roost.placement.rules.neutron_sight import (
    Exchange,
    KeptFigures,
    NetworkCounts,
    Sight,
    closes,
    describe,
    find_shortages,
    find_whole_segments,
    gives_back,
    limit_to_believed,
    list_networks_by_segment,
    mark_deleted,
    pair_claims,
)
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger
from roost.placement.service.names import find_ids
from roost.placement.service.neutron_view import NeutronView
from roost.placement.service.reshape import NewInventories, reshape
from roost.placement.store import neutron as neutron_store
from roost.placement.store import providers as providers_store
from roost.platform.audit import Check, Finding
from roost.platform.database import Connection
from roost.platform.drift import Drift
from roost.platform.grouping import grouped
from roost.seams.neutron import GET_SEGMENT, GET_SEGMENT_ID, NeutronClient, NeutronPartial
from roost.seams.placement import (
    IPV4_ADDRESS,
    Allocations,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    ConsumerType,
    Refused,
    subtract_allocations,
)

NOBODY = "00000000-0000-0000-0000-000000000000"


class Round(Struct, frozen=True, kw_only=True):
    """What a round found and did. drifts: `repaired` where it was written. ports, segments: that Neutron has.

    unpublished: segments with IPv4 subnets for which Neutron has published no provider. sight: what it may see.
    """

    drifts: Sequence[Drift]
    segments: int
    ports: int
    unpublished: Sequence[str]
    sight: Sight


async def run_round(ledger: Ledger, neutron: NeutronClient, view: NeutronView, *, dry_run: bool = False) -> Round:
    """Make the ledger agree with Neutron, or only say what would be changed.

    Raises NeutronUnavailable, NeutronPartial, DatabaseUnavailable; what was written until then stays, and the next
    round goes on.
    """
    began_at_s = view.clock()
    try:
        seen = await _look(ledger, neutron, view)
    except NeutronPartial as error:
        neutron.forget_token()
        if not dry_run:
            await _keep_fault(ledger, user=neutron.who_asks(), fault=str(error), segments=view.segments_seen)
        raise
    writable = [change for change in seen.changes.values() if change is not None]
    done = set[Change]() if dry_run else await _apply(ledger, seen.providers, writable)
    view.note(seen.state, began_at_s)
    if not dry_run:
        await _keep_figures(ledger, sum_addresses(seen.state), seen.sight)
    return Round(
        drifts=[replace(change.drift(), repaired=change in done) for change in seen.changes],
        segments=len(seen.state.segments),
        ports=len(seen.state.ports),
        unpublished=seen.unpublished,
        sight=seen.sight,
    )


class _Seen(Struct, frozen=True):
    """What a round found. changes: what differs -> what may be written of it, None for nothing."""

    state: NeutronState
    providers: Mapping[str, ProviderRow]
    changes: Mapping[Change, Change | None]
    unpublished: Sequence[str]
    sight: Sight


async def _look(ledger: Ledger, neutron: NeutronClient, view: NeutronView) -> _Seen:
    """Read Neutron's lists, then the ledger, then Neutron's own count. Raises NeutronPartial, NeutronUnavailable."""
    state = await view.read(neutron)
    providers, changes = await _decide(ledger, state, view)
    networks = list_networks_by_segment(state, providers)
    if not state.segments and networks:
        hidden = f"Neutron shows {neutron.who_asks()} no segment, though the ledger knows {len(networks)}"
        raise NeutronPartial(hidden, GET_SEGMENT, GET_SEGMENT_ID)
    network_ids = {networks[uuid] for uuid in providers if uuid in networks}
    if not view.was_full:
        network_ids &= {networks.get(change.segment_uuid) for change in changes if gives_back(change) or closes(change)}
    # One that exists is among them: if none is counted, Roost may not ask.
    network_ids |= {min(segment.network_id for segment in state.segments)} if state.segments else set()
    counts = await neutron.count_addresses(sorted(network_ids))
    if view.was_full:
        await _refuse_hidden(neutron, view, state, counts)
    changes = [mark_deleted(change, networks, network_ids - counts.keys() if counts else ()) for change in changes]
    whole = find_whole_segments(networks, state, counts)
    unpublished = sorted({subnet.segment_id for subnet in state.subnets if subnet.segment_id} - providers.keys())
    unbelieved = {change.segment_uuid for change in changes if gives_back(change)} - whole
    may_count = bool(counts) or not network_ids
    sight = describe(
        state, user=neutron.who_asks(), may_count=may_count, unpublished=unpublished, unbelieved=unbelieved
    )
    judged = {change: limit_to_believed(change, whole) for change in changes}
    return _Seen(state, providers, judged, unpublished, sight)


async def _refuse_hidden(neutron: NeutronClient, view: NeutronView, state: NeutronState, counts: NetworkCounts) -> None:
    """Raise NeutronPartial where what Neutron has counted is not shown: not before the count, and not after it."""
    if not find_shortages(state, counts):
        return
    shortages = find_shortages(await view.read_again(neutron, state), counts)
    if shortages:
        first, who = shortages[0], neutron.who_asks()
        says = f"Neutron counts {first.counted} addresses on subnet {first.subnet_id}"
        if first.shown is None:
            raise NeutronPartial(f"{says}, and does not show {who} the subnet", "get_subnet")
        raise NeutronPartial(f"{says}, and shows {who} ports with {first.shown} of them", "get_port")


async def _keep_figures(ledger: Ledger, figures: AddressFigures, sight: Sight) -> None:
    """Keep what this round saw where every process can read it."""
    async with ledger.database.connection() as connection:
        rounds_unbelieved = (await _get_figures(connection))[0].sight.rounds_unbelieved + bool(sight.note())
        sight = replace(sight, rounds_unbelieved=rounds_unbelieved)
        kept = KeptFigures(figures.subnets, figures.ports_without_address, sight)
        await neutron_store.set_figures(connection, msgspec.json.encode(kept).decode())


async def _keep_fault(ledger: Ledger, *, user: str, fault: str, segments: int) -> None:
    """Keep why a round was refused, beside the figures of the last one that was not, which stay as old as they are."""
    async with ledger.database.connection() as connection:
        before, _ = await _get_figures(connection)
        rounds_unbelieved = before.sight.rounds_unbelieved + 1
        sight = replace(before.sight, user=user, fault=fault, segments=segments, rounds_unbelieved=rounds_unbelieved)
        await neutron_store.change_figures(connection, msgspec.json.encode(replace(before, sight=sight)).decode())


async def read_address_figures(ledger: Ledger) -> tuple[KeptFigures, float | None]:
    """Return what the last round saw of addresses, whichever process did it, and how many seconds ago it ended.

    Nothing, and None, before the first. Its sight is of the last round that began, also of one that was refused.
    """
    async with ledger.database.connection() as connection:
        return await _get_figures(connection)


async def _get_figures(connection: Connection) -> tuple[KeptFigures, float | None]:
    kept = await neutron_store.get_figures(connection)
    if kept is None:
        return KeptFigures(), None
    text, age_s = kept
    return msgspec.json.decode(text, type=KeptFigures), age_s


async def _decide(
    ledger: Ledger, state: NeutronState, view: NeutronView
) -> tuple[Mapping[str, ProviderRow], list[Change]]:
    async with ledger.database.transaction(snapshot=True) as tx:
        classes = await find_ids(ledger, tx, NameKind.RESOURCE_CLASS, {IPV4_ADDRESS})
        # Also what was a segment: Neutron deletes a provider once, and not while anything is claimed of it.
        uuids = sorted({segment.id for segment in state.segments} | await neutron_store.list_known_segments(tx))
        rows = await providers_store.list_by_uuid(tx, uuids)
        claims = await neutron_store.list_address_claims(tx, uuids, resource_class_id=classes[IPV4_ADDRESS])
    providers = {row.uuid: row for row in rows}
    return providers, decide_changes(state, providers, claims, seen=view.seen(), grace_s=view.grace_s)


async def _apply(ledger: Ledger, providers: Mapping[str, ProviderRow], changes: Sequence[Change]) -> set[Change]:
    """Write the changes; returns those that are written. What changed since it was read is left for the next round.

    What takes addresses away comes first. A claim that is returned goes in one write with the claims of ports that have
    its addresses now, so that nobody is offered them in between.
    """
    segments = [change for change in changes if isinstance(change, SegmentChange)]
    ports = [change for change in changes if isinstance(change, PortChange)]
    surpluses = [change for change in changes if isinstance(change, Surplus)]
    done: set[Change] = set()
    for change in segments:
        if not gives_back(change) and await _set_inventory(ledger, providers[change.segment_uuid], change, []):
            done.add(change)
    done |= await _exchange(ledger, pair_claims(surpluses, ports))
    ports_by_segment = grouped((port.need.segment_uuid, port) for port in ports if port not in done)
    for change in segments:
        if gives_back(change):
            with_claims = ports_by_segment.get(change.segment_uuid, [])
            if await _set_inventory(ledger, providers[change.segment_uuid], change, with_claims):
                done |= {change, *with_claims}
    for change in segments:
        row = providers[change.segment_uuid]
        if change.network_id is None:
            if not await _leave_network(ledger, row, is_deleted=change.is_deleted):
                done.discard(change)
        elif change.network_before != change.network_id:
            await _set_network(ledger, row, change.network_id)
    return done | await _claim_ports(ledger, [port for port in ports if port not in done])


async def _leave_network(ledger: Ledger, row: ProviderRow, *, is_deleted: bool) -> bool:
    """Write that a provider is of no network any more, or delete it; return False while anything is claimed of it.

    Rounds find it by its network until then. is_deleted: Neutron has deleted the network. It tries to delete the
    provider once, and is refused while a port's claim is on it.
    """
    async with ledger.database.transaction() as tx:
        await providers_store.lock_provider_rows(tx, [row.uuid])
        if is_deleted:
            return not await providers_store.delete_providers(tx, [row.id])
        return await neutron_store.leave_network(tx, row.id)


async def _set_network(ledger: Ledger, row: ProviderRow, network_id: str) -> None:
    async with ledger.database.transaction() as tx:
        if row.uuid in await providers_store.lock_provider_rows(tx, [row.uuid]):
            await neutron_store.set_networks(tx, {row.id: network_id})


async def _set_inventory(ledger: Ledger, row: ProviderRow, change: SegmentChange, ports: Sequence[PortChange]) -> bool:
    """Set a segment's inventory together with the claims of its ports, which may have been in `reserved` before."""
    if change.inventory is None or change.before == change.inventory:
        return True
    inventories = {row.uuid: NewInventories(row.generation, {**row.inventories, IPV4_ADDRESS: change.inventory})}
    try:
        answer = await reshape(ledger, inventories, [_port_claim(port) for port in ports])
    except (ConcurrentUpdate, ReshapeProviderNotFound, InventoryInUse):
        return False
    return isinstance(answer, Claimed)


async def _claim_ports(ledger: Ledger, ports: Sequence[PortChange]) -> set[Change]:
    """Claim for each port by itself. One that does not fit, as servers being built claim more, is tried again."""
    answers = await claims_service.claim(ledger, [ClaimGroup((_port_claim(port),)) for port in ports])
    return {port for port, answer in zip(ports, answers, strict=True) if not isinstance(answer, Refused)}


def _port_claim(port: PortChange) -> ConsumerClaim:
    need = port.need
    return ConsumerClaim(
        consumer_uuid=need.port_uuid,
        generation=port.generation,
        consumer_type=ConsumerType.PORT.value,
        project_id=need.project_id or NOBODY,
        user_id=need.server_uuid,
        allocations={need.segment_uuid: {IPV4_ADDRESS: need.amount}},
    )


async def _exchange(ledger: Ledger, exchanges: Mapping[str, Exchange]) -> set[Change]:
    """Return claims that no port has, by consumer, each together with the claims that take its addresses."""
    consumers = await claims_service.get_consumers(ledger, list(exchanges))
    changes: list[tuple[Change, ...]] = []
    groups = []
    for uuid, (surpluses, ports) in exchanges.items():
        if uuid in consumers and consumers[uuid].generation == surpluses[0].generation:
            gone: Allocations = {part.segment_uuid: {IPV4_ADDRESS: part.amount} for part in surpluses}
            claim = consumers[uuid].claiming(subtract_allocations(consumers[uuid].allocations, gone))
            groups.append(ClaimGroup((claim, *map(_port_claim, ports))))
            changes.append((*surpluses, *ports))
    answers = await claims_service.claim(ledger, groups)
    written = [parts for parts, answer in zip(changes, answers, strict=True) if isinstance(answer, Claimed)]
    return {change for parts in written for change in parts}


# The same as an audit: a round of its own, without what the poller remembers.

Judged = tuple[Change, Change | None]
"""What differs, and what may be written of it."""


async def _ask_neutron(ledger: Ledger) -> AsyncIterator[Sequence[None]]:
    if ledger.neutron is not None:
        yield (None,)


async def _find_differences(ledger: Ledger, _all: Sequence[None]) -> list[Finding[None, Judged]]:
    """Return what differs. Raises NeutronUnavailable."""
    assert ledger.neutron is not None
    seen = await _look(ledger, ledger.neutron, NeutronView(grace_s=ledger.claim_grace_s, zones=ledger.neutron_zones))
    return [Finding(change.drift(), None, (change, writable)) for change, writable in seen.changes.items()]


async def _repair(ledger: Ledger, findings: Sequence[Finding[None, Judged]]) -> set[str]:
    changes = [writable for _, writable in (finding.fact for finding in findings) if writable is not None]
    uuids = [change.segment_uuid for change in changes if isinstance(change, SegmentChange)]
    async with ledger.database.transaction(snapshot=True) as tx:
        rows = {row.uuid: row for row in await providers_store.list_by_uuid(tx, uuids)}
    done = await _apply(
        ledger, rows, [c for c in changes if not isinstance(c, SegmentChange) or c.segment_uuid in rows]
    )
    return {finding.drift.key for finding in findings if finding.fact[0] in done}


AGREEMENT = Check(
    pages=_ask_neutron,
    look=_find_differences,
    repairs={INVENTORY_UNLIKE_POOLS: _repair, PORT_UNCLAIMED: _repair, CLAIM_PORTLESS: _repair},
    twice=True,
)
