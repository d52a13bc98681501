"""Giving claims back to the ledger: always after the address is unassigned, whatever happens in between.

A release row says: make the claim of this port equal to its claimed addresses. Of a port without any, all goes.
The ledger is told the capacity before a claim goes: an address outside the pools counts only while it is claimed.
"""

from collections.abc import Mapping, Sequence, Set

import structlog

from roost.network.model.ports import Address, Port
from roost.network.rules.holdings import claim_of
from roost.network.service import Networks, capacity
from roost.network.store import claims, ports, publications
from roost.platform.crash import crash_point
from roost.platform.errors import RoostError
from roost.seams.placement import (
    Allocations,
    ClaimGroup,
    ConsumerState,
    Refused,
    covers_allocations,
    same_allocations,
)

RELEASES_MAX = 1000

log = structlog.get_logger()


async def work_off(networks: Networks, port_ids: Sequence[str] | None = None) -> int:
    """Trim the claims that the release rows name: those of the ports, or the oldest of all. Return how many ports.

    Raises PublicationPending while the ledger cannot be told of their providers.
    """
    stayed: set[str] = set()
    while True:
        count, providers_due = await _work_off(networks, port_ids, stayed)
        if not providers_due:
            return count
        stayed |= await capacity.publish(networks, providers_due)


async def _work_off(networks: Networks, port_ids: Sequence[str] | None, stayed: Set[str]) -> tuple[int, list[str]]:
    """Return how many ports, or the providers of which the ledger is to be told first; then nothing is done.

    stayed: providers that are to go and have nothing to give, but are in use.

    The ledger is called while the rows and the ports are locked, against the rule for transactions: nobody reserves or
    claims for a port that has a release row, so a release that is under way can never hit a later claim of that port.
    A port that was made anew while its row was being written shows by its reservation, or by the claim's generation.
    """
    async with networks.releasing, networks.database.transaction() as tx:  # R8; a connection apart: R14
        rows = await claims.lock_releases(tx, port_ids, RELEASES_MAX)
        if not rows:
            return 0, []
        named = sorted(set(rows.values()))
        consumers = await networks.placement.get_consumers(named)
        providers = {uuid for consumer in consumers.values() for uuid in consumer.allocations}
        if providers_due := await publications.list_due(tx, sorted(providers - stayed)):  # R38
            return 0, sorted(providers_due)
        locked = await ports.lock_ports(tx, named)
        _, claiming = await claims.list_busy(tx, sorted(locked))
        # Whoever has an intent sees to the claim when it is closed, and the reconciler when it has expired.
        kept = claiming | {port.id for port in locked.values() if port.reserved_from is not None}
        held = [consumer for uuid, consumer in consumers.items() if uuid not in kept]
        wanted = {item.consumer_uuid: claim_of(_addresses(locked, item.consumer_uuid)) for item in held}
        generations = {item.consumer_uuid: item.generation for item in held if not wanted[item.consumer_uuid]}
        crash_point("reconcile.before-release")
        await networks.placement.release(sorted(generations), generations=generations)
        beaten = await _trim(networks, [(item, claim) for item in held if (claim := wanted[item.consumer_uuid])])
        crash_point("reconcile.after-release")
        await claims.delete_releases(tx, [row for row, port_id in rows.items() if port_id not in beaten])
    return len(named) - len(beaten), []


def _addresses(locked: Mapping[str, Port], port_id: str) -> Sequence[Address]:
    port = locked.get(port_id)
    return port.addresses if port else ()


async def _trim(networks: Networks, wanted: Sequence[tuple[ConsumerState, Allocations]]) -> set[str]:
    """Set claims that are larger than their ports' addresses to those; returns the ports that somebody claimed for.

    Never to more than is held: a claim that does not cover its port's addresses is not a release's to mend.
    """
    larger = []
    for consumer, claim in wanted:
        if not covers_allocations(consumer.allocations, claim):
            log.warning("a port holds addresses that it has no claim for", port=consumer.consumer_uuid)
        elif not same_allocations(consumer.allocations, claim):
            larger.append((consumer, claim))
    if not larger:
        return set()
    groups = [ClaimGroup((consumer.claiming(claim),)) for consumer, claim in larger]
    answers = zip(larger, await networks.placement.claim(groups), strict=True)
    return {consumer.consumer_uuid for (consumer, _), answer in answers if isinstance(answer, Refused)}


async def work_off_all(networks: Networks) -> int:
    """Release all that can be released by now, oldest first; returns how many ports."""
    released = 0
    while count := await work_off(networks):
        released += count
    return released


async def work_off_now(networks: Networks, port_ids: Sequence[str]) -> None:
    """Right after the commit that wrote the rows; if the ledger cannot be had, the reconciler does it later."""
    if not port_ids:
        return
    try:
        await work_off(networks, port_ids)
    except RoostError as error:
        log.warning("releasing claims failed; the reconciler retries", ports=len(port_ids), reason=str(error))


async def abandon(networks: Networks, port_id: str, ticket: int | None = None) -> None:
    """The claim made for the port has no use: drop the intent, give the claim back, unless somebody else claims now.

    ticket: of the intent; None if there is none any more.
    """
    async with networks.database.transaction() as tx:
        await ports.lock_ports(tx, [port_id])
        if ticket is not None:
            await claims.delete_intent(tx, port_id, ticket)
        hanging = await claims.release_hanging(tx, [port_id])
    await work_off_now(networks, hanging)
