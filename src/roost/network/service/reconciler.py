"""Releases what killed processes left behind, and repeats what was not heard; safe with several at once.

It decides nothing that the port's lock or the claim's generation does not confirm, and never frees what is in use.
"""

from contextlib import suppress
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from roost.network.errors import PublicationPending
from roost.network.service import Networks, audit_ports, capacity, claims, notices, releases, subnets, unknown_guests
from roost.network.store import publications as publication_rows
from roost.platform.audit import Check
from roost.platform.drift import Repairs
from roost.platform.errors import Conflict

log = structlog.get_logger()


class Reconciled(Struct, frozen=True):
    """Counts of one pass: release rows that were worked off, leaked claims, and repaired ports of servers."""

    released: int = 0
    abandoned: int = 0
    parted: int = 0


async def reconcile_once(context: Networks) -> Reconciled:
    """Run one pass over all that can be left behind. Nothing wakes it early: whoever left it behind has died."""
    abandoned = await claims.expire_intents(context)
    with suppress(PublicationPending, TimeoutError):
        await _publish(context)
    parted = await _count_repaired(audit_ports.SERVER_PORTS, context)
    abandoned += await _count_repaired(audit_ports.LARGE_CLAIMS, context)
    released = 0
    with suppress(Conflict, PublicationPending):  # a provider that cannot be told keeps its own claims alone
        released = await releases.work_off(context)
    await subnets.finish_spreading(context)
    while await notices.tell(context):
        pass
    await unknown_guests.give_up_left(context)
    done = Reconciled(released=released, abandoned=abandoned, parted=parted)
    if done != Reconciled():
        log.info("networks and ports were reconciled", **msgspec.structs.asdict(done))
    return done


async def _publish(context: Networks) -> None:
    """Publish all that is due. A provider that the ledger refuses does not hold up the others."""
    async with context.database.connection() as connection:
        due = await publication_rows.list_due(connection)
    try:
        await capacity.publish_due(context, sorted(due))
    except Conflict:
        for provider_uuid in sorted(due):
            try:
                await capacity.publish_due(context, [provider_uuid])
            except Conflict as refusal:
                log.warning("the ledger refuses a provider, so its addresses are no capacity", reason=str(refusal))


async def _count_repaired(check: Check[Networks, Any, Any, Any], networks: Networks) -> int:
    return sum(drift.repaired for drift in await check.run(networks, repairs=Repairs.ITSELF))
