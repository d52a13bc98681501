"""Quotas of servers over HTTP. Source: Compute API, os-quota-sets and os-quota-class-sets; nova/api/openstack/compute.

What Roost does not have (key pairs, server groups, ...) has quotas all the same, kept by nobody using any. There are no
quotas of single users, and one class: what holds for projects without quotas of their own.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request

from roost.compute.api.answers import QuotaClassAnswer, QuotaDetailAnswer, QuotaSetAnswer, QuotaSetUpdateAnswer
from roost.compute.api.policies import ADMIN, ANYBODY, READER
from roost.compute.api.requests import (
    STRICT_FROM,
    Attributes,
    Parameter,
    Parameters,
    check_attributes,
    check_parameters,
    flag,
    path_project,
    path_text,
    query,
    read_body,
    whole_number,
)
from roost.compute.rules.quotas import RESOURCES
from roost.compute.service import Compute
from roost.compute.service.quotas import QUOTAS
from roost.platform.errors import BadRequest, NotFound
from roost.platform.http import Version
from roost.platform.operations import Operation, Operations, Rule, Serve
from roost.platform.quota_tables import EVERYBODY
from roost.platform.quotas import UNLIMITED, Maximum, Quotas
from roost.platform.structs import body_type

DEFAULT_CLASS = "default"
NETWORK = ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")
INJECTED = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
GROUPS = ("server_groups", "server_group_members")
NETWORK_UNTIL, CLASS_NETWORK_UNTIL, INJECTED_UNTIL, CLASS_GROUPS_FROM = (2, 35), (2, 49), (2, 56), (2, 50)

GivenMaximum = Maximum | Annotated[str, Meta(pattern="^(-1|[0-9]{1,10})$")] | UnsetType

_MAXIMA = [(resource, GivenMaximum, UNSET) for resource in RESOURCES]
QuotaClassBody = body_type(
    "QuotaClassBody", *_MAXIMA, doc="How many a project may have at most, -1 for any number; what is left out stays."
)
QuotaSetBody = body_type(
    "QuotaSetBody", *_MAXIMA, ("force", Any, False), doc="The same of one project. force: also below what it has."
)
QuotaSetUpdateBody = body_type("QuotaSetUpdateBody", ("quota_set", QuotaSetBody), doc="The whole body.")
QuotaClassUpdateBody = body_type("QuotaClassUpdateBody", ("quota_class_set", QuotaClassBody), doc="The whole body.")

_INJECTED_UNTIL = dict.fromkeys(INJECTED, INJECTED_UNTIL)
SET_ATTRIBUTES = Attributes(until=dict.fromkeys(NETWORK, NETWORK_UNTIL) | _INJECTED_UNTIL)
CLASS_ATTRIBUTES = Attributes(until=dict.fromkeys(NETWORK, CLASS_NETWORK_UNTIL) | _INJECTED_UNTIL)
SHOWN_OF_CLASS = Attributes(since=dict.fromkeys(GROUPS, CLASS_GROUPS_FROM), until=CLASS_ATTRIBUTES.until)
USER: Parameters = {"user_id": Parameter()}
NONE: Parameters = {}


def quota_operations(compute: Compute) -> Operations:
    """Return the operations, by path below /v2.1."""
    rule = "os_compute_api:os-quota-class-sets:"
    return {
        "/os-quota-sets/{project_id}": {
            "GET": _operation(
                "show", READER, partial(_show, compute), summary="how much a project may have; -1 for any number",
                parameters=USER, result=QuotaSetAnswer,
            ),
            "PUT": _operation(
                "update", ADMIN, partial(_update, compute), summary="give a project quotas of its own",
                body=QuotaSetUpdateBody, result=QuotaSetUpdateAnswer,
            ),
            "DELETE": _operation(
                "delete", ADMIN, partial(_delete, compute), summary="let the default quotas hold for the project",
                status=202,
            ),
        },
        "/os-quota-sets/{project_id}/detail": {
            "GET": _operation(
                "detail", READER, partial(_show_detail, compute), summary="how much the project may have, and has",
                result=QuotaDetailAnswer,
            )
        },
        "/os-quota-sets/{project_id}/defaults": {
            "GET": _operation(
                "defaults", ANYBODY, partial(_show_defaults, compute),
                summary="how much it may have without quotas of its own", result=QuotaSetAnswer,
            )
        },
        "/os-quota-class-sets/{quota_class}": {
            "GET": Operation(
                summary="how much projects may have without quotas of their own",
                endpoint=partial(_show_class, compute), rule=Rule(f"{rule}show", ADMIN), result=QuotaClassAnswer,
            ),
            "PUT": Operation(
                summary="change that, whatever the configuration says", endpoint=partial(_update_class, compute),
                rule=Rule(f"{rule}update", ADMIN), body=QuotaClassUpdateBody, result=QuotaClassAnswer,
            ),
        },
    }  # fmt: skip


def _operation(
    verb: str, default: str, endpoint: Serve, *, summary: str, parameters: Parameters = NONE, **more: Any
) -> Operation:
    """Return an operation of a project's quotas. verb: of its policy rule. more: what else it has."""
    rule = Rule(f"os_compute_api:os-quota-sets:{verb}", default)
    schema = query(parameters, strict_from=STRICT_FROM)
    return Operation(summary=summary, endpoint=endpoint, rule=rule, query=schema, **more)


async def _show(compute: Compute, request: Request) -> dict[str, Any]:
    """Show what holds for the project, and so for each of its users."""
    check_parameters(request, USER, strict_from=STRICT_FROM)
    return _shown(request, await QUOTAS.get(compute, path_project(request)))


async def _show_detail(compute: Compute, request: Request) -> dict[str, Any]:
    _check_user(request)
    usages = await QUOTAS.get_usages(compute, path_project(request))
    details = {name: {"limit": usage.maximum, "in_use": usage.used, "reserved": 0} for name, usage in usages.items()}
    return _shown(request, details)


async def _show_defaults(compute: Compute, request: Request) -> dict[str, Any]:
    check_parameters(request, {}, strict_from=STRICT_FROM)
    return _shown(request, await QUOTAS.get(compute, EVERYBODY))


async def _update(compute: Compute, request: Request) -> dict[str, Any]:
    _check_user(request)
    body = (await read_body(request, QuotaSetUpdateBody)).quota_set
    quotas = _read_quotas(body, request, SET_ATTRIBUTES)
    force = flag(body.force, "force", default=False)
    quotas_now = await QUOTAS.set(compute, path_project(request), quotas, check=not force)
    return {"quota_set": _select(quotas_now, request, SET_ATTRIBUTES)}


async def _delete(compute: Compute, request: Request) -> None:
    _check_user(request)
    await QUOTAS.delete(compute, path_project(request))


async def _show_class(compute: Compute, request: Request) -> dict[str, Any]:
    quotas = await QUOTAS.get(compute, EVERYBODY)
    return {"quota_class_set": {"id": _class(request), **_select(quotas, request, SHOWN_OF_CLASS)}}


async def _update_class(compute: Compute, request: Request) -> dict[str, Any]:
    _class(request)
    body = (await read_body(request, QuotaClassUpdateBody)).quota_class_set
    quotas = _read_quotas(body, request, CLASS_ATTRIBUTES)
    quotas_now = await QUOTAS.set(compute, EVERYBODY, quotas, check=False)
    return {"quota_class_set": _select(quotas_now, request, SHOWN_OF_CLASS)}


def select_resources(version: Version, attributes: Attributes) -> Iterable[str]:
    """Return the resources that there are at a microversion."""
    first, last = attributes.since, attributes.until
    return [name for name in RESOURCES if first.get(name, version) <= version <= last.get(name, version)]


def _select(values: Mapping[str, Any], request: Request, attributes: Attributes) -> dict[str, Any]:
    return {name: values[name] for name in select_resources(request.state.microversion, attributes)}


def _shown(request: Request, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"quota_set": {"id": path_project(request), **_select(values, request, SET_ATTRIBUTES)}}


def _read_quotas(body: Any, request: Request, attributes: Attributes) -> Quotas:
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
