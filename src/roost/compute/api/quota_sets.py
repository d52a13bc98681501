"""Quotas of servers over HTTP. Source: Compute API, os-quota-sets and os-quota-class-sets; nova/api/openstack/compute.

What Roost does not have (key pairs, server groups, ...) has quotas all the same, kept by nobody using any. There are no
quotas of single users, and one class: what holds for projects without quotas of their own.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from roost.compute.api.answers import QuotaClassAnswer, QuotaDetailAnswer, QuotaSetAnswer, QuotaSetUpdateAnswer
from roost.compute.api.policies import ADMIN, ANYBODY, READER
from roost.compute.api.requests import (
    STRICT_FROM,
    Attributes,
    Parameter,
    check_attributes,
    check_parameters,
    flag,
    path_project,
    path_text,
    query,
    read_body,
    whole_number,
)
from roost.compute.service import Compute
from roost.compute.service import quotas as service
from roost.platform.errors import BadRequest, NotFound
from roost.platform.http import Version
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.quotas import UNLIMITED, Maximum, Quotas

DEFAULT_CLASS = "default"
NETWORK = ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")
INJECTED = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
GROUPS = ("server_groups", "server_group_members")
NETWORK_UNTIL, CLASS_NETWORK_UNTIL, INJECTED_UNTIL, CLASS_GROUPS_FROM = (2, 35), (2, 49), (2, 56), (2, 50)

GivenMaximum = Maximum | Annotated[str, Meta(pattern="^(-1|[0-9]{1,10})$")] | UnsetType


class QuotaClassBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many a project may have at most, -1 for any number; what is left out stays."""

    instances: GivenMaximum = UNSET
    cores: GivenMaximum = UNSET
    ram: GivenMaximum = UNSET
    metadata_items: GivenMaximum = UNSET
    key_pairs: GivenMaximum = UNSET
    server_groups: GivenMaximum = UNSET
    server_group_members: GivenMaximum = UNSET
    injected_files: GivenMaximum = UNSET
    injected_file_content_bytes: GivenMaximum = UNSET
    injected_file_path_bytes: GivenMaximum = UNSET
    fixed_ips: GivenMaximum = UNSET
    floating_ips: GivenMaximum = UNSET
    security_groups: GivenMaximum = UNSET
    security_group_rules: GivenMaximum = UNSET


RESOURCES = QuotaClassBody.__struct_fields__


class QuotaSetBody(QuotaClassBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same of one project. force: also below what it has."""

    force: Any = False


class QuotaSetUpdateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole body."""

    quota_set: QuotaSetBody


class QuotaClassUpdateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole body."""

    quota_class_set: QuotaClassBody


_INJECTED_UNTIL = dict.fromkeys(INJECTED, INJECTED_UNTIL)
SET_ATTRIBUTES = Attributes(until=dict.fromkeys(NETWORK, NETWORK_UNTIL) | _INJECTED_UNTIL)
CLASS_ATTRIBUTES = Attributes(until=dict.fromkeys(NETWORK, CLASS_NETWORK_UNTIL) | _INJECTED_UNTIL)
SHOWN_OF_CLASS = Attributes(since=dict.fromkeys(GROUPS, CLASS_GROUPS_FROM), until=CLASS_ATTRIBUTES.until)
USER = {"user_id": Parameter()}


def quota_operations(compute: Compute) -> Operations:
    """Return the operations, by path below /v2.1."""
    sets = "os_compute_api:os-quota-sets:"
    operations = _Sets(compute)
    return {
        "/os-quota-sets/{project_id}": {
            "GET": Operation(
                summary="how much a project may have; -1 for any number",
                endpoint=operations.show,
                rule=Rule(f"{sets}show", READER),
                query=query(USER, strict_from=STRICT_FROM),
                result=QuotaSetAnswer,
            ),
            "PUT": Operation(
                summary="give a project quotas of its own",
                endpoint=operations.update,
                rule=Rule(f"{sets}update", ADMIN),
                query=query({}, strict_from=STRICT_FROM),
                body=QuotaSetUpdateBody,
                result=QuotaSetUpdateAnswer,
            ),
            "DELETE": Operation(
                summary="let the default quotas hold for the project",
                endpoint=operations.delete,
                rule=Rule(f"{sets}delete", ADMIN),
                query=query({}, strict_from=STRICT_FROM),
                status=202,
            ),
        },
        "/os-quota-sets/{project_id}/detail": {
            "GET": Operation(
                summary="how much the project may have, and has",
                endpoint=operations.show_detail,
                rule=Rule(f"{sets}detail", READER),
                query=query({}, strict_from=STRICT_FROM),
                result=QuotaDetailAnswer,
            )
        },
        "/os-quota-sets/{project_id}/defaults": {
            "GET": Operation(
                summary="how much it may have without quotas of its own",
                endpoint=operations.show_defaults,
                rule=Rule(f"{sets}defaults", ANYBODY),
                query=query({}, strict_from=STRICT_FROM),
                result=QuotaSetAnswer,
            )
        },
        **_class_operations(compute),
    }


class _Sets:
    """The endpoints of projects' quotas."""

    def __init__(self, compute: Compute) -> None:
        self.compute = compute

    async def show(self, request: Request) -> dict[str, Any]:
        """GET /os-quota-sets/{project_id}: what holds for the project holds for each of its users."""
        check_parameters(request, USER, strict_from=STRICT_FROM)
        return _shown(request, await service.get_quotas(self.compute, path_project(request)))

    async def show_detail(self, request: Request) -> dict[str, Any]:
        """GET /os-quota-sets/{project_id}/detail"""
        _check_user(request)
        usages = await service.get_usages(self.compute, path_project(request))
        details = {
            name: {"limit": usage.maximum, "in_use": usage.used, "reserved": 0} for name, usage in usages.items()
        }
        return _shown(request, details)

    async def show_defaults(self, request: Request) -> dict[str, Any]:
        """GET /os-quota-sets/{project_id}/defaults"""
        check_parameters(request, {}, strict_from=STRICT_FROM)
        return _shown(request, await service.get_defaults(self.compute))

    async def update(self, request: Request) -> dict[str, Any]:
        """PUT /os-quota-sets/{project_id}"""
        _check_user(request)
        body = (await read_body(request, QuotaSetUpdateBody)).quota_set
        quotas = _read_quotas(body, request, SET_ATTRIBUTES)
        force = flag(body.force, "force", default=False)
        effective = await service.set_quotas(self.compute, path_project(request), quotas, force=force)
        return {"quota_set": _select(effective, request, SET_ATTRIBUTES)}

    async def delete(self, request: Request) -> None:
        """DELETE /os-quota-sets/{project_id}"""
        _check_user(request)
        await service.delete_quotas(self.compute, path_project(request))


def _class_operations(compute: Compute) -> Operations:
    async def show(request: Request) -> dict[str, Any]:
        quotas = await service.get_defaults(compute)
        return {"quota_class_set": {"id": _class(request), **_select(quotas, request, SHOWN_OF_CLASS)}}

    async def update(request: Request) -> dict[str, Any]:
        _class(request)
        body = (await read_body(request, QuotaClassUpdateBody)).quota_class_set
        quotas = await service.set_defaults(compute, _read_quotas(body, request, CLASS_ATTRIBUTES))
        return {"quota_class_set": _select(quotas, request, SHOWN_OF_CLASS)}

    rule = "os_compute_api:os-quota-class-sets:"
    return {
        "/os-quota-class-sets/{quota_class}": {
            "GET": Operation(
                summary="how much projects may have without quotas of their own",
                endpoint=show,
                rule=Rule(f"{rule}show", ADMIN),
                result=QuotaClassAnswer,
            ),
            "PUT": Operation(
                summary="change that, whatever the configuration says",
                endpoint=update,
                rule=Rule(f"{rule}update", ADMIN),
                body=QuotaClassUpdateBody,
                result=QuotaClassAnswer,
            ),
        }
    }


def select_resources(version: Version, attributes: Attributes) -> Iterable[str]:
    """Return the resources that there are at a microversion."""
    first, last = attributes.since, attributes.until
    return [name for name in RESOURCES if first.get(name, version) <= version <= last.get(name, version)]


def _select(values: Mapping[str, Any], request: Request, attributes: Attributes) -> dict[str, Any]:
    return {name: values[name] for name in select_resources(request.state.microversion, attributes)}


def _shown(request: Request, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"quota_set": {"id": path_project(request), **_select(values, request, SET_ATTRIBUTES)}}


def _read_quotas(body: QuotaClassBody, request: Request, attributes: Attributes) -> Quotas:
    check_attributes(body, request.state.microversion, attributes)
    values = {name: getattr(body, name) for name in RESOURCES}
    return {name: whole_number(value, name, lowest=UNLIMITED) for name, value in values.items() if value is not UNSET}


def _check_user(request: Request) -> None:
    """Raise BadRequest for the quota of one user, at every microversion: it would be taken for the project's."""
    check_parameters(request, {}, strict_from=STRICT_FROM)
    if "user_id" in request.query_params:
        raise BadRequest("user_id: a project has quotas, single users of it have none: leave it out")


def _class(request: Request) -> str:
    """Return the class that the path names. Raises NotFound."""
    name = path_text(request, "quota_class")
    if name != DEFAULT_CLASS:
        raise NotFound(f"Quota class {name} could not be found. There is one: {DEFAULT_CLASS}.")
    return name
