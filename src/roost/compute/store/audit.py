"""SQL of the compute service's audit: servers that nothing works on, and hosts with the aggregates they are in."""

from collections.abc import Sequence

from roost.compute.model.server import QuietServer
from roost.platform.database import Connection
from roost.platform.rows import read_row

QUIET = """server.status = 'ACTIVE' AND server.deleted_at IS NULL
    AND NOT EXISTS (SELECT FROM compute.work WHERE work.server_id = server.id)"""

LIST_QUIET_IDS = f"""-- compute.audit_server_ids
SELECT id FROM compute.server WHERE {QUIET} AND ($1::uuid IS NULL OR id > $1) ORDER BY id LIMIT $2"""  # noqa: S608


async def list_quiet_ids(tx: Connection, *, after: str, limit: int) -> list[str]:
    """Return a page of the ACTIVE servers without work, by id."""
    return [row["id"] for row in await tx.fetch(LIST_QUIET_IDS, after or None, limit)]


LIST_QUIET = f"""-- compute.audit_servers
SELECT server.id, server.name, server.project_id, server.user_id, server.host, host.provider_uuid, server.spec,
    server.network_info AS ports, server.build_order AS order
FROM compute.server LEFT JOIN compute.host ON host.name = server.host
WHERE {QUIET} AND server.id = ANY($1::uuid[]) ORDER BY server.id"""  # noqa: S608


async def list_quiet(tx: Connection, server_ids: Sequence[str]) -> list[QuietServer]:
    """Return those of the servers that are ACTIVE and without work, by id."""
    return [read_row(QuietServer, row, "spec", "ports", "order") for row in await tx.fetch(LIST_QUIET, server_ids)]


# Guests, servers and their work change in one transaction, so what one statement sees is so.
STRAY = """desired <> 'absent'
    AND NOT EXISTS (SELECT FROM compute.work WHERE work.server_id = guest.server_id)
    AND NOT EXISTS (SELECT FROM compute.move WHERE move.server_id = guest.server_id AND move.open)
    AND NOT EXISTS (SELECT FROM compute.server WHERE server.id = guest.server_id AND server.host = guest.host)"""

LIST_STRAY_GUESTS = f"""-- compute.audit_stray_guests
SELECT server_id, host FROM compute.guest WHERE {STRAY} ORDER BY server_id, host LIMIT $1"""  # noqa: S608

WITHDRAW_STRAY_GUESTS = f"""-- compute.audit_withdraw_guests
UPDATE compute.guest AS mine SET desired = 'absent' FROM (
    SELECT server_id, host FROM compute.guest WHERE server_id = ANY($1::uuid[]) AND {STRAY}
    ORDER BY server_id, host FOR UPDATE
) AS stray WHERE mine.server_id = stray.server_id AND mine.host = stray.host"""  # noqa: S608


async def list_stray_guests(tx: Connection, *, limit: int) -> list[tuple[str, str]]:
    """Return the first of the (server id, host) of guests that no server has."""
    return [(row["server_id"], row["host"]) for row in await tx.fetch(LIST_STRAY_GUESTS, limit)]


async def withdraw_stray_guests(tx: Connection, server_ids: Sequence[str]) -> None:
    """Ask the hosts to destroy these guests, as far as no server has them."""
    await tx.execute(WITHDRAW_STRAY_GUESTS, server_ids)


LIST_MISSING_GUESTS = """-- compute.audit_missing_guests
SELECT id, name, host FROM compute.server WHERE status = 'ACTIVE' AND deleted_at IS NULL
    AND NOT EXISTS (SELECT FROM compute.work WHERE work.server_id = server.id)
    AND NOT EXISTS (SELECT FROM compute.guest
        WHERE guest.server_id = server.id AND guest.host = server.host AND guest.desired <> 'absent')
UNION ALL
SELECT guest.server_id, coalesce(server.name, ''), guest.host
FROM compute.guest LEFT JOIN compute.server ON server.id = guest.server_id
WHERE guest.lost_at IS NOT NULL AND guest.fenced_by IS NULL
ORDER BY id LIMIT $1"""


async def list_missing_guests(tx: Connection, *, limit: int) -> list[tuple[str, str, str | None]]:
    """Return the first of the servers that their host is not asked to run, or has lost: id, name, host."""
    return [(row["id"], row["name"], row["host"]) for row in await tx.fetch(LIST_MISSING_GUESTS, limit)]


LIST_PUBLISHED_HOSTS = """-- compute.audit_hosts
SELECT name FROM compute.host WHERE name > $1 AND published >= wanted ORDER BY name LIMIT $2"""


async def list_published_hosts(tx: Connection, *, after: str, limit: int) -> list[str]:
    """Return a page of the hosts of which all is published, by name."""
    return [row["name"] for row in await tx.fetch(LIST_PUBLISHED_HOSTS, after, limit)]


LIST_HOST_AGGREGATES = """-- compute.audit_host_aggregates
SELECT host.name,
    ARRAY(SELECT aggregate_uuid FROM compute.host_aggregate_host AS member WHERE member.host = host.name) AS aggregates
FROM compute.host WHERE host.name = ANY($1::text[]) AND host.published >= host.wanted ORDER BY host.name"""


async def list_host_aggregates(tx: Connection, names: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return those of the hosts of which all is published, by name: the host aggregates that each is in."""
    rows = await tx.fetch(LIST_HOST_AGGREGATES, names)
    return {row["name"]: frozenset(row["aggregates"]) for row in rows}
