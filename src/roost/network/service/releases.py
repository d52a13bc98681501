"""Giving claims back to the ledger: always after the address is unassigned, whatever happens in between."""

from collections.abc import Sequence

import structlog

from roost.network.service import Networks
from roost.network.store import claims, ports
from roost.platform.crash import crash_point
from roost.platform.errors import RoostError

RELEASES_MAX = 1000

log = structlog.get_logger()


async def work_off(networks: Networks, port_ids: Sequence[str] | None = None) -> int:
    """Give back what the release rows name: those of the ports, or the oldest of all. Returns how many ports.

    The ledger is called while the rows and the ports are locked, against the rule for transactions: nobody reserves or
    claims for a port that has a release row, so a release that is under way can never hit a later claim of that port.
    A port that was made anew while its row was being written shows by its reservation, or by the claim's generation.
    """
    async with networks.releasing, networks.database.transaction() as tx:
        rows = await claims.lock_releases(tx, port_ids, RELEASES_MAX)
        if not rows:
            return 0
        named = sorted(set(rows.values()))
        consumers = await networks.placement.get_consumers(named)
        locked = await ports.lock_ports(tx, named)
        used = {port.id for port in locked.values() if port.addresses or port.reserved_from is not None}
        generations = {uuid: held.generation for uuid, held in consumers.items() if uuid not in used}
        crash_point("reconcile.before-release")
        await networks.placement.release(sorted(generations), generations=generations)
        crash_point("reconcile.after-release")
        await claims.delete_releases(tx, list(rows))
    return len(named)


async def work_off_now(networks: Networks, port_ids: Sequence[str]) -> None:
    """Right after the commit that wrote the rows; if the ledger cannot be had, the reconciler does it later."""
    if not port_ids:
        return
    try:
        await work_off(networks, port_ids)
    except RoostError as error:
        log.warning("claims are given back later", ports=len(port_ids), reason=str(error))


async def abandon(networks: Networks, port_id: str) -> None:
    """The claim made for the port has no use: drop the intent, give the claim back."""
    async with networks.database.transaction() as tx:
        await ports.lock_ports(tx, [port_id])
        await claims.delete_intent(tx, port_id)
        hanging = await claims.release_hanging(tx, [port_id])
    await work_off_now(networks, hanging)
