"""Actions that take servers to other hosts, off all hosts, or back. Source: Compute API; nova/api/openstack/compute."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.compute.api.access import Access
from roost.compute.api.actions import Action, Actions, Run
from roost.compute.api.policies import ADMIN, MANAGER, MEMBER, READDRESS_SERVER, SERVERS, UNSHELVE_TO_HOST
from roost.compute.api.requests import Attributes, Name, flag
from roost.compute.api.server_bodies import refuse_attributes
from roost.compute.errors import ActionRefused
from roost.compute.model.server import Server
from roost.compute.model.work import MoveKind
from roost.compute.rules.actions import refuse_offload
from roost.compute.service import Compute
from roost.compute.service import moves as service
from roost.compute.service.moves import MoveRequest
from roost.platform.errors import BadRequest
from roost.platform.operations import Rule, Versions

FORCE_UNTIL, STOPPED_FROM = (2, 67), (2, 95)


READDRESS = "Roost's own: new addresses on other segments, if no host that reaches the present ones has room"


class MigrateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to. host: the one destination that will do."""

    host: Name | None = None


class ResizeBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What the server is to be."""

    flavor_ref: Annotated[str, Meta(min_length=1, max_length=255)] | int = field(name="flavorRef")
    disk_config: Literal["AUTO", "MANUAL"] | None = field(name="OS-DCF:diskConfig", default=None)


class LiveBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to. What is Any says how disks are copied, which is the driver's."""

    host: Name | None = None
    block_migration: Any = "auto"
    disk_over_commit: Any = UNSET
    force: bool | str | UnsetType = UNSET


class EvacuateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to. What is Any is the driver's."""

    host: Name | UnsetType = UNSET
    admin_password: Any = field(name="adminPass", default=None)
    on_shared_storage: Any = field(name="onSharedStorage", default=UNSET)
    force: bool | str | UnsetType = UNSET
    readdress: Annotated[bool, Meta(description=READDRESS)] = False


class UnshelveZoneBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to, from microversion 2.77 on."""

    availability_zone: Name


class UnshelveBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to, from microversion 2.91 on. availability_zone: None for any, from now on."""

    availability_zone: str | UnsetType | None = UNSET
    host: Name | UnsetType = UNSET


async def _migrate(compute: Compute, server: Server, body: MigrateBody | None, access: Access) -> None:
    host = None if body is None else body.host
    if host is not None:
        access.enforce(MIGRATE_HOST, server)
    await service.begin_move(compute, server.id, MoveRequest(kind=MoveKind.MIGRATE, host=host), access.requester)


async def _resize(compute: Compute, server: Server, body: ResizeBody, access: Access) -> None:
    refuse_attributes(disk_config=body.disk_config)
    permissions = access.permissions
    request = MoveRequest(
        kind=MoveKind.RESIZE,
        flavor_ref=str(body.flavor_ref),
        public_only=permissions is not None and not permissions.others,
    )
    await service.begin_move(compute, server.id, request, access.requester)


async def _live_migrate(compute: Compute, server: Server, body: LiveBody, access: Access) -> None:
    if body.host is not None:
        access.enforce(MIGRATE_LIVE_HOST, server)
    request = MoveRequest(kind=MoveKind.LIVE, host=body.host, anyway=_forced(body.force, body.host))
    await service.begin_move(compute, server.id, request, access.requester)


async def _evacuate(compute: Compute, server: Server, body: EvacuateBody, access: Access) -> None:
    host = None if body.host is UNSET else body.host
    if body.readdress:
        access.enforce(READDRESS_SERVER, server)
    request = MoveRequest(
        kind=MoveKind.EVACUATE,
        host=host,
        anyway=_forced(body.force, host),
        stopped=access.version >= STOPPED_FROM,
        readdress=body.readdress,
    )
    await service.begin_move(compute, server.id, request, access.requester)


def _forced(force: bool | str | UnsetType, host: str | None) -> bool:
    """Return whether the named host is to do whatever is said against it, but for room and addresses."""
    forced = flag(None if force is UNSET else force, "force", default=False)
    if forced and host is None:
        raise BadRequest("Can't force to a non-provided destination")
    return forced


async def _unshelve(
    compute: Compute, server: Server, body: UnshelveZoneBody | UnshelveBody | None, access: Access
) -> None:
    host = body.host if isinstance(body, UnshelveBody) and body.host is not UNSET else None
    if host is not None:
        access.enforce(UNSHELVE_TO_HOST, server)
    zone = body.availability_zone if isinstance(body, UnshelveZoneBody | UnshelveBody) else UNSET
    request = MoveRequest(
        kind=MoveKind.UNSHELVE, host=host, zone=None if zone is UNSET else zone, unpinned=zone is None
    )
    await service.begin_move(compute, server.id, request, access.requester)


async def _shelve(compute: Compute, server: Server, _body: Any, access: Access) -> None:
    await service.begin_move(compute, server.id, MoveRequest(kind=MoveKind.SHELVE), access.requester)


def _end(*, revert: bool) -> Run:
    async def run(compute: Compute, server: Server, _body: Any, access: Access) -> None:
        await service.end_move(compute, server.id, access.requester, revert=revert)

    return run


async def _offload(_compute: Compute, server: Server, _body: Any, _access: Access) -> None:
    """Refuse: a server is taken off its host as soon as it is shelved, unless its disk is there."""
    raise ActionRefused(refuse_offload(server))


_MIGRATE, _SHELVE = "os_compute_api:os-migrate-server:", "os_compute_api:os-shelve:"
MIGRATE_HOST, MIGRATE_LIVE_HOST = f"{_MIGRATE}migrate:host", f"{_MIGRATE}migrate_live:host"

MOVE_ACTIONS: Actions = {
    "migrate": Action(
        run=_migrate,
        rule=Rule(f"{_MIGRATE}migrate", MANAGER),
        body=Versions({(2, 1): None, (2, 56): MigrateBody | None}),
    ),
    "resize": Action(run=_resize, rule=Rule(f"{SERVERS}resize", MEMBER), body=ResizeBody),
    "confirmResize": Action(run=_end(revert=False), rule=Rule(f"{SERVERS}confirm_resize", MEMBER), status=204),
    "revertResize": Action(run=_end(revert=True), rule=Rule(f"{SERVERS}revert_resize", MEMBER)),
    "os-migrateLive": Action(
        run=_live_migrate,
        rule=Rule(f"{_MIGRATE}migrate_live", MANAGER),
        body=LiveBody,
        attributes=Attributes(since={"force": (2, 30)}, until={"disk_over_commit": (2, 24), "force": FORCE_UNTIL}),
    ),
    "evacuate": Action(
        run=_evacuate,
        rule=Rule("os_compute_api:os-evacuate", ADMIN),
        body=EvacuateBody,
        attributes=Attributes(since={"force": (2, 29)}, until={"on_shared_storage": (2, 13), "force": FORCE_UNTIL}),
        status=200,
    ),
    "shelve": Action(run=_shelve, rule=Rule(f"{_SHELVE}shelve", MEMBER)),
    "shelveOffload": Action(run=_offload, rule=Rule(f"{_SHELVE}shelve_offload", ADMIN)),
    "unshelve": Action(
        run=_unshelve,
        rule=Rule(f"{_SHELVE}unshelve", MEMBER),
        body=Versions({(2, 1): None, (2, 77): UnshelveZoneBody | None, (2, 91): UnshelveBody | None}),
    ),
}
