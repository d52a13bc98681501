"""The ledger's rounds with Neutron: read what is, decide what should be, write what differs. Twice does nothing.

A round is made of changes that stand alone, so one that is cut off anywhere leaves less for the next. What somebody
else wrote meanwhile is not overwritten: each write names the generation that was read; the next round looks again.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import structlog
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
    Seen,
    SegmentChange,
    Surplus,
    decide_changes,
    is_believable,
    list_needs,
    sum_addresses,
    sum_needs,
)
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import CLAIM_GRACE_S, Ledger
from roost.placement.service.names import find_ids
from roost.placement.service.reshape import NewInventories, reshape
from roost.placement.store import neutron as neutron_store
from roost.placement.store import providers as providers_store
from roost.platform.audit import Check, Finding
from roost.platform.drift import Drift
from roost.seams.neutron import NeutronClient, NeutronNetwork, NeutronPort
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

log = structlog.get_logger()

NOBODY = "00000000-0000-0000-0000-000000000000"
DOUBTS_MAX = 100
"""Ports that may be deleted that are asked for by their ids; of more, all ports are read."""

Of = TypeVar("Of", SegmentChange, PortChange, Surplus)


@dataclass
class NeutronView:
    """What a poller knows of Neutron from round to round; without it, a round reads everything.

    full_s: how often all ports are read, as deleted ones are among no changes. clock: monotonic seconds.
    """

    full_s: float = 0.0
    grace_s: float = CLAIM_GRACE_S
    clock: Callable[[], float] = time.monotonic
    _ports: dict[str, NeutronPort] = field(default_factory=dict)
    _networks: Sequence[NeutronNetwork] = ()
    _changed_at: str = ""
    _full_at_s: float = float("-inf")
    _seen: Mapping[tuple[str, str], int] = field(default_factory=dict)
    _seen_at_s: float = 0.0
    _doubted: set[str] = field(default_factory=set)
    _doubts_of_all: int = 0
    _doubts_of_all_done: int = 0

    def doubt(self, port_id: str) -> None:
        """Ask Neutron at the next round whether that port is still there: somebody says that it is not."""
        if port_id in self._ports:
            self._doubted.add(port_id)

    def doubt_all(self) -> None:
        """Read all ports at the next round: some may be deleted, nobody says which."""
        self._doubts_of_all += 1

    async def read(self, neutron: NeutronClient) -> NeutronState:
        """Return all that Neutron says now. Raises NeutronUnavailable."""
        segments = await neutron.list_segments()
        subnets = await neutron.list_subnets()
        await self._read_ports(neutron)
        if {subnet.network_id for subnet in subnets} - {network.id for network in self._networks}:
            self._networks = await neutron.list_networks()
        return NeutronState(segments, subnets, list(self._ports.values()), self._networks)

    def seen(self) -> Seen:
        """Return what the round before saw."""
        return Seen(self._seen, self.clock() - self._seen_at_s)

    def note(self, state: NeutronState, at_s: float) -> None:
        """Keep what a round saw that began then."""
        self._seen, self._seen_at_s = sum_needs(list_needs(state)), at_s

    async def _read_ports(self, neutron: NeutronClient) -> None:
        now_s = self.clock()
        doubted, doubts_of_all = sorted(self._doubted), self._doubts_of_all
        is_full_due = (
            now_s - self._full_at_s >= self.full_s
            or len(doubted) > DOUBTS_MAX
            or doubts_of_all > self._doubts_of_all_done
        )
        if not is_full_due and self._changed_at:
            page = await neutron.list_ports(changed_since=self._changed_at)
            if page is not None:
                self._ports |= {port.id: port for port in page.ports}
                self._changed_at = max(self._changed_at, page.changed_at)
                await self._forget_deleted(neutron, doubted)
                return
        page = await neutron.list_ports()
        assert page is not None
        self._ports = {port.id: port for port in page.ports}
        self._networks = ()  # they are renamed now and then
        self._changed_at, self._full_at_s, self._doubts_of_all_done = page.changed_at, now_s, doubts_of_all
        self._doubted.difference_update(doubted)

    async def _forget_deleted(self, neutron: NeutronClient, doubted: Sequence[str]) -> None:
        """Forget the ports that are said to be deleted, as far as Neutron says so too."""
        if not doubted:
            return
        page = await neutron.list_ports(ids=doubted)
        assert page is not None
        for port_id in {*doubted} - {port.id for port in page.ports}:
            self._ports.pop(port_id, None)
        self._doubted.difference_update(doubted)


class Round(Struct, frozen=True, kw_only=True):
    """What a round found and did. drifts: `repaired` where it was written. ports, segments: that Neutron has.

    unpublished: segments with IPv4 subnets for which Neutron has published no provider.
    """

    drifts: Sequence[Drift]
    segments: int
    ports: int
    unpublished: Sequence[str]


async def run_round(
    ledger: Ledger, neutron: NeutronClient, view: NeutronView, *, dry_run: bool = False, give_back_all: bool = False
) -> Round:
    """Make the ledger agree with Neutron, or only say what would be changed.

    give_back_all: also where most claims would be given back, which is not believed else.
    Raises NeutronUnavailable, DatabaseUnavailable; what was written until then stays, and the next round goes on.
    """
    began_at_s = view.clock()
    state = await view.read(neutron)
    providers, changes = await _decide(ledger, state, view)
    done = set[Change]() if dry_run else await _apply(ledger, providers, changes, give_back_all=give_back_all)
    view.note(state, began_at_s)
    if not dry_run:
        await _keep_figures(ledger, sum_addresses(state))
    with_subnets = {subnet.segment_id for subnet in state.subnets}
    return Round(
        drifts=[replace(change.drift(), repaired=change in done) for change in changes],
        segments=len(state.segments),
        ports=len(state.ports),
        unpublished=sorted(with_subnets - providers.keys()),
    )


async def _keep_figures(ledger: Ledger, figures: AddressFigures) -> None:
    """Keep what this round saw of addresses where every process can read it."""
    async with ledger.database.connection() as connection:
        await neutron_store.set_figures(connection, msgspec.json.encode(figures).decode())


async def read_address_figures(ledger: Ledger) -> tuple[AddressFigures, float | None]:
    """Return what the last round saw of addresses, whichever process did it, and how many seconds ago it ended.

    Nothing, and None, before the first.
    """
    async with ledger.database.connection() as connection:
        kept = await neutron_store.get_figures(connection)
    if kept is None:
        return AddressFigures(), None
    text, age_s = kept
    return msgspec.json.decode(text, type=AddressFigures), age_s


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


async def _apply(
    ledger: Ledger, providers: Mapping[str, ProviderRow], changes: Sequence[Change], *, give_back_all: bool = False
) -> set[Change]:
    """Write the changes; returns those that are written. What changed since it was read is left for the next round."""
    segments = [change for change in changes if isinstance(change, SegmentChange)]
    ports = [change for change in changes if isinstance(change, PortChange)]
    done: set[Change] = set()
    surpluses = [change for change in changes if isinstance(change, Surplus)]
    if give_back_all or await _is_believable(ledger, len(surpluses)):
        done |= await _give_back(ledger, surpluses)
    unreleased = {surplus.segment_uuid for surplus in surpluses if surplus not in done}
    for change in segments:
        if change.network_id is None and change.segment_uuid in unreleased:
            continue  # it is found by its network until nothing is claimed of it
        with_claims = [port for port in ports if port.need.segment_uuid == change.segment_uuid]
        done |= await _set_segment(ledger, providers[change.segment_uuid], change, with_claims)
    return done | await _claim_ports(ledger, [port for port in ports if port not in done])


async def _set_segment(
    ledger: Ledger, row: ProviderRow, change: SegmentChange, ports: Sequence[PortChange]
) -> set[Change]:
    """Set a segment's inventory together with the claims of its ports, which may have been in `reserved` before.

    Alone only if that frees nothing: else what a port has would be offered to others.
    """
    async with ledger.database.transaction() as tx:
        locked = await providers_store.lock_provider_rows(tx, [row.uuid])
        if row.uuid in locked and change.network_before != change.network_id:
            await neutron_store.set_networks(tx, {row.id: change.network_id})
    if change.inventory is None or change.before == change.inventory:
        return {change}
    inventories = {row.uuid: NewInventories(row.generation, {**row.inventories, IPV4_ADDRESS: change.inventory})}
    try:
        answer = await reshape(ledger, inventories, [_port_claim(port) for port in ports])
        if isinstance(answer, Claimed):
            return {change, *ports}
        if change.before is None or change.inventory.capacity > change.before.capacity:
            return set()
        await reshape(ledger, inventories, [])
    except (ConcurrentUpdate, ReshapeProviderNotFound, InventoryInUse):
        return set()
    return {change}


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


async def _is_believable(ledger: Ledger, surpluses: int) -> bool:
    if is_believable(surpluses, 0):
        return True
    async with ledger.database.connection() as connection:
        classes = await find_ids(ledger, connection, NameKind.RESOURCE_CLASS, {IPV4_ADDRESS})
        claims = await neutron_store.count_address_claims(connection, resource_class_id=classes[IPV4_ADDRESS])
    if is_believable(surpluses, claims):
        return True
    log.error(
        "Neutron lists no ports for most of what is claimed, so nothing is given back: does its user see all ports?",
        claims=claims, of_no_port=surpluses, otherwise="roost-manage adopt --give-back-all",
    )  # fmt: skip
    return False


async def _give_back(ledger: Ledger, surpluses: Sequence[Surplus]) -> set[Change]:
    by_consumer: dict[str, list[Surplus]] = {}
    for surplus in surpluses:
        by_consumer.setdefault(surplus.consumer_uuid, []).append(surplus)
    consumers = await claims_service.get_consumers(ledger, list(by_consumer))
    claims = []
    for uuid, parts in by_consumer.items():
        if uuid in consumers and consumers[uuid].generation == parts[0].generation:
            gone: Allocations = {part.segment_uuid: {IPV4_ADDRESS: part.amount} for part in parts}
            claims.append(consumers[uuid].claiming(subtract_allocations(consumers[uuid].allocations, gone)))
    answers = await claims_service.claim(ledger, [ClaimGroup((claim,)) for claim in claims])
    kept = zip(claims, answers, strict=True)
    return {part for claim, answer in kept if isinstance(answer, Claimed) for part in by_consumer[claim.consumer_uuid]}


# The same as an audit: a round of its own, without what the poller remembers.


async def _ask_neutron(ledger: Ledger) -> AsyncIterator[Sequence[None]]:
    if ledger.neutron is not None:
        yield (None,)


async def _find_differences(ledger: Ledger, _all: Sequence[None]) -> list[Finding[None, Change]]:
    """Return what differs. Raises NeutronUnavailable."""
    assert ledger.neutron is not None
    view = NeutronView(grace_s=ledger.claim_grace_s)
    state = await view.read(ledger.neutron)
    _, changes = await _decide(ledger, state, view)
    return [Finding(change.drift(), None, change) for change in changes]


async def _repair(ledger: Ledger, findings: Sequence[Finding[None, Change]]) -> set[str]:
    changes = [finding.fact for finding in findings]
    uuids = [change.segment_uuid for change in changes if isinstance(change, SegmentChange)]
    async with ledger.database.transaction(snapshot=True) as tx:
        rows = {row.uuid: row for row in await providers_store.list_by_uuid(tx, uuids)}
    done = await _apply(
        ledger, rows, [c for c in changes if not isinstance(c, SegmentChange) or c.segment_uuid in rows]
    )
    return {finding.drift.key for finding in findings if finding.fact in done}


AGREEMENT = Check(
    pages=_ask_neutron,
    look=_find_differences,
    repairs={INVENTORY_UNLIKE_POOLS: _repair, PORT_UNCLAIMED: _repair, CLAIM_PORTLESS: _repair},
    twice=True,
)
