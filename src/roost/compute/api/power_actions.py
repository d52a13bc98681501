"""Actions on servers that stay where they are, and those that no driver of Roost can do, refused by name.

Source: Compute API, "Servers - run an action"; nova/api/openstack/compute, its schemas and policies.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.compute.api.access import Access
from roost.compute.api.actions import Action, Actions, Run
from roost.compute.api.answers import ServerAnswer
from roost.compute.api.policies import ADMIN, MEMBER, SERVERS, UNLOCK_OVERRIDE
from roost.compute.api.requests import Attributes, Name, flag
from roost.compute.api.server_bodies import (
    HOSTNAME_FROM,
    METADATA,
    NAME_BLANK,
    AdminPassword,
    Hostname,
    Text,
    read_hostname,
    refuse_attributes,
)
from roost.compute.errors import ActionRefused, ActionUnsupported
from roost.compute.model.server import Server, ServerUpdate
from roost.compute.rules import actions as rules
from roost.compute.rules.actions import ActionRule
from roost.compute.service import Compute
from roost.compute.service import actions as service
from roost.compute.service import servers as servers_service
from roost.platform.errors import BadRequest, NotFound
from roost.platform.operations import Rule, Versions


class RebootBody(Struct, frozen=True, forbid_unknown_fields=True):
    """How to reboot. Both make the guest anew on its host; HARD also one that is in ERROR, or in the middle of it."""

    type: Literal["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]


class LockBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Why the server is locked."""

    locked_reason: Name | UnsetType = UNSET


class ResetStateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What the server is to be."""

    state: Literal["active", "error"]


class SecurityGroupNameBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A security group by its name."""

    name: Name


class RebuildBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The server as it is to be. What is Any is refused when it asks for something."""

    image_ref: Annotated[str, Meta(min_length=1, max_length=255)] = field(name="imageRef")
    name: Name | UnsetType = UNSET
    description: Text | UnsetType | None = UNSET
    metadata: METADATA | UnsetType = UNSET
    disk_config: Literal["AUTO", "MANUAL"] | None = field(name="OS-DCF:diskConfig", default=None)
    preserve_ephemeral: Any = False
    admin_password: AdminPassword = field(name="adminPass", default=None)
    access_ip_v4: Any = field(name="accessIPv4", default=None)
    access_ip_v6: Any = field(name="accessIPv6", default=None)
    personality: Any = UNSET
    key_name: Any = UNSET
    user_data: Any = UNSET
    trusted_image_certificates: Any = UNSET
    hostname: Hostname | UnsetType = UNSET


REBUILD_ATTRIBUTES = Attributes(
    since={
        "description": (2, 19),
        "key_name": (2, 54),
        "user_data": (2, 57),
        "trusted_image_certificates": (2, 63),
        "hostname": HOSTNAME_FROM,
    },
    until={"personality": (2, 56)},
)


def _power(rule: ActionRule) -> Run:
    async def run(compute: Compute, server: Server, _body: Any, access: Access) -> None:
        await service.change_power(compute, server.id, rule, access.requester)

    return run


async def _reboot(compute: Compute, server: Server, body: RebootBody, access: Access) -> None:
    rule = rules.REBOOT_SOFT if body.type.upper() == "SOFT" else rules.REBOOT_HARD
    await service.change_power(compute, server.id, rule, access.requester)


async def _rebuild(compute: Compute, server: Server, body: RebuildBody, access: Access) -> None:
    if flag(body.preserve_ephemeral, "preserve_ephemeral", default=False):
        raise BadRequest("preserve_ephemeral: Roost does not serve it.")
    refuse_attributes(
        disk_config=body.disk_config,
        accessIPv4=body.access_ip_v4,
        accessIPv6=body.access_ip_v6,
        personality=body.personality,
        key_name=body.key_name,
        user_data=body.user_data,
        trusted_image_certificates=body.trusted_image_certificates,
    )
    if body.name is not UNSET and not body.name.strip():
        raise BadRequest(NAME_BLANK)
    update = ServerUpdate(
        name=None if body.name is UNSET else body.name.strip(),
        image_ref=body.image_ref,
        description=None if body.description is UNSET else body.description or "",
        metadata=None if body.metadata is UNSET else body.metadata,
        hostname=read_hostname(body.hostname, access.version),
    )
    await service.rebuild(compute, server.id, update, access.requester, token=access.token)


async def _lock(compute: Compute, server: Server, body: Any, access: Access) -> None:
    reason = body.locked_reason if isinstance(body, LockBody) and body.locked_reason is not UNSET else None
    await service.lock(compute, server.id, access.requester, reason=reason)


async def _unlock(compute: Compute, server: Server, _body: Any, access: Access) -> None:
    """Unlock the server: one that its owner locked for its owner, one that others did for others."""
    locker = await service.find_locker(compute, server.id) if server.locked else None
    by_owner = locker == server.project_id
    if locker is not None and by_owner != (access.project_id == server.project_id):
        access.enforce(UNLOCK_OVERRIDE, server)
    await service.unlock(compute, server.id, access.requester)


async def _reset_state(compute: Compute, server: Server, body: ResetStateBody, access: Access) -> None:
    await service.reset_state(compute, server.id, access.requester, active=body.state == "active")


async def _force_delete(compute: Compute, server: Server, _body: Any, access: Access) -> None:
    await servers_service.delete_server(compute, server.id, may_be_locked=access.is_admin, by=access.requester)


async def _add_security_group(_compute: Compute, _server: Server, body: SecurityGroupNameBody, _access: Access) -> None:
    _check_security_group(body.name)


async def _remove_security_group(
    _compute: Compute, server: Server, body: SecurityGroupNameBody, _access: Access
) -> None:
    _check_security_group(body.name)
    raise ActionRefused(f"Security group default: every server has it, {server.id} too: it filters nothing.")


def _check_security_group(name: str) -> None:
    if name != "default":
        raise NotFound(f"Security group {name} not found: Roost serves none but default, which filters nothing.")


async def _refuse(name: str, _compute: Compute, _server: Server, _body: Any, _access: Access) -> None:
    raise ActionUnsupported(f"{name}: no driver of Roost can do that.")


def _unsupported(rules_by_name: Mapping[str, Rule]) -> Actions:
    return {name: Action(run=partial(_refuse, name), rule=rule) for name, rule in rules_by_name.items()}


_PAUSE, _SUSPEND, _LOCK = (f"os_compute_api:os-{name}-server:" for name in ("pause", "suspend", "lock"))
_ADMIN_ACTIONS, _DEFERRED = "os_compute_api:os-admin-actions:", "os_compute_api:os-deferred-delete:"
_GROUPS = "os_compute_api:os-security-groups:"

POWER_ACTIONS: Actions = {
    "os-start": Action(run=_power(rules.START), rule=Rule(f"{SERVERS}start", MEMBER)),
    "os-stop": Action(run=_power(rules.STOP), rule=Rule(f"{SERVERS}stop", MEMBER)),
    "reboot": Action(run=_reboot, rule=Rule(f"{SERVERS}reboot", MEMBER), body=RebootBody),
    "rebuild": Action(
        run=_rebuild,
        rule=Rule(f"{SERVERS}rebuild", MEMBER),
        body=RebuildBody,
        attributes=REBUILD_ATTRIBUTES,
        result=ServerAnswer,
        shows_server=True,
    ),
    "pause": Action(run=_power(rules.PAUSE), rule=Rule(f"{_PAUSE}pause", MEMBER)),
    "unpause": Action(run=_power(rules.UNPAUSE), rule=Rule(f"{_PAUSE}unpause", MEMBER)),
    "suspend": Action(run=_power(rules.SUSPEND), rule=Rule(f"{_SUSPEND}suspend", MEMBER)),
    "resume": Action(run=_power(rules.RESUME), rule=Rule(f"{_SUSPEND}resume", MEMBER)),
    "lock": Action(
        run=_lock, rule=Rule(f"{_LOCK}lock", MEMBER), body=Versions({(2, 1): None, (2, 73): LockBody | None})
    ),
    "unlock": Action(run=_unlock, rule=Rule(f"{_LOCK}unlock", MEMBER)),
    "os-resetState": Action(run=_reset_state, rule=Rule(f"{_ADMIN_ACTIONS}reset_state", ADMIN), body=ResetStateBody),
    "forceDelete": Action(run=_force_delete, rule=Rule(f"{_DEFERRED}force", MEMBER)),
    "addSecurityGroup": Action(run=_add_security_group, rule=Rule(f"{_GROUPS}add", MEMBER), body=SecurityGroupNameBody),
    "removeSecurityGroup": Action(
        run=_remove_security_group, rule=Rule(f"{_GROUPS}remove", MEMBER), body=SecurityGroupNameBody
    ),
    "trigger_crash_dump": Action(
        run=partial(_refuse, "trigger_crash_dump"), rule=Rule(f"{SERVERS}trigger_crash_dump", MEMBER), since=(2, 17)
    ),
    **_unsupported(
        {
            "changePassword": Rule("os_compute_api:os-admin-password", MEMBER),
            "createBackup": Rule("os_compute_api:os-create-backup", MEMBER),
            "createImage": Rule(f"{SERVERS}create_image", MEMBER),
            "injectNetworkInfo": Rule(f"{_ADMIN_ACTIONS}inject_network_info", ADMIN),
            "os-getConsoleOutput": Rule("os_compute_api:os-console-output", MEMBER),
            "rescue": Rule("os_compute_api:os-rescue", MEMBER),
            "restore": Rule(f"{_DEFERRED}restore", MEMBER),
            "unrescue": Rule("os_compute_api:os-unrescue", MEMBER),
        }
    ),
}
