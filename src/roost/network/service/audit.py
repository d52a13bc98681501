"""The network's audit: its own records, the ledger's of its ports and segments, and the host aggregates that it keeps.

What is under way is no drift, so each suspect is looked at again: twice, or under locks. Here are the checks of
addresses, their marks and free ranges: under the locks of the subnets, which every change takes.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from roost.network.model.ports import Address
from roost.network.rules import drift as rules
from roost.network.rules.addressing import Ranges
from roost.network.service import Networks, addresses, audit_ports, audit_providers, capacity, releases
from roost.network.store import addresses as address_rows
from roost.network.store import audit as store
from roost.network.store import claims, ports
from roost.platform.audit import Audit, Check, Finding, keys_of, stored_pages
from roost.platform.database import Connection
from roost.platform.event_tables import EventTable

EVENTS = EventTable("network")
"""Of networks and ports: what was repaired."""

STRAYS_MAX = 10_000
SUBNETS_PAGE = 100

StrayFindings = Sequence[Finding[Address, None]]
MarkFindings = Sequence[Finding[str, str]]
"""Of subnets, each with its provider."""


def _begin(networks: Networks) -> AbstractAsyncContextManager[Connection]:
    return networks.database.transaction()


async def _list_strays(networks: Networks) -> AsyncIterator[Sequence[Address]]:
    async with networks.database.connection() as connection:
        suspects = await store.list_strays(connection, limit=STRAYS_MAX)
    yield suspects


async def _find_strays(tx: Connection, suspects: Sequence[Address]) -> StrayFindings:
    """Lock the ports and subnets, and return the addresses whose port or subnet still does not exist."""
    port_ids = sorted({item.port_id for item in suspects})
    await ports.lock_ports(tx, port_ids)
    await address_rows.lock_subnets(tx, {item.subnet_id for item in suspects})
    strays = set(await store.list_strays(tx, limit=STRAYS_MAX, port_ids=port_ids))
    findings = []
    for item in (item for item in suspects if item in strays):
        missing = f"port {item.port_id}" if item.provider_uuid else f"subnet {item.subnet_id}"
        drift = rules.ADDRESS_STRAY.drift(item.address, f"{missing} does not exist", name=item.subnet_id)
        findings.append(Finding(drift, item, None))
    return findings


async def _unassign_strays(tx: Connection, findings: StrayFindings) -> list[str]:
    strays = [finding.item for finding in findings]
    await addresses.take_back(tx, strays)
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
    """Yield each subnet with an address whose mark, in a pool or claimed, is wrong."""
    async with networks.database.transaction(snapshot=True) as tx:
        mismarked = await address_rows.list_mismarked(tx)
    for subnet_id in sorted({item.subnet_id for item in mismarked}):
        yield [subnet_id]


async def _find_marks(tx: Connection, subnet_ids: Sequence[str]) -> MarkFindings:
    subnets = await address_rows.lock_subnets(tx, subnet_ids)
    findings = []
    for item in await address_rows.list_mismarked(tx, subnet_ids):
        subnet = subnets[item.subnet_id]
        findings.append(Finding(rules.judge_marks(item, subnet.name or subnet.id), subnet.id, subnet.provider_uuid))
    return findings


async def _mark_anew(tx: Connection, findings: MarkFindings) -> list[str]:
    """Set the marks of all addresses of the subnets. The audit of claims gives back what is too much then."""
    await addresses.mark_anew(tx, {finding.item for finding in findings})
    return keys_of(findings)


async def _publish_marked(networks: Networks, findings: MarkFindings) -> None:
    await capacity.publish(networks, sorted({finding.fact for finding in findings}))


MARKS = Check(
    pages=_list_mismarked,
    hold=_begin,
    look=_find_marks,
    repairs={rules.ADDRESS_WRONG: _mark_anew},
    after=_publish_marked,
)


async def _list_unequal(networks: Networks) -> AsyncIterator[Sequence[str]]:
    """Yield the subnets whose free ranges are wrong, unless one is just being changed."""
    states = stored_pages(networks.database, store.list_free, lambda state: state.subnet_id, limit=SUBNETS_PAGE)
    async for page in states:
        yield [state.subnet_id for state in page if rules.judge_free(state)]


async def _find_free(tx: Connection, subnet_ids: Sequence[str]) -> Sequence[Finding[str, Ranges]]:
    """Lock the subnets, and return those whose free ranges overlap held addresses, or lack free ones."""
    await address_rows.lock_subnets(tx, subnet_ids)
    states = await store.list_free(tx, after="", limit=len(subnet_ids), ids=subnet_ids)
    return [Finding(drift, state.subnet_id, state.pools) for state in states if (drift := rules.judge_free(state))]


async def _compute_free(tx: Connection, findings: Sequence[Finding[str, Ranges]]) -> list[str]:
    for finding in findings:
        await addresses.set_free(tx, finding.item, finding.fact)
    return keys_of(findings)


FREE_RANGES = Check(pages=_list_unequal, hold=_begin, look=_find_free, repairs={rules.FREE_WRONG: _compute_free})

AUDIT: Audit[Networks] = Audit(
    (
        STRAYS,
        MARKS,
        FREE_RANGES,
        audit_providers.PROVIDERS,
        audit_providers.AGGREGATES,
        audit_ports.SERVER_PORTS,
        audit_ports.SHORT_CLAIMS,
        audit_ports.LARGE_CLAIMS,
        audit_ports.REACH,
        audit_ports.FLAT_CLAIMS,
    ),
    EVENTS.keep_repairs,
)
