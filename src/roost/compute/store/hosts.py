"""SQL of hosts: what they have, when they were last heard of, and whether their providers are told."""

# ruff: noqa: S608 - what is put into a statement are constants of this file.
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from roost.compute.model.agents import DeclaredHosts
from roost.compute.model.cloud import Host, HostRow, HostStateChange, HostUpsert, HostUse
from roost.platform.database import Connection
from roost.platform.grouping import grouped
from roost.platform.rows import encode

# An agent that holds all its hosts is heard on its own row alone: a host is heard of at the greater of both times.
SEEN_AT = "greatest(host.seen_at, (SELECT agent.seen_at FROM compute.agent WHERE agent.id = host.agent_id))"

# The host is silent, and has been for as long as its agent's promise says.
IS_PROMISE_KEPT = "(host.silent AND host.promise_kept AND host.promised_at = host.seen_at)"

COLUMNS = f"""host.id, host.disabled_reason,
    host.name, host.provider_uuid, host.vcpus, host.ram_mb, host.disk_gb, host.physical_networks, host.cell,
    host.declared, host.disabled, host.forced_down, host.service_version, {SEEN_AT} AS seen_at,
    host.wanted, host.published, host.forced_down OR host.silent AS down, host.down_told, host.cell_silent,
    host.too_old, host.waiting, host.idle, host.fence_after_s, {IS_PROMISE_KEPT} AS promise_kept"""

# down_told differs also where a release that does not write it published the host.
BEHIND = "(host.published < host.wanted OR host.down_told <> (host.forced_down OR host.silent))"

UPSERT_HOSTS = f"""-- compute.upsert_hosts
INSERT INTO compute.host AS host
    (name, provider_uuid, vcpus, ram_mb, disk_gb, physical_networks, cell, declared, service_version, seen_at,
    silent, too_old, waiting, disabled, disabled_reason)
SELECT name, provider_uuid, vcpus, ram_mb, disk_gb, physical_networks, cell, $2,
    CASE WHEN $2 THEN 0 ELSE service_version END, CASE WHEN $2 THEN NULL ELSE now() END, $2,
    NOT $2 AND service_version > 0 AND service_version < $3, $4::text IS NOT NULL, $4 IS NOT NULL, $4
FROM jsonb_to_recordset($1::jsonb) AS report (name text, provider_uuid uuid, vcpus integer, ram_mb integer,
    disk_gb integer, physical_networks text[], cell text, service_version integer)
ORDER BY name
ON CONFLICT (name) DO UPDATE SET
    vcpus = CASE WHEN excluded.declared OR NOT host.declared THEN excluded.vcpus ELSE host.vcpus END,
    ram_mb = CASE WHEN excluded.declared OR NOT host.declared THEN excluded.ram_mb ELSE host.ram_mb END,
    disk_gb = CASE WHEN excluded.declared OR NOT host.declared THEN excluded.disk_gb ELSE host.disk_gb END,
    physical_networks = CASE WHEN excluded.declared OR NOT host.declared
        THEN excluded.physical_networks ELSE host.physical_networks END,
    cell = CASE WHEN excluded.declared OR NOT host.declared THEN excluded.cell ELSE host.cell END,
    wanted = host.wanted + CASE WHEN (excluded.declared OR NOT host.declared)
        AND (host.vcpus, host.ram_mb, host.disk_gb, host.physical_networks, host.cell) IS DISTINCT FROM
            (excluded.vcpus, excluded.ram_mb, excluded.disk_gb, excluded.physical_networks, excluded.cell)
        OR (host.waiting AND excluded.declared) THEN 1 ELSE 0 END,
    waiting = host.waiting AND NOT excluded.declared,
    disabled = host.disabled AND NOT (host.waiting AND excluded.declared),
    disabled_reason = CASE WHEN NOT (host.waiting AND excluded.declared) THEN host.disabled_reason END,
    declared = host.declared OR excluded.declared,
    service_version = CASE WHEN excluded.declared THEN host.service_version ELSE excluded.service_version END,
    updated_at = now()
RETURNING {COLUMNS}, host.xmax = 0 AS created"""


async def upsert_hosts(
    tx: Connection, hosts: Sequence[HostUpsert], *, declared: bool, version_min: int, waiting_reason: str | None
) -> list[HostRow]:
    """Make or change hosts; where a host is declared, what its agent says of its size changes nothing.

    version_min: a new host whose agent is of a lower service version is closed from its beginning.
    waiting_reason: why new hosts are disabled until they are accepted; None: they are accepted. A declared one is.
    """
    rows = await tx.fetch(UPSERT_HOSTS, encode(hosts), declared, version_min, waiting_reason)
    return [_row(row) for row in rows]


LIST_UNPUBLISHED = f"""-- compute.list_unpublished_hosts
SELECT {COLUMNS} FROM compute.host
WHERE {BEHIND} AND name > $1 AND ($3::text[] IS NULL OR name = ANY($3)) ORDER BY name LIMIT $2"""


async def list_unpublished_hosts(
    tx: Connection, *, after: str, limit: int, names: Sequence[str] | None
) -> list[HostRow]:
    """Return a page of the hosts whose providers are behind, by name; names None: of all hosts."""
    return [_row(row) for row in await tx.fetch(LIST_UNPUBLISHED, after, limit, names)]


# A publisher that was overtaken may have written an older state last: then the host is behind again (R37).
LIST_BEHIND = f"""-- compute.list_hosts_behind
SELECT name FROM compute.host WHERE {BEHIND}"""


async def list_behind(tx: Connection) -> set[str]:
    """Return hosts whose state is not all published."""
    return {row["name"] for row in await tx.fetch(LIST_BEHIND)}


MARK_PUBLISHED = """-- compute.mark_hosts_published
UPDATE compute.host AS host
SET published = CASE WHEN host.wanted = done.wanted THEN done.wanted ELSE least(host.published, done.wanted) END,
    down_told = CASE WHEN host.wanted = done.wanted THEN host.forced_down OR host.silent ELSE host.down_told END
FROM (SELECT host.name, done.wanted FROM compute.host
    JOIN unnest($1::text[], $2::bigint[]) AS done (name, wanted) USING (name)
    ORDER BY host.name FOR NO KEY UPDATE OF host) AS done
WHERE host.name = done.name RETURNING host.published < host.wanted AS behind, host.name"""


async def mark_hosts_published(tx: Connection, rows: Sequence[HostRow]) -> dict[str, bool]:
    """Write that these states are published; return whether a host is behind all the same, by name, if it is there."""
    names, states = [row.host.name for row in rows], [row.state_wanted for row in rows]
    return {row["name"]: row["behind"] for row in await tx.fetch(MARK_PUBLISHED, names, states)}


# A clock that was set back leaves times in the future behind: they do not count as heard either.
HEARD_WITHIN = "coalesce(seen_at BETWEEN now() - {0}::interval AND now() + {0}::interval, false)"
HOST_HEARD, AGENT_HEARD = (
    HEARD_WITHIN.replace("seen_at", f"{table}.seen_at").format("$1") for table in ("host", "agent")
)

# Agents that were not heard of, and the hosts of those and of nobody: hosts of others are not looked at.
QUIET_HOSTS = f"""NOT host.silent AND NOT {HOST_HEARD}
    AND (host.agent_id IS NULL OR host.agent_id = ANY(ARRAY(
        SELECT agent.id FROM compute.agent WHERE NOT {AGENT_HEARD})))"""

NOTE_SILENT = f"""-- compute.note_silent_hosts
UPDATE compute.host SET silent = true, wanted = wanted + 1 WHERE name IN (
    SELECT host.name FROM compute.host WHERE {QUIET_HOSTS} ORDER BY host.name FOR NO KEY UPDATE)
RETURNING name"""
# The note has locked the hosts' agents: a poll that came before is seen now, one that comes later reads its hosts.
TAKE_BACK_SILENT = f"""-- compute.take_back_silent_hosts
UPDATE compute.host SET silent = false, wanted = wanted - 1
FROM compute.agent WHERE host.name = ANY($2::text[]) AND agent.id = host.agent_id
    AND {AGENT_HEARD}
RETURNING host.name"""


async def note_silent_hosts(tx: Connection, *, silent_after_s: float) -> list[str]:
    """Mark hosts silent that were not heard of for so long, on their rows or their agents'; return their names."""
    after = timedelta(seconds=silent_after_s)
    names = {row["name"] for row in await tx.fetch(NOTE_SILENT, after)}
    if names:  # R43
        names -= {row["name"] for row in await tx.fetch(TAKE_BACK_SILENT, after, sorted(names))}
    return sorted(names)


TOO_OLD = "(service_version > 0 AND service_version < $1)"

NOTE_TOO_OLD = f"""-- compute.note_hosts_too_old
UPDATE compute.host SET too_old = {TOO_OLD}, wanted = wanted + 1 WHERE name IN (
    SELECT name FROM compute.host WHERE too_old <> {TOO_OLD} ORDER BY name FOR NO KEY UPDATE)
RETURNING name, too_old"""


async def note_too_old_hosts(tx: Connection, *, version_min: int) -> dict[str, bool]:
    """Record on hosts whether their agents are too old; return host -> that, of those where it changed."""
    return {row["name"]: row["too_old"] for row in await tx.fetch(NOTE_TOO_OLD, version_min)}


# A promise runs from the end of the lease with which it was told: of today's length where that was not noted.
PROMISE_AFTER_S = "(coalesce(lease_length_s, $1) + fence_after_s * $2)"

NOTE_PROMISES = f"""-- compute.note_promises_kept
UPDATE compute.host SET promise_kept = true WHERE name IN (
    SELECT name FROM compute.host
    WHERE silent AND NOT promise_kept AND promised_at = seen_at AND {PROMISE_AFTER_S} <= $3
        AND {SEEN_AT} <= now() - {PROMISE_AFTER_S} * interval '1 second'
    ORDER BY name FOR NO KEY UPDATE)
RETURNING name"""


async def note_promises_kept(tx: Connection, *, lease_length_s: float, margin: float, listened_s: float) -> list[str]:
    """Mark silent hosts whose agents' promises are due: all their guests have their NICs down. Return their names.

    lease_length_s: of leases of which it was not noted. margin: what a promised time is multiplied by. listened_s: for
    how long somebody listened; a lease and promise of longer are not judged.
    """
    return sorted(row["name"] for row in await tx.fetch(NOTE_PROMISES, lease_length_s, margin, listened_s))


LIST_QUIET = f"""-- compute.list_quiet_hosts
SELECT name FROM compute.host WHERE silent UNION ALL SELECT name FROM compute.host WHERE {QUIET_HOSTS}"""


async def list_quiet_hosts(tx: Connection, *, quiet_after_s: float) -> set[str]:
    """Return the hosts that were not heard of for so long."""
    return {row["name"] for row in await tx.fetch(LIST_QUIET, timedelta(seconds=quiet_after_s))}


async def read_clock(tx: Connection) -> datetime:
    """Return the time of the database."""
    now = await tx.fetchval("-- compute.read_clock\nSELECT now()")
    assert isinstance(now, datetime)
    return now


COUNT_CLOSED = """-- compute.count_closed_hosts
SELECT count(*) FILTER (WHERE silent OR forced_down) AS down, count(*) FILTER (WHERE disabled) AS disabled,
    count(*) FILTER (WHERE cell_silent) AS cell_silent, count(*) FILTER (WHERE too_old) AS too_old,
    count(*) FILTER (WHERE idle) AS idle
FROM compute.host"""


async def count_closed_hosts(tx: Connection) -> tuple[int, int, int, int, int]:
    """Return how many hosts are down, disabled, of a cell without conductors, have too old an agent, and are idle.

    Some may be counted twice.
    """
    row = await tx.fetchrow(COUNT_CLOSED)
    return (row["down"], row["disabled"], row["cell_silent"], row["too_old"], row["idle"])


# Each host is counted once, by the first of these that it is.
COUNT_STATES = """-- compute.count_host_states
SELECT CASE WHEN waiting THEN 'waiting' WHEN silent OR forced_down THEN 'silent'
    WHEN disabled OR cell_silent OR too_old OR idle THEN 'closed' ELSE 'up' END AS state, count(*) AS hosts
FROM compute.host GROUP BY 1"""
HOST_STATES = ("up", "silent", "closed", "waiting")


async def count_states(tx: Connection) -> dict[str, int]:
    """Return state -> how many hosts: up, silent (or forced down), closed for servers, or waiting to be accepted."""
    return dict.fromkeys(HOST_STATES, 0) | {row["state"]: row["hosts"] for row in await tx.fetch(COUNT_STATES)}


COUNT_PROMISING = """-- compute.count_promising_hosts
SELECT count(*) FILTER (WHERE fence_after_s IS NOT NULL AND promised_at = seen_at) AS promising, count(*) AS hosts
FROM compute.host"""


async def count_promising(tx: Connection) -> tuple[int, int]:
    """Return how many hosts' agents promise to fence their guests, and how many hosts there are."""
    row = await tx.fetchrow(COUNT_PROMISING)
    return (row["promising"], row["hosts"]) if row else (0, 0)


LIST_EMPTY_AGGREGATES = """-- compute.list_empty_aggregates
SELECT asked.uuid FROM unnest($1::uuid[]) AS asked (uuid)
WHERE NOT EXISTS (SELECT FROM compute.host_aggregate_host h WHERE h.aggregate_uuid = asked.uuid)"""


async def list_empty_aggregates(tx: Connection, uuids: Sequence[str]) -> set[str]:
    """Return those of the host aggregates that have no host, or do not exist."""
    return {row[0] for row in await tx.fetch(LIST_EMPTY_AGGREGATES, uuids)}


HAS_ENABLED = """-- compute.has_enabled_host
SELECT EXISTS (SELECT FROM compute.host WHERE NOT disabled)"""


async def has_enabled_host(tx: Connection) -> bool:
    """Return whether there is a host that is not disabled."""
    return bool(await tx.fetchval(HAS_ENABLED))


LIST_HOSTS = f"""-- compute.list_hosts
SELECT {COLUMNS} FROM compute.host
WHERE name > $1 AND ($3::text[] IS NULL OR name = ANY($3)) AND ($4::text IS NULL OR strpos(name, $4) > 0)
ORDER BY name LIMIT $2"""


async def list_hosts(
    tx: Connection,
    names: Sequence[str] | None = None,
    *,
    after: str = "",
    limit: int | None = None,
    having: str | None = None,
) -> list[Host]:
    """Return hosts by name, above `after`; names None: of all; limit None: all of them; having: in the name."""
    return [_row(row).host for row in await tx.fetch(LIST_HOSTS, after, limit, names, having)]


READ_DECLARED = """
-- compute.read_declared_hosts
SELECT changes, CASE WHEN changes IS DISTINCT FROM $1
    THEN ARRAY(SELECT name FROM compute.host WHERE declared ORDER BY name) END AS names
FROM compute.declared_hosts
"""


async def read_declared(tx: Connection, known: DeclaredHosts | None) -> DeclaredHosts:
    """Return the hosts that a cloud file declared, by name; `known` itself where nothing has changed since."""
    row = await tx.fetchrow(READ_DECLARED, known.changes if known else None)
    assert row is not None
    return DeclaredHosts(row["changes"], tuple(row["names"])) if known is None or row["names"] is not None else known


FIND_HOST = f"""-- compute.find_host
SELECT {COLUMNS} FROM compute.host WHERE provider_uuid = $1 OR id = $2"""


async def find_host(tx: Connection, *, provider_uuid: str | None = None, number: int | None = None) -> Host | None:
    """Return the host with that provider, or with that number."""
    row = await tx.fetchrow(FIND_HOST, provider_uuid, number)
    return None if row is None else _row(row).host


LIST_SERVERS_ON = """-- compute.list_servers_on
SELECT host, id, name FROM compute.server WHERE host = ANY($1::text[]) AND deleted_at IS NULL ORDER BY host, sequence"""


async def list_servers_on(tx: Connection, names: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return (id, name) of each server on the hosts; a host without any is left out."""
    rows = await tx.fetch(LIST_SERVERS_ON, names)
    return grouped((row["host"], (row["id"], row["name"])) for row in rows)


# Who disables a host again without a reason leaves the one that was given. Who enables one has accepted it.
SET_HOST_STATE = f"""-- compute.set_host_state
UPDATE compute.host SET disabled = coalesce($2, disabled), forced_down = coalesce($3, forced_down), updated_at = now(),
    disabled_reason = CASE WHEN coalesce($2, disabled) THEN coalesce($4, disabled_reason) END,
    waiting = waiting AND coalesce($2, disabled),
    wanted = wanted + (coalesce($2, disabled) <> disabled OR coalesce($3, forced_down) <> forced_down)::int
FROM (SELECT name AS name_locked, disabled AS was_disabled, forced_down AS was_forced_down
    FROM compute.host WHERE name = $1 FOR NO KEY UPDATE) AS before
WHERE name = name_locked RETURNING {COLUMNS}, was_disabled, was_forced_down"""


async def set_host_state(
    tx: Connection, name: str, *, disabled: bool | None, forced_down: bool | None, disabled_reason: str | None
) -> HostStateChange | None:
    """Change the host; return it as it is then, and what it was before, None where there is none."""
    row = await tx.fetchrow(SET_HOST_STATE, name, disabled, forced_down, disabled_reason)
    if row is None:
        return None
    fields = dict(row)
    was_disabled, was_forced_down = fields.pop("was_disabled"), fields.pop("was_forced_down")
    return HostStateChange(host=_row(fields).host, was_disabled=was_disabled, was_forced_down=was_forced_down)


LIST_BELOW = """-- compute.list_hosts_below
SELECT name FROM compute.host WHERE NOT silent AND NOT forced_down AND NOT disabled
    AND service_version >= $3 AND service_version < $1
ORDER BY name LIMIT $2"""


async def list_hosts_below(tx: Connection, version: int, *, version_min: int = 1, limit: int) -> list[str]:
    """Return hosts that live and are enabled whose agents are of an older service version, from version_min on."""
    return [row["name"] for row in await tx.fetch(LIST_BELOW, version, limit, version_min)]


COUNT_SERVERS = """-- compute.count_servers
SELECT host, count(*) AS servers FROM compute.server WHERE host = ANY($1::text[]) AND deleted_at IS NULL
GROUP BY host"""


async def count_servers(tx: Connection, names: Sequence[str]) -> dict[str, int]:
    """Return how many servers each host has; a host without any is left out."""
    return {row["host"]: row["servers"] for row in await tx.fetch(COUNT_SERVERS, names)}


# A guest that is to be gone keeps no host: with a host that is no more, its row goes.
LOCK_HOST_USE = """-- compute.lock_host_use
SELECT EXISTS (SELECT FROM compute.server WHERE host = $1 AND deleted_at IS NULL) AS servers,
    EXISTS (SELECT FROM compute.guest WHERE host = $1 AND desired <> 'absent') AS guests,
    EXISTS (SELECT FROM compute.move WHERE open AND $1 IN (source_host, dest_host)) AS moves
FROM compute.host WHERE name = $1 FOR UPDATE"""


async def lock_host_use(tx: Connection, name: str) -> HostUse | None:
    """Lock the host; return what uses it, None where there is no such host."""
    row = await tx.fetchrow(LOCK_HOST_USE, name)
    if row is None:
        return None
    if row["moves"] and not row["servers"]:
        return HostUse.MOVES
    return HostUse.SERVERS if row["servers"] or row["guests"] else HostUse.NOTHING


DELETE_HOST = """-- compute.delete_host
WITH guests AS (DELETE FROM compute.guest WHERE host = $1
), unknown AS (DELETE FROM compute.unknown_guest WHERE host = $1
), memberships AS (DELETE FROM compute.host_aggregate_host WHERE host = $1)
DELETE FROM compute.host WHERE name = $1"""


async def delete_host(tx: Connection, name: str) -> None:
    """Delete a locked host, and what is known of guests there."""
    await tx.execute(DELETE_HOST, name)


def host_of(row: Any) -> Host:
    """Return the host of a row with COLUMNS."""
    return _row(row).host


def _row(row: Any) -> HostRow:
    fields = {**row, "physical_networks": tuple(row["physical_networks"])}
    states = fields.pop("wanted"), fields.pop("published"), fields.pop("created", False)
    return HostRow(Host(**fields), *states)
