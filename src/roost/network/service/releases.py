"""Giving claims back to the ledger: always after the address is unassigned, whatever happens in between.

A release row says: make the claim of this port equal to its claimed addresses. A port without addresses loses its
whole claim. The ledger is told the capacity before a claim goes: an address outside the pools counts only while it is
claimed.
"""

from collections.abc import Sequence, Set

import structlog

from roost.network.errors import PortChanged
from roost.network.model.ports import Port
from roost.network.rules.capacity import claim_of
from roost.network.service import Networks, addresses, capacity, notices
from roost.network.service.notices import telling
from roost.network.store import claims, ports, publications, resources
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.repeat import at_once
from roost.platform.retries import retried
from roost.seams.placement import Allocations, ClaimGroup, ConsumerState, Refused, covers_allocations, same_allocations

RELEASES_MAX = 1000
ROUNDS_MAX = 8

log = structlog.get_logger()


class ReleasesPending(PortChanged):
    """Claims of these ports are still being given back."""

    def __init__(self, port_ids: Set[str]) -> None:
        super().__init__("Claims of the ports are still being given back: repeat the request.")
        self.port_ids = port_ids


after_releases = retried(
    ReleasesPending,
    most=ROUNDS_MAX,
    between=lambda pending, networks: work_off(networks, sorted(pending.port_ids)),
)
"""Repeats an operation that raises ReleasesPending, once these releases are worked off."""


async def list_claiming(tx: Connection, port_ids: Sequence[str]) -> Set[str]:
    """Return the ports that have an open intent. Raises ReleasesPending while the claim of some is being given back."""
    releasing, tickets = await claims.list_busy(tx, port_ids)
    if releasing:
        raise ReleasesPending(releasing)
    return tickets.keys()


async def remove_ports(networks: Networks, tx: Connection, ports_locked: Sequence[Port]) -> list[str]:
    """Delete locked ports with their addresses, and order their claims' release. Return the servers to be told."""
    ids = [port.id for port in ports_locked]
    async with telling(networks, tx, ids):
        await addresses.take_back(tx, [item for port in ports_locked for item in port.addresses])
        await resources.delete(tx, "port", ids)
    await claims.insert_releases(tx, ids)
    return await notices.note(tx, ports_locked, deleted=True)


async def work_off(networks: Networks, port_ids: Sequence[str] | None = None) -> int:
    """Trim the claims of the ports that have release rows; return how many ports. port_ids: None for all, oldest first.

    Raises PublicationPending, Conflict while the ledger cannot be told of some providers; other claims are trimmed.
    """
    stayed: set[str] = set()
    released = 0
    while True:
        count, providers_due = await _work_off(networks, port_ids, stayed)
        released += count
        if providers_due:
            stayed |= await capacity.publish(networks, providers_due)
        elif port_ids is not None or not count:
            return released


work_off_now = at_once(work_off, "releasing claims")


async def _work_off(networks: Networks, port_ids: Sequence[str] | None, stayed: Set[str]) -> tuple[int, list[str]]:
    """Return how many ports were worked off, and the providers to publish before claims on them can be trimmed.

    stayed: providers that are to be deleted and have no addresses, but are in use.

    The ledger is called while the rows and the ports are locked, against the rule for transactions. Nobody reserves or
    claims for a port that has a release row. A release that is under way therefore never hits a later claim.
    A port that is made anew meanwhile is known by its reservation, or by its claim's generation.
    """
    async with networks.releasing, networks.database.transaction() as tx:  # R8; a connection apart: R14
        rows = await claims.lock_releases(tx, port_ids, RELEASES_MAX)
        if not rows:
            return 0, []
        named = sorted(set(rows.values()))
        consumers = await networks.placement.get_consumers(named)
        providers = {uuid for consumer in consumers.values() for uuid in consumer.allocations}
        providers_due = await publications.list_due(tx, sorted(providers - stayed))  # R38
        waiting = {uuid for uuid, consumer in consumers.items() if providers_due & consumer.allocations.keys()}
        locked = await ports.lock_ports(tx, named)
        _, claiming = await claims.list_busy(tx, sorted(locked))
        # Whoever has an intent sees to the claim when it is closed, and the reconciler when it has expired.
        kept = claiming.keys() | waiting | {port.id for port in locked.values() if port.reserved_from is not None}
        releasing = [
            (consumer, claim_of(locked[uuid].addresses if uuid in locked else ()))
            for uuid, consumer in consumers.items()
            if uuid not in kept
        ]
        generations = {consumer.consumer_uuid: consumer.generation for consumer, claim in releasing if not claim}
        crash_point("reconcile.before-release")
        await networks.placement.release(sorted(generations), generations=generations)
        beaten = await _trim(networks, [(consumer, claim) for consumer, claim in releasing if claim])
        crash_point("reconcile.after-release")
        rows_left = beaten | waiting
        await claims.delete_releases(tx, [row for row, port_id in rows.items() if port_id not in rows_left])
    return len(named) - len(rows_left), sorted(providers_due)


async def _trim(networks: Networks, claims_wanted: Sequence[tuple[ConsumerState, Allocations]]) -> set[str]:
    """Trim claims that are larger than wanted. Return the ports that somebody else claimed for meanwhile.

    A claim that does not cover its port's addresses stays as it is: no release repairs it.
    """
    larger = []
    for consumer, claim in claims_wanted:
        if not covers_allocations(consumer.allocations, claim):
            log.warning("a port holds addresses that it has no claim for", port=consumer.consumer_uuid)
        elif not same_allocations(consumer.allocations, claim):
            larger.append((consumer, claim))
    if not larger:
        return set()
    groups = [ClaimGroup((consumer.claiming(claim),)) for consumer, claim in larger]
    answers = zip(larger, await networks.placement.claim(groups), strict=True)
    return {consumer.consumer_uuid for (consumer, _), answer in answers if isinstance(answer, Refused)}
