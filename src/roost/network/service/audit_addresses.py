"""Audit of addresses, their marks, and free ranges: under the locks of their subnets, as all that changes them."""

import msgspec

from roost.network.rules import drift as rules
from roost.network.rules.addressing import FreeChange
from roost.network.rules.inventory import claimed_by_ports
from roost.network.rules.ranges import Ranges
from roost.network.service import Networks, assignments, releases
from roost.network.store import addresses, claims, ports, subnet_changes
from roost.network.store import audit as store
from roost.network.store import subnets as subnet_rows
from roost.network.store.audit import FreeRow, StrayAddress
from roost.seams.audit import Drift, Kind, Repairs

STRAYS_MAX = 10_000
SUBNETS_PAGE = 100


async def audit_strays(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """Addresses whose port or subnet does not exist, STRAYS_MAX of them at once."""
    async with networks.database.connection() as connection:
        suspects = await store.list_strays(connection, limit=STRAYS_MAX)
    if not suspects:
        return []
    repairing = repairs is not Repairs.NONE
    port_ids = sorted({item.port_id for item in suspects})
    async with networks.database.transaction() as tx:
        await ports.lock_ports(tx, port_ids)
        await addresses.lock_subnets(tx, sorted({item.subnet_id for item in suspects}))
        strays = await store.confirm_strays(tx, suspects)
        if repairing:
            await assignments.unassign(tx, [(item.subnet_id, item.address) for item in strays if item.subnet_there])
            await addresses.delete(tx, [(item.subnet_id, item.address) for item in strays if not item.subnet_there])
            await claims.insert_releases(tx, sorted({item.port_id for item in strays}))
    if repairing:
        await releases.work_off_now(networks, port_ids)
    return [_stray(item, repairing) for item in strays]


def _stray(item: StrayAddress, repaired: bool) -> Drift:
    missing = f"port {item.port_id}" if item.subnet_there else f"subnet {item.subnet_id}"
    says = f"{missing} does not exist"
    return Drift(kind=Kind.ADDRESS_STRAY, key=item.address, name=item.subnet_id, says=says, repaired=repaired)


async def audit_marks(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """Addresses that are not marked as what their subnets' pools make them; looked at again under those locks.

    What a change of a subnet marks otherwise while it is in progress is left to it.
    """
    async with networks.database.transaction(snapshot=True) as tx:
        quiet = [subnet for subnet in await subnet_rows.list_subnets(tx) if subnet.change is None]
        suspects = await store.list_mismarked(tx, {subnet.id: claimed_by_ports(subnet) for subnet in quiet})
    found: list[Drift] = []
    for subnet_id in suspects:
        found += await _confirm_marks(networks, subnet_id, repairs)
    return found


async def _confirm_marks(networks: Networks, subnet_id: str, repairs: Repairs) -> list[Drift]:
    repairing = repairs is not Repairs.NONE
    async with networks.database.transaction() as tx:
        await addresses.lock_subnets(tx, [subnet_id])
        subnets = await subnet_rows.list_subnets(tx, [subnet_id])
        if not subnets or subnets[0].change is not None:
            return []
        held = await subnet_changes.list_holdings(tx, subnet_id)
        drifts = {item: drift for item in held if (drift := rules.judge_marks(item, subnets[0]))}
        wanted = {item: rules.marked(item, subnets[0]) for item in drifts}
        unclaimed = sorted({held[item] for item, mark in wanted.items() if item.claimed and not mark.claimed})
        if repairing:
            await subnet_changes.set_holdings(tx, subnet_id, list(wanted.values()))
            await claims.insert_releases(tx, unclaimed)
    if repairing:
        await releases.work_off_now(networks, unclaimed)
    return [msgspec.structs.replace(drift, repaired=repairing) for drift in drifts.values()]


async def audit_free(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """Subnets whose free ranges overlap addresses that are held, or have lost some; exactly, only where sums differ."""
    found: list[Drift] = []
    after = ""
    while True:
        async with networks.database.connection() as connection:
            page = await store.list_free(connection, after=after, limit=SUBNETS_PAGE)
        for row in page:
            if not rules.is_free_right(row.pools, row.free, held=row.held, overlapping=row.overlapping):
                drift = await _confirm_free(networks, row.subnet_id, repairs)
                found += [drift] if drift else []
        if len(page) < SUBNETS_PAGE:
            return found
        after = page[-1].subnet_id


async def _confirm_free(networks: Networks, subnet_id: str, repairs: Repairs) -> Drift | None:
    repairing = repairs is not Repairs.NONE
    async with networks.database.transaction() as tx:
        await addresses.lock_subnets(tx, [subnet_id])
        rows = await store.list_free(tx, after="", limit=1, subnet_id=subnet_id)
        if not rows:
            return None
        (row,) = rows
        held = await store.list_held(tx, subnet_id)
        drift = rules.judge_free(subnet_id, row.name, row.pools, row.free, held)
        if drift and repairing:
            await addresses.change_free(tx, _change(row, rules.free_of(row.pools, held)))
    return (
        Drift(kind=drift.kind, key=drift.key, name=drift.name, says=drift.says, repaired=repairing) if drift else None
    )


def _change(row: FreeRow, wanted: Ranges) -> FreeChange:
    """All anew: one range may begin where another did."""
    removed = tuple((row.subnet_id, item) for item in row.free)
    return FreeChange(removed, tuple((row.subnet_id, item) for item in wanted))
