"""SQL of hosts that begin no launch: what is noted of them, and how many hosts of a network are closed for it."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Collection, Sequence
from typing import Any

from roost.compute.model.cloud import LaunchRecord
from roost.platform.database import Connection
from roost.platform.rows import columns_of

# Hosts that reach none are one network's, which has no name.
NETWORKS = "CASE WHEN cardinality(host.physical_networks) = 0 THEN ARRAY[''] ELSE host.physical_networks END"

RECORDS = f"""SELECT host.name AS host, host.unbegun, host.unbegun_at, host.idle, host.probe_at, host.probe_after_s,
    {NETWORKS} AS networks, guests.begun_at, guests.asked_at
FROM compute.host CROSS JOIN LATERAL (
    SELECT max(g.begun_at) AS begun_at,
        max(g.created_at) FILTER (WHERE g.begun_at IS NULL AND g.desired <> 'absent') AS asked_at
    FROM compute.guest g WHERE g.host = host.name
) AS guests
WHERE {{}} ORDER BY host.name FOR NO KEY UPDATE OF host"""
LOCK_RECORDS = f"-- compute.lock_launch_records\n{RECORDS.format('host.name = ANY($1::text[])')}"
LOCK_UNBEGUN = f"-- compute.lock_unbegun_hosts\n{RECORDS.format('host.unbegun > 0 AND host.unbegun >= $1')}"


async def lock_records(tx: Connection, names: Collection[str]) -> list[LaunchRecord]:
    """Lock these hosts; return how they took their launches."""
    return [_record(row) for row in await tx.fetch(LOCK_RECORDS, list(names))]


async def lock_unbegun(tx: Connection, *, unbegun_min: int) -> list[LaunchRecord]:
    """Lock the hosts that did not begin so many launches; return how they took them."""
    return [_record(row) for row in await tx.fetch(LOCK_UNBEGUN, unbegun_min)]


COUNT_HOSTS = f"""-- compute.count_hosts_by_network
SELECT network, count(*) AS hosts, count(*) FILTER (WHERE probe_after_s > 0) AS closed
FROM compute.host CROSS JOIN unnest({NETWORKS}) AS network
WHERE network = ANY($1::text[]) AND NOT (disabled OR silent OR forced_down OR cell_silent OR too_old)
GROUP BY network"""


async def count_hosts(tx: Connection, networks: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return physical network -> (hosts that would get servers, those of them that are closed or on probe)."""
    counts = {row["network"]: (row["hosts"], row["closed"]) for row in await tx.fetch(COUNT_HOSTS, list(networks))}
    return {network: counts.get(network, (0, 0)) for network in networks}


WRITE_RECORDS = """-- compute.write_launch_records
UPDATE compute.host SET unbegun = new.unbegun, unbegun_at = new.unbegun_at, idle = new.idle, probe_at = new.probe_at,
    probe_after_s = new.probe_after_s, wanted = wanted + (host.idle <> new.idle)::integer
FROM unnest($1::text[], $2::integer[], $3::timestamptz[], $4::boolean[], $5::timestamptz[], $6::double precision[])
    AS new (name, unbegun, unbegun_at, idle, probe_at, probe_after_s)
WHERE host.name = new.name"""


async def write_records(tx: Connection, records: Sequence[LaunchRecord]) -> None:
    """Write the records of locked hosts; one that is closed or opened is to be published."""
    rows = [(r.host, r.unbegun, r.unbegun_at, r.idle, r.probe_at, r.probe_after_s) for r in records]
    if rows:
        await tx.execute(WRITE_RECORDS, *columns_of(rows))


def _record(row: Any) -> LaunchRecord:
    return LaunchRecord(**{**row, "networks": tuple(row["networks"])})
