"""Quotas over HTTP. Source: Network API v2.0, extensions quotas, quota_details and quota-check-limit."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from roost.network.api import listing
from roost.network.api.bodies import refuse_unserved
from roost.network.api.fields import NoMaximum, Text
from roost.network.api.policies import ADMIN, MANAGER
from roost.network.api.resources import answer, body_type, get_few, get_one
from roost.network.errors import InvalidInput
from roost.network.rules.quotas import RESOURCES
from roost.network.service import Networks
from roost.network.service import quotas as service
from roost.platform.auth import caller_of
from roost.platform.bodies import read_json
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.quotas import Maximum

PROJECT_ID_MAX = 255
GET_QUOTA = Rule("get_quota", f"{ADMIN} or ({MANAGER})")

GivenMaximum = Maximum | Annotated[str, Meta(pattern="^(-1|[0-9]{1,9})$")] | UnsetType
"""A number, or its digits, as upstream takes them."""


class QuotaUnserved(Struct, kw_only=True, forbid_unknown_fields=True):
    """Quotas of what Roost does not have: accepted where they allow any number of it."""

    floatingip: NoMaximum = UNSET
    rbac_policy: NoMaximum = UNSET
    router: NoMaximum = UNSET
    security_group: NoMaximum = UNSET
    security_group_rule: NoMaximum = UNSET
    subnetpool: NoMaximum = UNSET


class QuotaBody(QuotaUnserved, kw_only=True, forbid_unknown_fields=True):
    """PUT quotas/{project}: what is left out stays. check_limit: refuse a quota below what there is already."""

    network: GivenMaximum = UNSET
    subnet: GivenMaximum = UNSET
    port: GivenMaximum = UNSET
    check_limit: bool = False
    force: bool = False
    project_id: Text | None = None
    tenant_id: Text | None = None


class QuotaEnvelope(Struct, forbid_unknown_fields=True):
    """The body around a project's quotas."""

    quota: QuotaBody


class QuotaUsageDocument(Struct, forbid_unknown_fields=True):
    """One resource in detail; what is being made counts once it is there, so nothing is ever reserved."""

    limit: int
    used: int
    reserved: int = 0


def _document(name: str, kind: type, *more: Any, doc: str) -> type[Struct]:
    """Return the type of a document with a value of this kind for each resource. more: its other fields."""
    return body_type(f"{name}Document", *((resource, kind) for resource in RESOURCES), *more, doc=doc)


QUOTA = _document("Quota", int, doc="How many a project may have; -1 for any number.")
PROJECT_QUOTA = _document(
    "ProjectQuota", int, ("project_id", str), ("tenant_id", str), doc="The same, with the project that it is about."
)
QUOTA_DETAILS = _document("QuotaDetails", QuotaUsageDocument, doc="How many a project may have, and how many it has.")
QUOTA_DETAILS_ANSWER = body_type("QuotaDetailsAnswer", ("quota", QUOTA_DETAILS), doc="The answer with them.")
QUOTA_DOCUMENTS = (QUOTA, PROJECT_QUOTA, QUOTA_DETAILS)
"""Of which `fields` leaves attributes out."""


def quota_operations(context: Networks) -> Operations:
    """Return the operations of all projects' quotas, and of one project's."""
    quota = answer("quota", QUOTA)
    get = partial(get_one, "quota", rule=GET_QUOTA, owner_may=True)
    return {
        "/v2.0/quotas": {
            "GET": get_few(
                "quotas", PROJECT_QUOTA, partial(_list_all, context), key="project_id",
                summary="quotas of the projects that have some of their own", rule=GET_QUOTA,
            )
        },
        "/v2.0/quotas/project": _own_project(context, "project", "the caller's project", "The caller's project."),
        "/v2.0/quotas/tenant":
            _own_project(context, "tenant", "the same, by its old name", "The caller's project, by its old name."),
        "/v2.0/quotas/{project_id}": {
            "GET": get(quota, partial(_read, context), summary="how many a project may have; -1 for any number"),
            "PUT": Operation(
                summary="give a project quotas of its own",
                endpoint=partial(_update, context), rule=Rule("update_quota", ADMIN), body=QuotaEnvelope, result=quota,
            ),
            "DELETE": Operation(
                summary="let the default quotas hold for a project",
                endpoint=partial(_delete, context), rule=Rule("delete_quota", ADMIN), status=204,
            ),
        },
        "/v2.0/quotas/{project_id}/default": {
            "GET": get(quota, partial(_read_default, context), summary="what it may have without its own")
        },
        "/v2.0/quotas/{project_id}/details": {
            "GET": get(QUOTA_DETAILS_ANSWER, partial(_read_details, context), summary="how many it may have, and has")
        },
    }  # fmt: skip


def _own_project(context: Networks, name: str, summary: str, doc: str) -> Mapping[str, Operation]:
    """Return GET of the caller's project. name: of its attribute, without `_id`. doc: what the answer is."""

    async def show(request: Request) -> dict[str, dict[str, str]]:
        return {name: {f"{name}_id": caller_of(request.scope).project_id or context.default_project}}

    document = body_type(f"{name.capitalize()}Document", (f"{name}_id", str), doc=doc)
    return {"GET": Operation(summary=summary, endpoint=show, result=answer(name, document))}


async def _list_all(context: Networks, _request: Request) -> list[Struct]:
    quotas_by_project = await service.list_quotas(context)
    return [PROJECT_QUOTA(project_id=id_, tenant_id=id_, **quotas) for id_, quotas in quotas_by_project.items()]


async def _read(context: Networks, request: Request) -> Struct:
    return QUOTA(**await service.get_quotas(context, _project(request)))


async def _read_default(context: Networks, request: Request) -> Struct:
    _project(request)
    return QUOTA(**service.default_quotas(context))


async def _read_details(context: Networks, request: Request) -> Struct:
    usages = await service.get_details(context, _project(request))
    parts = {resource: QuotaUsageDocument(usage.maximum, usage.used) for resource, usage in usages.items()}
    return QUOTA_DETAILS(**parts)


async def _update(context: Networks, request: Request) -> dict[str, Any]:
    project_id = _project(request)
    body = (await read_json(request, QuotaEnvelope)).quota
    refuse_unserved(body)
    for name, value in (("project_id", body.project_id), ("tenant_id", body.tenant_id)):
        if value not in (None, project_id):
            raise InvalidInput(f"{name} '{value}': the path names {project_id}.")
    check_limit = body.check_limit and not body.force
    quotas = await service.set_quotas(context, project_id, _maxima(body), check_limit=check_limit)
    return {"quota": listing.show_fields(QUOTA(**quotas), request)}


async def _delete(context: Networks, request: Request) -> None:
    await service.delete_quotas(context, _project(request))


def _maxima(body: QuotaBody) -> dict[str, int]:
    maxima = {resource: getattr(body, resource) for resource in RESOURCES}
    return {resource: int(maximum) for resource, maximum in maxima.items() if maximum is not UNSET}


def _project(request: Request) -> str:
    """Return the project that the path names. Raises InvalidInput."""
    project_id: str = request.path_params["project_id"]
    if len(project_id) > PROJECT_ID_MAX or "\x00" in project_id:
        raise InvalidInput(
            f"project '{project_id[:64]}': expected at most {PROJECT_ID_MAX} characters, none of them NUL."
        )
    return project_id
