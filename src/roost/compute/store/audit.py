"""SQL of the compute service's audit: servers that nothing works on, and hosts with the aggregates they are in."""

from collections.abc import Sequence
from typing import Any

import msgspec

from roost.compute.audit import QuietServer
from roost.platform.database import Connection
from roost.seams.compute import RequestSpec, ServerPort

LIST_QUIET = """-- compute.audit_servers
SELECT server.id, server.name, server.project_id, server.user_id, server.host, host.provider_uuid, server.spec,
    server.network_info
FROM compute.server LEFT JOIN compute.host ON host.name = server.host
WHERE server.status = 'ACTIVE' AND server.deleted_at IS NULL
    AND NOT EXISTS (SELECT FROM compute.work WHERE work.server_id = server.id)
    AND ($1::uuid IS NULL OR server.id > $1) AND ($3::uuid[] IS NULL OR server.id = ANY($3))
ORDER BY server.id LIMIT $2"""


async def list_quiet(tx: Connection, *, after: str, limit: int, ids: Sequence[str] | None = None) -> list[QuietServer]:
    """A page of the ACTIVE servers without work, by id; or those of the ids that are such."""
    return [_server(row) for row in await tx.fetch(LIST_QUIET, after or None, limit, ids)]


SET_NETWORK_INFO = """-- compute.audit_set_network_info
UPDATE compute.server SET network_info = $3::jsonb, updated_at = now()
WHERE id = $1 AND network_info = $2::jsonb AND status = 'ACTIVE'
    AND NOT EXISTS (SELECT FROM compute.work WHERE work.server_id = $1)"""


async def set_network_info(
    tx: Connection, server_id: str, *, old: Sequence[ServerPort], new: Sequence[ServerPort]
) -> bool:
    """Keep these ports with the server, unless it has others than `old` by now, or is worked on."""
    done = await tx.execute(SET_NETWORK_INFO, server_id, _encode(old), _encode(new))
    return bool(done == "UPDATE 1")


LIST_HOST_PROVIDERS = """-- compute.audit_hosts
SELECT host.name, host.provider_uuid,
    ARRAY(SELECT aggregate_uuid FROM compute.host_aggregate_host AS member WHERE member.host = host.name) AS aggregates
FROM compute.host WHERE host.name > $1 AND host.published >= host.wanted ORDER BY host.name LIMIT $2"""


async def list_host_providers(tx: Connection, *, after: str, limit: int) -> dict[str, tuple[str, frozenset[str]]]:
    """A page of the hosts of which all is published, by name: their provider and their host aggregates."""
    rows = await tx.fetch(LIST_HOST_PROVIDERS, after, limit)
    return {row["name"]: (row["provider_uuid"], frozenset(row["aggregates"])) for row in rows}


LIST_AGGREGATE_NAMES = """-- compute.audit_aggregate_names
SELECT uuid, name FROM compute.host_aggregate"""


async def list_aggregate_names(tx: Connection) -> dict[str, str]:
    """UUID -> name of every host aggregate."""
    return {row["uuid"]: row["name"] for row in await tx.fetch(LIST_AGGREGATE_NAMES)}


WANT_HOSTS = """-- compute.audit_want_hosts
UPDATE compute.host SET wanted = wanted + 1 WHERE name = ANY($1::text[])"""


async def want_hosts(tx: Connection, names: Sequence[str]) -> None:
    """All about these hosts is to be published again."""
    await tx.execute(WANT_HOSTS, names)


def _server(row: Any) -> QuietServer:
    fields = dict(row)
    fields["spec"] = msgspec.json.decode(fields["spec"], type=RequestSpec)
    fields["ports"] = msgspec.json.decode(fields.pop("network_info"), type=tuple[ServerPort, ...])
    return QuietServer(**fields)


def _encode(ports: Sequence[ServerPort]) -> str:
    return msgspec.json.encode(ports).decode()
