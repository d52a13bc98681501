"""Audit of addresses, their marks, and free ranges: under the locks of their subnets, as all that changes them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from roost.network.model.ports import FreeChange, Holding, StrayAddress
from roost.network.rules import drift as rules
from roost.network.rules.inventory import claimed_by_ports
from roost.network.service import Networks, assignments, releases
from roost.network.store import addresses, claims, ports, subnet_changes
from roost.network.store import audit as store
from roost.network.store import subnets as subnet_rows
from roost.platform.audit import Check, Finding, keys_of, stored_pages
from roost.platform.database import Connection

STRAYS_MAX = 10_000
SUBNETS_PAGE = 100

StrayFindings = Sequence[Finding[StrayAddress, None]]


def _begin(networks: Networks) -> AbstractAsyncContextManager[Connection]:
    return networks.database.transaction()


async def _list_strays(networks: Networks) -> AsyncIterator[Sequence[StrayAddress]]:
    async with networks.database.connection() as connection:
        suspects = await store.list_strays(connection, limit=STRAYS_MAX)
    yield suspects


async def _find_strays(tx: Connection, suspects: Sequence[StrayAddress]) -> StrayFindings:
    """Lock the ports and subnets, and return those of the addresses whose port or subnet does not exist still."""
    await ports.lock_ports(tx, sorted({item.port_id for item in suspects}))
    await addresses.lock_subnets(tx, sorted({item.subnet_id for item in suspects}))
    findings = []
    for item in await store.confirm_strays(tx, suspects):
        missing = f"port {item.port_id}" if item.subnet_there else f"subnet {item.subnet_id}"
        drift = rules.ADDRESS_STRAY.drift(item.address, f"{missing} does not exist", name=item.subnet_id)
        findings.append(Finding(drift, item, None))
    return findings


async def _unassign_strays(tx: Connection, findings: StrayFindings) -> list[str]:
    strays = [finding.item for finding in findings]
    await assignments.unassign(tx, [(item.subnet_id, item.address) for item in strays if item.subnet_there])
    await addresses.delete(tx, [(item.subnet_id, item.address) for item in strays if not item.subnet_there])
    await claims.insert_releases(tx, sorted({item.port_id for item in strays}))
    return keys_of(findings)


async def _release_strays(networks: Networks, findings: StrayFindings) -> None:
    await releases.work_off_now(networks, sorted({finding.item.port_id for finding in findings}))


STRAYS = Check(
    pages=_list_strays,
    hold=_begin,
    look=_find_strays,
    repairs={rules.ADDRESS_STRAY: _unassign_strays},
    after=_release_strays,
)


async def _list_mismarked(networks: Networks) -> AsyncIterator[Sequence[str]]:
    """Yield each subnet with an address that is not marked as its pools are, but for subnets that are being changed."""
    async with networks.database.transaction(snapshot=True) as tx:
        quiet = [subnet for subnet in await subnet_rows.list_subnets(tx) if subnet.change is None]
        suspects = await store.list_mismarked(tx, {subnet.id: claimed_by_ports(subnet) for subnet in quiet})
    for subnet_id in suspects:
        yield [subnet_id]


MarkFindings = Sequence[Finding[str, tuple[Holding, str | None]]]
"""By subnet: how an address should be marked, and the port whose claim counts it no more, if any."""


async def _find_marks(tx: Connection, subnet_ids: Sequence[str]) -> MarkFindings:
    await addresses.lock_subnets(tx, subnet_ids)
    findings = []
    for subnet in await subnet_rows.list_subnets(tx, subnet_ids):
        holdings = await subnet_changes.list_holdings(tx, subnet.id) if subnet.change is None else {}
        for item, port_id in holdings.items():
            if drift := rules.judge_marks(item, subnet):
                wanted = rules.marked(item, subnet)
                unclaimed = port_id if item.claimed and not wanted.claimed else None
                findings.append(Finding(drift, subnet.id, (wanted, unclaimed)))
    return findings


async def _mark_anew(tx: Connection, findings: MarkFindings) -> list[str]:
    for subnet_id in sorted({finding.item for finding in findings}):
        marks = [finding.fact[0] for finding in findings if finding.item == subnet_id]
        await subnet_changes.set_holdings(tx, subnet_id, marks)
    await claims.insert_releases(tx, _unclaimed(findings))
    return keys_of(findings)


async def _release_marked(networks: Networks, findings: MarkFindings) -> None:
    await releases.work_off_now(networks, _unclaimed(findings))


def _unclaimed(findings: MarkFindings) -> list[str]:
    return sorted({finding.fact[1] for finding in findings if finding.fact[1] is not None})


MARKS = Check(
    pages=_list_mismarked,
    hold=_begin,
    look=_find_marks,
    repairs={rules.ADDRESS_WRONG: _mark_anew},
    after=_release_marked,
)


async def _list_unequal(networks: Networks) -> AsyncIterator[Sequence[str]]:
    """Yield each subnet whose free ranges cannot be right, by numbers alone."""
    rows = stored_pages(networks.database, store.list_free, lambda row: row.subnet_id, limit=SUBNETS_PAGE)
    async for page in rows:
        for row in page:
            if not rules.is_free_right(row.pools, row.free, held=row.held, overlapping=row.overlapping):
                yield [row.subnet_id]


async def _find_free(tx: Connection, subnet_ids: Sequence[str]) -> Sequence[Finding[str, FreeChange]]:
    """Lock the subnets, and return those whose free ranges overlap what is held, or have lost addresses."""
    await addresses.lock_subnets(tx, subnet_ids)
    findings = []
    for subnet_id in subnet_ids:
        for row in await store.list_free(tx, after="", limit=1, subnet_id=subnet_id):
            held = await store.list_held(tx, subnet_id)
            if drift := rules.judge_free(subnet_id, row.name, row.pools, row.free, held):
                change = rules.change_free(subnet_id, row.free, rules.free_of(row.pools, held))
                findings.append(Finding(drift, subnet_id, change))
    return findings


async def _compute_free(tx: Connection, findings: Sequence[Finding[str, FreeChange]]) -> list[str]:
    for finding in findings:
        await addresses.change_free(tx, finding.fact)
    return keys_of(findings)


FREE_RANGES = Check(pages=_list_unequal, hold=_begin, look=_find_free, repairs={rules.FREE_WRONG: _compute_free})
