"""Hosts whose agents poll and begin nothing: conductors count, and who hears the agents closes and tries them again."""

from collections.abc import Mapping

from roost.compute.rules import idle_hosts as rules
from roost.compute.rules.events import of_idle
from roost.compute.service.context import Compute
from roost.compute.service.events import record
from roost.compute.service.hosts import publish_hosts
from roost.compute.store import idle_hosts as store
from roost.compute.store.hosts import read_clock


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
        closed_before = {launches.host: launches.idle for launches in records}
        idle_by_host = {each.host: each.idle for each in changed if each.idle != closed_before[each.host]}
        recorded = await record(tx, of_idle(idle_by_host))
    recorded.tell()
    if idle_by_host:
        await publish_hosts(compute, sorted(idle_by_host))
    return idle_by_host
