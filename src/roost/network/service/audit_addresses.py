"""Audit of addresses and free ranges: under the locks of their subnets, as all that changes them."""

from roost.network import audit as rules
from roost.network.addressing import FreeChange
from roost.network.ranges import Ranges
from roost.network.service import Networks, assignments, releases
from roost.network.store import addresses, claims, ports
from roost.network.store import audit as store
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
