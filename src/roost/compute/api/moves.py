"""Migrations: the record of every move that was asked for, and the live ones that are under way."""

from functools import partial
from typing import Any

from msgspec import Struct
from starlette.requests import Request

from roost.compute.api.access import access_of
from roost.compute.api.answers import MigrationAnswer, MigrationsAnswer, ServerMigrationsAnswer
from roost.compute.api.pages import read_page
from roost.compute.api.policies import ADMIN, MANAGER
from roost.compute.api.requests import (
    LIMIT,
    TIME,
    Parameter,
    Parameters,
    check_parameters,
    links,
    path_text,
    query,
    read_body,
    read_changed_between,
    text_parameter,
    timestamp_with_microseconds,
)
from roost.compute.errors import MigrationNotFound
from roost.compute.model.server import Migration, MigrationFilter
from roost.compute.model.work import MoveKind
from roost.compute.service import Compute
from roost.compute.service import moves as service
from roost.platform.auth import Policy
from roost.platform.errors import BadRequest
from roost.platform.http import canonical_uuid, is_uuid
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.turns import encode_in_turns

UUIDS_FROM, PROJECTS_FROM, TYPES_FROM = (2, 59), (2, 80), (2, 23)

PARAMETERS: Parameters = {
    **dict.fromkeys(("host", "instance_uuid", "source_compute", "status", "migration_type"), Parameter()),
    "hidden": Parameter(),
    "limit": Parameter(schema=LIMIT.schema, since=UUIDS_FROM),
    "marker": Parameter(schema={"type": "string", "format": "uuid"}, since=UUIDS_FROM),
    "changes-since": Parameter(schema=TIME, since=UUIDS_FROM),
    "changes-before": Parameter(schema=TIME, since=(2, 66)),
    **dict.fromkeys(("user_id", "project_id"), Parameter(since=PROJECTS_FROM)),
}
"""Of a list."""

RULES = "os_compute_api:os-migrations:"
SERVER_RULES = "os_compute_api:servers:migrations:"


class ForceCompleteBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the one action on a migration."""

    force_complete: None


class Migrations:
    """The operations of migrations."""

    def __init__(self, compute: Compute, policy: Policy) -> None:
        self.compute = compute
        self.policy = policy

    def operations(self) -> Operations:
        """Return them by path below /v2.1."""
        migration_path = "/servers/{server_id}/migrations/{migration_id}"
        return {
            "/os-migrations": {
                "GET": Operation(
                    summary="migrations, the youngest first",
                    endpoint=self._list_all,
                    rule=Rule(f"{RULES}index", ADMIN),
                    query=query(PARAMETERS),
                    result=MigrationsAnswer,
                )
            },
            "/servers/{server_id}/migrations": {
                "GET": Operation(
                    summary="the live migration of the server that is under way",
                    endpoint=self._list_of_server,
                    rule=Rule(f"{SERVER_RULES}index", ADMIN),
                    since=TYPES_FROM,
                    result=ServerMigrationsAnswer,
                )
            },
            migration_path: {
                "GET": Operation(
                    summary="a live migration that is under way",
                    endpoint=self._show_of_server,
                    rule=Rule(f"{SERVER_RULES}show", ADMIN),
                    since=TYPES_FROM,
                    result=MigrationAnswer,
                ),
                "DELETE": Operation(
                    summary="abort a live migration",
                    endpoint=self._abort,
                    rule=Rule(f"{SERVER_RULES}delete", MANAGER),
                    since=(2, 24),
                    status=202,
                    errors=(400,),
                ),
            },
            f"{migration_path}/action": {
                "POST": Operation(
                    summary="have the memory of a live migration taken over now, at the price of a longer pause",
                    endpoint=self._act,
                    rule=Rule(f"{SERVER_RULES}force_complete", MANAGER),
                    since=(2, 22),
                    body=ForceCompleteBody,
                    status=202,
                    errors=(400,),
                )
            },
        }

    async def _list_all(self, request: Request) -> dict[str, Any]:
        check_parameters(request, PARAMETERS)
        only = _read_filter(request)

        async def load(marker: str | None, limit: int) -> list[Migration]:
            if marker is not None and not is_uuid(marker):
                raise BadRequest(f"Marker {marker} could not be found.")
            return await service.list_migrations(self.compute, only, marker=marker, limit=limit)

        migrations, more = await read_page(request, "migrations", load, lambda migration: migration.uuid)
        if request.state.microversion < UUIDS_FROM:
            more = {}
        return {"migrations": await encode_in_turns(partial(_show, request), migrations)} | more

    async def _list_of_server(self, request: Request) -> dict[str, Any]:
        only = MigrationFilter(server_id=request.state.server.id, kind=MoveKind.LIVE.value, open=True)
        migrations = await service.list_migrations(self.compute, only, marker=None, limit=1)
        return {"migrations": [_show_live(request, migration) for migration in migrations]}

    async def _show_of_server(self, request: Request) -> dict[str, Any]:
        migration = await service.get_migration(self.compute, request.state.server.id, _migration_id(request))
        return {"migration": _show_live(request, migration)}

    async def _abort(self, request: Request) -> None:
        requester = access_of(self.compute, self.policy, request).requester
        await service.abort_migration(self.compute, request.state.server.id, _migration_id(request), requester)

    async def _act(self, request: Request) -> None:
        await read_body(request, ForceCompleteBody)
        requester = access_of(self.compute, self.policy, request).requester
        server_id = request.state.server.id
        await service.force_complete(self.compute, server_id, _migration_id(request), requester)


def _migration_id(request: Request) -> int:
    text = path_text(request, "migration_id")
    if not text.isdecimal() or len(text) > 18:
        raise MigrationNotFound(f"Migration {text} could not be found.")
    return int(text)


def _read_filter(request: Request) -> MigrationFilter:
    server_id = text_parameter(request, "instance_uuid")
    if server_id is not None:
        if not is_uuid(server_id):
            raise BadRequest(f"instance_uuid={server_id}: expected a UUID")
        server_id = canonical_uuid(server_id)
    changed_since, changed_before = read_changed_between(request)
    return MigrationFilter(
        server_id=server_id,
        status=text_parameter(request, "status"),
        kind=text_parameter(request, "migration_type"),
        host=text_parameter(request, "host"),
        source_host=text_parameter(request, "source_compute"),
        project_id=text_parameter(request, "project_id"),
        user_id=text_parameter(request, "user_id"),
        changed_since=changed_since,
        changed_before=changed_before,
    )


def _show(request: Request, migration: Migration) -> dict[str, Any]:
    """Return it as in the list of all. Source: Compute API, GET /os-migrations."""
    version = request.state.microversion
    shown: dict[str, Any] = {
        "id": migration.id,
        "instance_uuid": migration.server_id,
        "old_instance_type_id": None,
        "new_instance_type_id": None,
        "status": migration.status,
        **_hosts(migration),
        **_times(migration),
    }
    if version >= TYPES_FROM:
        shown["migration_type"] = migration.kind.value
        if migration.kind is MoveKind.LIVE and migration.status in ("accepted", "preparing", "running"):
            shown["links"] = links(request, f"servers/{migration.server_id}/migrations", str(migration.id))
    return shown | _newer(version, migration)


def _show_live(request: Request, migration: Migration) -> dict[str, Any]:
    """Return it as the server's own. Source: Compute API, GET /servers/{id}/migrations."""
    kinds = ("memory", "disk")
    shown: dict[str, Any] = {
        "id": migration.id,
        "server_uuid": migration.server_id,
        "status": migration.status,
        **{f"{kind}_{part}_bytes": None for kind in kinds for part in ("total", "processed", "remaining")},
        **_hosts(migration),
        **_times(migration),
    }
    return shown | _newer(request.state.microversion, migration)


def _hosts(migration: Migration) -> dict[str, Any]:
    return {
        "source_compute": migration.source_host,
        "source_node": migration.source_host,
        "dest_compute": migration.dest_host,
        "dest_node": migration.dest_host,
        "dest_host": migration.dest_host,
    }


def _times(migration: Migration) -> dict[str, Any]:
    return {
        "created_at": timestamp_with_microseconds(migration.created_at),
        "updated_at": timestamp_with_microseconds(migration.updated_at),
    }


def _newer(version: tuple[int, int], migration: Migration) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if version >= UUIDS_FROM:
        shown["uuid"] = migration.uuid
    if version >= PROJECTS_FROM:
        shown |= {"project_id": migration.project_id, "user_id": migration.user_id}
    return shown
