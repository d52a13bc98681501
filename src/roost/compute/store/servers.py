"""SQL of servers. Whoever needs both locks takes the work row first, then the server."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from roost.compute.model.server import NewServers, Server, ServerFilter
from roost.compute.model.work import Stage
from roost.platform.database import Connection
from roost.platform.rows import encode, read_row
from roost.platform.turns import in_turns

INSERT_SERVERS = """-- compute.insert_servers
INSERT INTO compute.server (id, name, launch_index, project_id, user_id, flavor, image_ref, metadata, description,
    reservation_id, spec, tags, request_id, hostname, task_state, global_request_id)
SELECT id, name, index - 1, $3, $4, $5::jsonb, $6, $7::jsonb, $8, $9, $10::jsonb, $11::text[], $12, hostname,
    'scheduling', $14
FROM unnest($1::uuid[], $2::text[], $13::text[]) WITH ORDINALITY AS new (id, name, hostname, index) ORDER BY index"""

INSERT_WORK = """-- compute.insert_work
INSERT INTO compute.work (server_id, stage, project_id) SELECT id, $2, $3 FROM unnest($1::uuid[]) AS id"""


async def insert_servers(tx: Connection, new: NewServers, *, global_request_id: str | None = None) -> None:
    """Insert the servers, and for each the work row that makes it. global_request_id: as the caller has it."""
    await tx.execute(
        INSERT_SERVERS,
        new.server_ids,
        new.names,
        new.project_id,
        new.user_id,
        encode(new.flavor),
        new.request.image_ref,
        encode(new.request.metadata),
        new.request.description,
        new.reservation_id,
        encode(new.spec),
        new.request.tags,
        new.request_id,
        new.hostnames,
        global_request_id,
    )
    await tx.execute(INSERT_WORK, new.server_ids, Stage.CREATE_PORTS.value, new.project_id)


DOWN_HOST = """EXISTS (SELECT FROM compute.host WHERE host.name = server.host AND
    (host.forced_down OR host.silent))"""

# R29: the work row, if there is one, before the server.
LOCK_WORK = """-- compute.lock_work_to_delete
SELECT server_id FROM compute.work WHERE server_id = ANY($1::uuid[]) ORDER BY server_id FOR UPDATE"""

MARK_DELETING = f"""-- compute.mark_deleting
UPDATE compute.server AS server SET task_state = 'deleting', updated_at = now(),
    deleted_at = CASE WHEN {DOWN_HOST} THEN now() END
FROM (SELECT id, task_state FROM compute.server WHERE id = ANY($1::uuid[]) AND deleted_at IS NULL
    ORDER BY id FOR UPDATE) AS before
WHERE server.id = before.id RETURNING server.id, locked, before.task_state IS NOT DISTINCT FROM 'deleting' AS again"""

# A conductor that holds the row goes to the delete stage itself when it sees `deleting`; only at launch nobody works.
WANT_DELETE = f"""-- compute.want_delete
WITH marked AS (
    UPDATE compute.work SET deleting = true,
        stage = CASE WHEN {{idle}} THEN '{Stage.DELETE.value}' ELSE stage END,
        lease_owner = CASE WHEN {{idle}} THEN NULL ELSE lease_owner END,
        lease_until = CASE WHEN {{idle}} THEN NULL ELSE lease_until END,
        run_at = CASE WHEN {{idle}} THEN now() ELSE run_at END
    WHERE server_id = ANY($2::uuid[]) RETURNING server_id
), made AS (
    INSERT INTO compute.work (server_id, stage, deleting, project_id)
    SELECT id, '{Stage.DELETE.value}', true, project_id FROM compute.server
    WHERE id = ANY($1::uuid[]) AND id <> ALL ($2::uuid[]) ORDER BY id
    ON CONFLICT (server_id) DO NOTHING RETURNING server_id
)
SELECT count(*) FROM (SELECT FROM marked UNION ALL SELECT FROM made) AS work""".format(
    idle=f"lease_until IS NULL OR lease_until <= now() OR stage = '{Stage.LAUNCH.value}'"
)


class DeleteMark(Struct, frozen=True):
    """A server that is to be deleted. again: it was before."""

    id: str
    locked: bool
    again: bool


async def lock_work(tx: Connection, server_ids: Sequence[str]) -> list[str]:
    """Lock the work of those of the servers that have any; return them. It comes before all else of a delete."""
    return [row[0] for row in await tx.fetch(LOCK_WORK, server_ids)]


async def mark_deleting(tx: Connection, server_ids: Sequence[str]) -> dict[str, DeleteMark]:
    """Lock the servers and mark them as being deleted; return those that exist, by id.

    One on a host that is down is gone for every client from now on.
    """
    return {row["id"]: DeleteMark(**row) for row in await tx.fetch(MARK_DELETING, server_ids)}


async def want_delete(tx: Connection, server_ids: Sequence[str], *, at_work: Sequence[str]) -> bool:
    """Order the delete of locked servers, at whatever stage they are. at_work: those whose work was locked before.

    Return False where other work of one has begun since, as a move; another try sees it.
    """
    return bool(await tx.fetchval(WANT_DELETE, server_ids, at_work) == len(server_ids))


MARK_GONE = f"""-- compute.mark_gone
UPDATE compute.server AS server SET updated_at = now(), deleted_at = now()
WHERE id = ANY($1::uuid[]) AND deleted_at IS NULL AND task_state = 'deleting' AND {DOWN_HOST}"""


async def mark_gone(tx: Connection, server_ids: Sequence[str]) -> None:
    """Show no client any more those of the servers that are being deleted and whose host has gone down meanwhile."""
    await tx.execute(MARK_GONE, server_ids)


VM_STATE = """CASE server.status WHEN 'BUILD' THEN 'building' WHEN 'VERIFY_RESIZE' THEN 'resized'
    WHEN 'ACTIVE' THEN CASE WHEN server.power = 'running' THEN 'active'
        WHEN server.power = 'stopped' AND server.shelved THEN 'shelved' ELSE server.power END
    ELSE lower(server.status) END"""
"""What the server is, as OS-EXT-STS:vm_state names it."""

STATUS = """CASE
    WHEN server.status = 'VERIFY_RESIZE' AND server.task_state = 'resize_reverting' THEN 'REVERT_RESIZE'
    WHEN server.status IN ('ACTIVE', 'ERROR') AND server.task_state = 'rebuilding' THEN 'REBUILD'
    WHEN server.status <> 'ACTIVE' THEN server.status
    WHEN server.task_state LIKE 'resize\\_%' THEN 'RESIZE'
    WHEN server.task_state = 'migrating' THEN 'MIGRATING'
    WHEN server.power = 'running' AND server.task_state = 'rebooting_hard' THEN 'HARD_REBOOT'
    WHEN server.power = 'running' AND server.task_state = 'rebooting' THEN 'REBOOT'
    WHEN server.power = 'running' THEN 'ACTIVE' WHEN server.power = 'stopped' AND server.shelved THEN 'SHELVED'
    WHEN server.power = 'stopped' THEN 'SHUTOFF'
    ELSE upper(server.power) END"""
"""What clients are shown as the status. Source: nova/api/openstack/common.py, _STATE_MAP."""

ZONE = """(SELECT aggregate.metadata ->> 'availability_zone' FROM compute.host_aggregate_host AS member
    JOIN compute.host_aggregate AS aggregate ON aggregate.uuid = member.aggregate_uuid
    WHERE member.host = server.host AND aggregate.metadata ? 'availability_zone' LIMIT 1)"""

COLUMNS = f"""server.id, server.name, server.project_id, server.user_id, server.flavor, server.image_ref,
    server.metadata, server.description, server.reservation_id, server.launch_index, server.spec,
    server.network_info AS ports, {STATUS} AS status, {VM_STATE} AS vm_state, server.task_state, server.host,
    server.fault, server.created_at, server.updated_at, server.launched_at, server.power, server.power_state,
    server.locked, server.locked_reason, server.tags,
    server.request_id, coalesce(server.hostname, server.name) AS hostname, server.build_order AS order,
    coalesce(host.forced_down OR host.silent, false) AS host_down, {ZONE} AS zone
FROM compute.server LEFT JOIN compute.host ON host.name = server.host"""

FIND_SERVER = f"""-- compute.find_server
SELECT {COLUMNS} WHERE server.id = $1::uuid AND server.deleted_at IS NULL"""


async def find_server(tx: Connection, server_id: str) -> Server | None:
    """Return the server, unless it is gone."""
    row = await tx.fetchrow(FIND_SERVER, server_id)
    return None if row is None else _server(row)


GET_SERVERS = f"""-- compute.get_servers
SELECT {COLUMNS} WHERE server.id = ANY($1::uuid[]) AND server.deleted_at IS NULL"""


async def get_servers(tx: Connection, server_ids: Sequence[str]) -> dict[str, Server]:
    """Return the servers by id; those that are gone are left out."""
    servers = await in_turns(_server, await tx.fetch(GET_SERVERS, server_ids))
    return {server.id: server for server in servers}


HAS_ADDRESS = """EXISTS (SELECT FROM jsonb_array_elements(server.network_info) AS port,
    jsonb_array_elements_text(port -> 'addresses') AS address
    WHERE family(address::inet) = {family} AND address {matches} {pattern})"""

# The parameters are a ServerFilter's fields, in their order.
CONDITIONS = f"""server.deleted_at IS NULL
    AND ($1::text IS NULL OR server.project_id = $1) AND ($2::text IS NULL OR server.user_id = $2)
    AND ($3::text IS NULL OR server.name {{matches}} $3) AND ($4::text[] IS NULL OR ({STATUS}) = ANY($4))
    AND ($5::text IS NULL OR server.task_state = $5) AND ($6::text IS NULL OR server.host = $6)
    AND ($7::text IS NULL OR server.flavor ->> 'id' = $7) AND ($8::text IS NULL OR server.image_ref = $8)
    AND ($9::text IS NULL OR {HAS_ADDRESS.format(family=4, matches="{matches}", pattern="$9")})
    AND ($10::text IS NULL OR {HAS_ADDRESS.format(family=6, matches="{matches}", pattern="$10")})
    AND ($11::text IS NULL OR server.reservation_id = $11) AND ($12::uuid IS NULL OR server.id = $12)
    AND ($13::text IS NULL OR ({VM_STATE}) = $13) AND ($14::boolean IS NULL OR server.locked = $14)
    AND ($15::text[] IS NULL OR server.tags @> $15) AND ($16::text[] IS NULL OR server.tags && $16)
    AND ($17::text[] IS NULL OR NOT server.tags @> $17) AND ($18::text[] IS NULL OR NOT server.tags && $18)
    AND ($19::text IS NULL OR server.host IS NOT NULL AND coalesce({ZONE}, $20::text) = $19)"""

LIST_SERVERS = f"""-- compute.list_servers
SELECT {COLUMNS} WHERE {CONDITIONS} AND ($21::bigint IS NULL OR server.sequence {{beyond}} $21)
ORDER BY server.sequence {{order}} LIMIT $22"""


async def list_servers(
    tx: Connection,
    only: ServerFilter,
    *,
    by_patterns: bool,
    after_sequence: int | None,
    limit: int,
    descending: bool,
) -> list[Server]:
    """Return a page in the order of creation.

    by_patterns: name, ip and ip6 are regular expressions; else they are as LIKE has them. Raises asyncpg's
    InvalidRegularExpressionError.
    """
    beyond, order = ("<", "DESC") if descending else (">", "ASC")
    statement = LIST_SERVERS.format(matches="~" if by_patterns else "LIKE", beyond=beyond, order=order)
    rows = await tx.fetch(statement, *astuple(only), after_sequence, limit)
    return await in_turns(_server, rows)


LOCK_PATTERNS = """-- compute.lock_patterns
SELECT pg_advisory_xact_lock($1, hashtext($2))"""
PATTERN_SPACE = 0x524F5350
"""The first key of the locks of projects that look by patterns."""


async def lock_patterns(tx: Connection, project_id: str) -> None:
    """Wait until no other transaction looks by patterns for the project; "" for who looks at all projects' servers."""
    await tx.execute(LOCK_PATTERNS, PATTERN_SPACE, project_id)


FIND_SEQUENCE = """-- compute.find_sequence
SELECT sequence FROM compute.server WHERE id = $1 AND ($2::text IS NULL OR project_id = $2)"""


async def find_sequence(tx: Connection, server_id: str, *, project_id: str | None) -> int | None:
    """Return where in the order of creation the server is, deleted or not; project_id None: of any project."""
    sequence: int | None = await tx.fetchval(FIND_SEQUENCE, server_id, project_id)
    return sequence


LOCK_SERVER = f"""-- compute.lock_server
{FIND_SERVER.partition(chr(10))[2]} FOR UPDATE OF server"""


async def lock_server(tx: Connection, server_id: str) -> Server | None:
    """Lock the server; what is beside it, such as its work, is to be read afterwards."""
    row = await tx.fetchrow(LOCK_SERVER, server_id)
    return None if row is None else _server(row)


def _server(row: Any) -> Server:
    return read_row(Server, row, "flavor", "metadata", "spec", "ports", "fault", "order")
