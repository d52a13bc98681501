"""Services in the Compute API's shapes: each host has one, which operators enable, disable and force down."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from starlette.requests import Request

from roost.compute.api.access import access_of
from roost.compute.api.answers import ServiceAnswer, ServicesAnswer
from roost.compute.api.hosts import UUIDS_FROM, get_host, host_id, host_state, host_status
from roost.compute.api.policies import ADMIN, SERVICE
from roost.compute.api.requests import (
    Name,
    Parameter,
    Parameters,
    check_parameters,
    flag,
    path_text,
    query,
    read_body,
    text_parameter,
    timestamp_with_microseconds,
)
from roost.compute.errors import HostNotFound
from roost.compute.model.cloud import Host
from roost.compute.rules.aggregates import zones_by_host
from roost.compute.service import Compute
from roost.compute.service import hosts as service
from roost.compute.service.aggregates import list_with_metadata
from roost.compute.service.host_removal import delete_host
from roost.platform.auth import Policy
from roost.platform.errors import BadRequest
from roost.platform.operations import Operation, Operations, Rule, Versions
from roost.platform.turns import encode_in_turns

BINARY = "nova-compute"

PARAMETERS: Parameters = {"host": Parameter(), "binary": Parameter()}

Reason = Annotated[str, Meta(min_length=1, max_length=255)]


class _ServiceBody(Struct, frozen=True, forbid_unknown_fields=True):
    host: Name
    binary: str = BINARY


class _ReasonBody(_ServiceBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    disabled_reason: Reason


class _ForceDownBody(_ServiceBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    forced_down: Any


class ServiceUpdateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """From microversion 2.53 on."""

    status: Literal["enabled", "disabled"] | None = None
    disabled_reason: Reason | None = None
    forced_down: Any = None


ACTIONS: Mapping[str, type[_ServiceBody]] = {
    "enable": _ServiceBody,
    "disable": _ServiceBody,
    "disable-log-reason": _ReasonBody,
    "force-down": _ForceDownBody,
}

ACTION_BODY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "host": {"type": "string", "minLength": 1, "maxLength": 255},
        "binary": {"type": "string"},
        "disabled_reason": {"type": "string", "minLength": 1, "maxLength": 255},
        "forced_down": {},
    },
    "required": ["host"],
    "additionalProperties": False,
}
"""What any of the actions reads up to microversion 2.52; each reads its own struct."""


class Services:
    """The operations of services."""

    def __init__(self, compute: Compute, policy: Policy) -> None:
        self.compute = compute
        self.policy = policy

    def operations(self) -> Operations:
        """Return them by path below /v2.1."""
        return {
            "/os-services": {
                "GET": Operation(
                    summary="hosts, and whether they are up and enabled",
                    endpoint=self._list_services,
                    rule=Rule("os_compute_api:os-services:list", SERVICE),
                    query=query(PARAMETERS),
                    result=ServicesAnswer,
                )
            },
            "/os-services/{action}": {
                "PUT": Operation(
                    summary="enable, disable or force down a host, which the path names from microversion 2.53 on",
                    endpoint=self._change_service,
                    rule=Rule("os_compute_api:os-services:update", ADMIN),
                    body=Versions({(2, 1): ACTION_BODY, UUIDS_FROM: ServiceUpdateBody}),
                    result=ServiceAnswer,
                ),
                "DELETE": Operation(
                    summary="remove a host for good, which the path names by its id, once no server is on it",
                    endpoint=self._delete_service,
                    rule=Rule("os_compute_api:os-services:delete", ADMIN),
                    status=204,
                    errors=(409,),
                ),
            },
        }

    async def _list_services(self, request: Request) -> dict[str, Any]:
        check_parameters(request, PARAMETERS)
        name, binary = text_parameter(request, "host"), text_parameter(request, "binary")
        hosts = (
            [] if binary not in (None, BINARY) else await service.list_hosts(self.compute, None if not name else [name])
        )
        zones = zones_by_host(await list_with_metadata(self.compute)) if hosts else {}
        shown = await encode_in_turns(lambda host: self._show_service(host, request, zones), hosts)
        return {"services": shown}

    async def _change_service(self, request: Request) -> dict[str, Any]:
        if request.state.microversion >= UUIDS_FROM:
            return await self._update_service(request)
        action = path_text(request, "action")
        kind = ACTIONS.get(action)
        if kind is None or (action == "force-down" and request.state.microversion < (2, 11)):
            raise HostNotFound(f"Unknown action {action}")
        body = await read_body(request, kind)
        if body.binary != BINARY:
            raise HostNotFound(f"Could not find binary {body.binary} on host {body.host}.")
        changed: dict[str, Any] = {"host": body.host, "binary": BINARY}
        by = access_of(self.compute, self.policy, request).requester
        if isinstance(body, _ForceDownBody):
            down = flag(body.forced_down, "forced_down", default=True)
            changed["forced_down"] = (await service.force_down(self.compute, body.host, down, by=by)).forced_down
        elif action == "enable":
            changed["status"] = "enabled"
            await service.enable_host(self.compute, body.host, by=by)
        else:
            changed["status"] = "disabled"
            if isinstance(body, _ReasonBody):
                changed["disabled_reason"] = body.disabled_reason
            await service.disable_host(self.compute, body.host, reason=changed.get("disabled_reason"), by=by)
        return {"service": changed}

    async def _delete_service(self, request: Request) -> None:
        host = await get_host(self.compute, request, parameter="action")
        by = access_of(self.compute, self.policy, request).requester
        await delete_host(self.compute, host, by=by)

    async def _update_service(self, request: Request) -> dict[str, Any]:
        host = await get_host(self.compute, request, parameter="action")
        body = await read_body(request, ServiceUpdateBody)
        if body.status is None and body.forced_down is None:
            raise BadRequest("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
        if body.disabled_reason is not None and body.status == "enabled":
            raise BadRequest("Specifying 'disabled_reason' when status is 'enabled' is invalid.")
        if body.disabled_reason is not None and body.status is None:
            raise BadRequest("Specifying 'disabled_reason' requires that status be 'disabled'.")
        down = None if body.forced_down is None else flag(body.forced_down, "forced_down", default=True)
        by = access_of(self.compute, self.policy, request).requester
        if body.status == "enabled":
            host = await service.enable_host(self.compute, host.name, by=by)
        elif body.status == "disabled":
            host = await service.disable_host(self.compute, host.name, reason=body.disabled_reason, by=by)
        if down is not None:
            host = await service.force_down(self.compute, host.name, down, by=by)
        zones = zones_by_host(await list_with_metadata(self.compute))
        return {"service": self._show_service(host, request, zones)}

    def _show_service(self, host: Host, request: Request, zones: Mapping[str, str]) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "id": host_id(host, request),
            "binary": BINARY,
            "host": host.name,
            "zone": zones.get(host.name, self.compute.settings.default_availability_zone),
            "status": host_status(host),
            "state": host_state(host),
            "updated_at": timestamp_with_microseconds(host.seen_at),
            "disabled_reason": host.disabled_reason,
        }
        if request.state.microversion >= (2, 11):
            shown["forced_down"] = host.forced_down
        return shown
