"""Hosts whose agents poll and begin nothing: conductors count, and who hears the agents closes and tries them again."""

from collections.abc import Mapping

import structlog

from roost.compute.rules import idle_hosts as rules
from roost.compute.service.context import Compute
from roost.compute.service.hosts import NAMES_LOGGED_MAX, publish_hosts
from roost.compute.store import idle_hosts as store
from roost.compute.store.hosts import read_clock

log = structlog.get_logger()


async def note_unbegun(compute: Compute, asked_s_by_host: Mapping[str, float]) -> None:
    """Count against each host a launch that it was asked for so long ago, and that is given up unbegun."""
    async with compute.database.transaction() as tx:
        records = await store.lock_records(tx, asked_s_by_host)
        now = await read_clock(tx)
        counted = [rules.count_unbegun(record, asked_s=asked_s_by_host[record.host], now=now) for record in records]
        await store.write_records(tx, [record for record in counted if record not in records])


async def look(compute: Compute) -> dict[str, bool]:
    """Close hosts that begin nothing, open those whose probe is due or that have begun; return host -> is closed.

    Hosts whose state stays are left out.
    """
    async with compute.database.transaction() as tx:
        records = await store.lock_unbegun(tx, unbegun_min=rules.UNBEGUN_MAX)
        if not records:
            return {}
        counts = await store.count_hosts(tx, {network for record in records for network in record.networks})
        changed = rules.judge_idle(records, counts, await read_clock(tx))
        await store.write_records(tx, changed)
    closed_before = {record.host: record.idle for record in records}
    idle_by_host = {record.host: record.idle for record in changed if record.idle != closed_before[record.host]}
    _log(idle_by_host)
    if idle_by_host:
        await publish_hosts(compute, sorted(idle_by_host))
    return idle_by_host


def _log(idle_by_host: Mapping[str, bool]) -> None:
    for is_idle, text in ((True, "hosts are closed: they began no launch"), (False, "idle hosts are open again")):
        if hosts := sorted(host for host, idle in idle_by_host.items() if idle is is_idle):
            log.warning(text, hosts=len(hosts), names=hosts[:NAMES_LOGGED_MAX])
