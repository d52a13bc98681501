"""Gives back what hangs and says again what was not heard, whatever died in between; safe with several at once.

It decides nothing that a transaction under the port's lock has not confirmed, and never frees what is in use.
"""

import uuid
from collections.abc import Sequence

import msgspec
import structlog
from msgspec import Struct

from roost.network.errors import PublicationPending
from roost.network.holdings import claim_of, same
from roost.network.model import Port, PortFilter
from roost.network.service import Networks, builds, flat, publications, releases, subnets
from roost.network.store import claims, ports
from roost.seams.placement import ConsumerState, ConsumerType

INTENTS_MAX = 1000
CONSUMERS_PAGE = 1000
SERVERS_PAGE = 1000

log = structlog.get_logger()


class Reconciled(Struct, frozen=True):
    """What one pass did: ports whose claim was given back, ports of servers that are gone, subnets and publications.

    unclaimed: addresses of flat networks whose servers have no claim for them.
    """

    released: int = 0
    abandoned: int = 0
    parted: int = 0
    subnets: int = 0
    unclaimed: int = 0


async def reconcile_once(context: Networks) -> Reconciled:
    """One pass over everything that can hang; nothing wakes it early, since whoever leaves work behind has died."""
    try:
        await publications.publish_due(context)
        finished = await subnets.finish_subnets(context)
    except PublicationPending:
        finished = 0
    parted = await _part_orphans(context)
    abandoned = await _expire_intents(context) + await _release_hanging(context)
    released = 0
    while count := await releases.work_off(context):
        released += count
    unclaimed = await flat.release_unclaimed(context)
    done = Reconciled(released=released, abandoned=abandoned, parted=parted, subnets=finished, unclaimed=unclaimed)
    if done != Reconciled():
        log.info("networks and ports were reconciled", **msgspec.structs.asdict(done))
    return done


async def _expire_intents(context: Networks) -> int:
    async with context.database.transaction() as tx:
        expired = await claims.list_expired_intents(tx, INTENTS_MAX)
        await ports.lock_ports(tx, expired)
        gone = await claims.delete_expired_intents(tx, expired)
        hanging = await claims.release_hanging(tx, gone)
    return len(hanging)


async def _release_hanging(context: Networks) -> int:
    """PORT consumers that hold more than their port's addresses, with no intent and no unfinished server behind it."""
    count, after = 0, ""
    while page := await context.placement.list_consumers(ConsumerType.PORT.value, after=after, limit=CONSUMERS_PAGE):
        after = page[-1]
        consumers = await context.placement.get_consumers(page)
        async with context.database.transaction() as tx:
            found = {port.id: port for port in await ports.list_ports(tx, PortFilter(ids=tuple(consumers)))}
        suspects = [port for port in found.values() if not _is_exact(consumers[port.id], port)]
        unfinished = await _unfinished(context, suspects)
        wanted = [uuid for uuid in consumers if uuid not in found]
        idle = {port.id: port for port in suspects if port.device_id not in unfinished}
        async with context.database.transaction() as tx:
            locked = await ports.lock_ports(tx, sorted([*wanted, *idle]))
            # One that was reserved, made, or given an address since it was looked at is somebody's again.
            wanted = [uuid for uuid in wanted if uuid not in locked]
            wanted += [uuid for uuid, port in idle.items() if uuid in locked and _is_as_it_was(port, locked[uuid])]
            count += len(await claims.release_hanging(tx, wanted))
    return count


def _is_exact(consumer: ConsumerState, port: Port) -> bool:
    return same(consumer.allocations, claim_of(port.addresses))


def _is_as_it_was(before: Port, now: Port) -> bool:
    return (before.device_id, before.addresses) == (now.device_id, now.addresses)


async def _unfinished(context: Networks, suspects: Sequence[Port]) -> set[str]:
    servers = sorted({port.device_id for port in suspects if _is_server_id(port.device_id)})
    return await context.compute.list_unfinished(servers) if servers else set()


async def _part_orphans(context: Networks) -> int:
    """Ports that Roost made for, or a build reserved for, servers that neither exist nor are being worked on.

    A port is read before its server is asked for: a server that is at work exists before its ports do.
    """
    count, after = 0, ""
    while True:
        async with context.database.transaction() as tx:
            page = await ports.list_build_servers(tx, after=after, limit=SERVERS_PAGE)
        if not page:
            return count
        after = page[-1]
        asked = [server for server in page if _is_server_id(server)]
        alive = await context.compute.list_servers(asked) | await context.compute.list_unfinished(asked)
        gone = [server for server in asked if server not in alive]
        if gone:
            count += await builds.release_server_ports(context, gone, [], restore=True)


def _is_server_id(device_id: str) -> bool:
    """Clients may write anything as a port's device."""
    try:
        return str(uuid.UUID(device_id)) == device_id
    except ValueError:
        return False
