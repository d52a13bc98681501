"""SQL of hosts: what they have, when they were last heard of, and whether their providers are told."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from roost.compute.model import Host
from roost.platform.database import Connection


class HostRow(Struct, frozen=True):
    """A host, and which state of it was wanted and published when it was read."""

    host: Host
    wanted: int
    published: int


class HostUpsert(Struct, frozen=True, kw_only=True):
    """A reported host as a row; physical_networks sorted, each once."""

    name: str
    provider_uuid: str
    vcpus: int
    ram_mb: int
    disk_gb: int
    physical_networks: tuple[str, ...]
    cell: str
    service_version: int


# $-numbers differ from statement to statement, so each names its own for host_down_after.
COLUMNS = """host.id, host.disabled_reason,
    host.name, host.provider_uuid, host.vcpus, host.ram_mb, host.disk_gb, host.physical_networks, host.cell,
    host.declared, host.disabled, host.forced_down, host.service_version, host.seen_at, host.wanted, host.published"""

UPSERT_HOSTS = f"""-- compute.upsert_hosts
INSERT INTO compute.host AS host
    (name, provider_uuid, vcpus, ram_mb, disk_gb, physical_networks, cell, declared, service_version, seen_at)
SELECT name, provider_uuid, vcpus, ram_mb, disk_gb, physical_networks, cell, $2,
    CASE WHEN $2 THEN 0 ELSE service_version END, CASE WHEN $2 THEN NULL ELSE now() END
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
        THEN 1 ELSE 0 END,
    declared = host.declared OR excluded.declared,
    service_version = CASE WHEN excluded.declared THEN host.service_version ELSE excluded.service_version END,
    seen_at = coalesce(excluded.seen_at, host.seen_at),
    updated_at = now()
RETURNING {COLUMNS}, host.forced_down OR host.seen_at IS NULL OR host.seen_at < now() - $3::interval AS down"""


async def upsert_hosts(
    tx: Connection, hosts: Sequence[HostUpsert], *, declared: bool, down_after_s: float
) -> list[HostRow]:
    """Make or change hosts; where a host is declared, what its agent says of its size changes nothing."""
    reports = msgspec.json.encode(hosts).decode()
    rows = await tx.fetch(UPSERT_HOSTS, reports, declared, timedelta(seconds=down_after_s))
    return [_row(row) for row in rows]


DOWN = "host.forced_down OR host.seen_at IS NULL OR host.seen_at < now() - $1::interval AS down"

LIST_UNPUBLISHED = f"""-- compute.list_unpublished_hosts
SELECT {COLUMNS}, {DOWN} FROM compute.host
WHERE published < wanted AND name > $2 AND ($4::text[] IS NULL OR name = ANY($4)) ORDER BY name LIMIT $3"""


async def list_unpublished_hosts(
    tx: Connection, *, after: str, limit: int, names: Sequence[str] | None, down_after_s: float
) -> list[HostRow]:
    """A page of the hosts whose providers are behind, by name; names None: of all hosts."""
    page = await tx.fetch(LIST_UNPUBLISHED, timedelta(seconds=down_after_s), after, limit, names)
    return [_row(row) for row in page]


# A publisher that was overtaken may have written an older state last: then the host is behind again.
LIST_BEHIND = """-- compute.list_hosts_behind
SELECT name FROM compute.host WHERE published < wanted"""


async def list_behind(tx: Connection) -> set[str]:
    """Hosts whose state is not all published."""
    return {row["name"] for row in await tx.fetch(LIST_BEHIND)}


MARK_PUBLISHED = """-- compute.mark_hosts_published
UPDATE compute.host AS host
SET published = CASE WHEN host.wanted = done.wanted THEN done.wanted ELSE least(host.published, done.wanted) END
FROM (SELECT host.name, done.wanted FROM compute.host
    JOIN unnest($1::text[], $2::bigint[]) AS done (name, wanted) USING (name)
    ORDER BY host.name FOR NO KEY UPDATE OF host) AS done
WHERE host.name = done.name RETURNING host.published < host.wanted AS behind, host.name"""


async def mark_hosts_published(tx: Connection, rows: Sequence[HostRow]) -> set[str]:
    """The states that these rows show are published; returns the hosts that are behind nevertheless."""
    names, wanted = [row.host.name for row in rows], [row.wanted for row in rows]
    return {row["name"] for row in await tx.fetch(MARK_PUBLISHED, names, wanted) if row["behind"]}


HEARTBEAT = """-- compute.heartbeat
UPDATE compute.host SET seen_at = now() WHERE name IN (
    SELECT name FROM compute.host WHERE name = ANY($1::text[])
    AND (seen_at IS NULL OR seen_at < now() - $2::interval) ORDER BY name FOR NO KEY UPDATE)"""


async def heartbeat(tx: Connection, names: Sequence[str], *, older_than_s: float) -> None:
    """The hosts were heard of now; a row that says so already, give or take older_than_s, is not written."""
    await tx.execute(HEARTBEAT, names, timedelta(seconds=older_than_s))


LIST_HOSTS = f"""-- compute.list_hosts
SELECT {COLUMNS}, {DOWN} FROM compute.host
WHERE name > $2 AND ($4::text[] IS NULL OR name = ANY($4)) AND ($5::text IS NULL OR strpos(name, $5) > 0)
ORDER BY name LIMIT $3"""


async def list_hosts(
    tx: Connection,
    *,
    after: str,
    limit: int | None,
    names: Sequence[str] | None,
    down_after_s: float,
    having: str | None = None,
) -> list[Host]:
    """A page of hosts by name, above `after`; names None: of all; limit None: all of them; having: in the name."""
    page = await tx.fetch(LIST_HOSTS, timedelta(seconds=down_after_s), after, limit, names, having)
    return [_row(row).host for row in page]


FIND_HOST = f"""-- compute.find_host
SELECT {COLUMNS}, {DOWN} FROM compute.host WHERE provider_uuid = $2 OR id = $3"""


async def find_host(
    tx: Connection, *, provider_uuid: str | None, number: int | None, down_after_s: float
) -> Host | None:
    """Return the host with that provider, or with that number."""
    row = await tx.fetchrow(FIND_HOST, timedelta(seconds=down_after_s), provider_uuid, number)
    return None if row is None else _row(row).host


LIST_SERVERS_ON = """-- compute.list_servers_on
SELECT host, id, name FROM compute.server WHERE host = ANY($1::text[]) AND deleted_at IS NULL ORDER BY host, sequence"""


async def list_servers_on(tx: Connection, names: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return (id, name) of each server on the hosts; a host without any is left out."""
    servers: dict[str, list[tuple[str, str]]] = {}
    for row in await tx.fetch(LIST_SERVERS_ON, names):
        servers.setdefault(row["host"], []).append((row["id"], row["name"]))
    return servers


# Who disables a host again without a reason leaves the one that was given.
SET_HOST_STATE = f"""-- compute.set_host_state
UPDATE compute.host SET disabled = coalesce($3, disabled), forced_down = coalesce($4, forced_down), updated_at = now(),
    disabled_reason = CASE WHEN coalesce($3, disabled) THEN coalesce($5, disabled_reason) END,
    wanted = wanted + (coalesce($3, disabled) <> disabled OR coalesce($4, forced_down) <> forced_down)::int
WHERE name = $2 RETURNING {COLUMNS}, {DOWN}"""


async def set_host_state(
    tx: Connection,
    name: str,
    *,
    disabled: bool | None,
    forced_down: bool | None,
    disabled_reason: str | None,
    down_after_s: float,
) -> Host | None:
    """The host then; None where there is none."""
    row = await tx.fetchrow(
        SET_HOST_STATE, timedelta(seconds=down_after_s), name, disabled, forced_down, disabled_reason
    )
    return None if row is None else _row(row).host


COUNT_SERVERS = """-- compute.count_servers
SELECT host, count(*) AS servers FROM compute.server WHERE host = ANY($1::text[]) AND deleted_at IS NULL
GROUP BY host"""


async def count_servers(tx: Connection, names: Sequence[str]) -> dict[str, int]:
    """How many servers each host has; a host without any is left out."""
    return {row["host"]: row["servers"] for row in await tx.fetch(COUNT_SERVERS, names)}


def _row(row: Any) -> HostRow:
    host = Host(
        id=row["id"],
        disabled_reason=row["disabled_reason"],
        name=row["name"],
        provider_uuid=row["provider_uuid"],
        vcpus=row["vcpus"],
        ram_mb=row["ram_mb"],
        disk_gb=row["disk_gb"],
        physical_networks=tuple(row["physical_networks"]),
        cell=row["cell"],
        declared=row["declared"],
        disabled=row["disabled"],
        forced_down=row["forced_down"],
        service_version=row["service_version"],
        seen_at=row["seen_at"],
        down=row["down"],
    )
    return HostRow(host, row["wanted"], row["published"])
