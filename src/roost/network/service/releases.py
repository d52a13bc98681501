"""Giving claims back to the ledger: always after the address is unassigned, whatever happens in between."""

from collections.abc import Sequence

import structlog

from roost.network.service import Networks
from roost.network.store import addresses, claims, ports
from roost.platform.crash import crash_point
from roost.platform.errors import RoostError

RELEASES_MAX = 1000

log = structlog.get_logger()


async def work_off(networks: Networks, port_ids: Sequence[str] | None = None) -> int:
    """Give back what the release rows name: those of the ports, or the oldest of all. Returns how many ports.

    The ledger is called while the rows are locked, against the rule for transactions: nobody may claim for a port
    that has a release row, so a release that is under way can never hit a later claim of the same port.
    """
    async with networks.releasing, networks.database.transaction() as tx:
        rows = await claims.lock_releases(tx, port_ids, RELEASES_MAX)
        if not rows:
            return 0
        held = await addresses.list_of_ports(tx, list(rows.values()))
        released = sorted(set(rows.values()) - {address.port_id for address in held})
        if released:
            crash_point("reconcile.before-release")
            await networks.placement.release(released)
            crash_point("reconcile.after-release")
        await claims.delete_releases(tx, list(rows))
    return len(released)


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
