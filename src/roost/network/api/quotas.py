"""Quotas over HTTP. Source: Network API v2.0, extensions quotas, quota_details and quota-check-limit."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from roost.network.api import listing
from roost.network.api.fields import NoMaximum, Text, refuse_unserved
from roost.network.api.policies import ADMIN, MANAGER
from roost.network.api.resources import answer, get_few, get_one
from roost.network.errors import InvalidInput, TenantQuotaNotFound
from roost.network.rules.quotas import RESOURCES
from roost.network.service import Networks
from roost.network.service.quotas import QUOTAS
from roost.platform.auth import caller_of
from roost.platform.bodies import read_json
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.quotas import Maximum
from roost.platform.structs import body_type

PROJECT_ID_MAX = 255
GET_QUOTA = Rule("get_quota", f"{ADMIN} or ({MANAGER})")

GivenMaximum = Maximum | Annotated[str, Meta(pattern="^(-1|[0-9]{1,9})$")] | UnsetType
"""A number, or its digits, as upstream takes them."""
UNSERVED = ("floatingip", "rbac_policy", "router", "security_group", "security_group_rule", "subnetpool")
"""Quotas of what Roost does not have: accepted where they allow any number of it."""


class QuotaUsageDocument(Struct, forbid_unknown_fields=True):
    """One resource in detail; what is being made counts once it is there, so nothing is ever reserved."""

    limit: int
    used: int
    reserved: int = 0


def _each(kind: Any, *default: Any) -> Iterator[tuple[Any, ...]]:
    """Return a field of this kind for each resource."""
    return ((resource, kind, *default) for resource in RESOURCES)


QUOTA_BODY = body_type(
    "QuotaBody",
    *((name, NoMaximum, UNSET) for name in UNSERVED),
    *_each(GivenMaximum, UNSET),
    *((name, bool, False) for name in ("check_limit", "force")),
    *((name, Text | None, None) for name in ("project_id", "tenant_id")),
    doc="PUT quotas/{project}: what is left out stays. check_limit: refuse a quota below what there is already.",
)
QUOTA_ENVELOPE = body_type("QuotaEnvelope", ("quota", QUOTA_BODY), doc="The body around a project's quotas.")

QUOTA = body_type("QuotaDocument", *_each(int), doc="How many a project may have; -1 for any number.")
PROJECT_QUOTA = body_type(
    "ProjectQuotaDocument", *_each(int), ("project_id", str), ("tenant_id", str),
    doc="The same, with the project that it is about.",
)  # fmt: skip
QUOTA_DETAILS = body_type(
    "QuotaDetailsDocument", *_each(QuotaUsageDocument), doc="How many a project may have, and how many it has."
)
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
                endpoint=partial(_update, context), rule=Rule("update_quota", ADMIN), body=QUOTA_ENVELOPE, result=quota,
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
    """Return the operation that reads the caller's project.

    name: of its attribute, without `_id`. doc: what the answer is.
    """

    async def show(request: Request) -> dict[str, dict[str, str]]:
        return {name: {f"{name}_id": caller_of(request.scope).project_id or context.default_project}}

    document = body_type(f"{name.capitalize()}Document", (f"{name}_id", str), doc=doc)
    return {"GET": Operation(summary=summary, endpoint=show, result=answer(name, document))}


async def _list_all(context: Networks, _request: Request) -> list[Struct]:
    own = await QUOTAS.list_own(context)
    return [PROJECT_QUOTA(project_id=id_, tenant_id=id_, **quotas) for id_, quotas in own.items()]


async def _read(context: Networks, request: Request) -> Any:
    return QUOTA(**await QUOTAS.get(context, _project(request)))


async def _read_default(context: Networks, request: Request) -> Any:
    _project(request)
    return QUOTA(**QUOTAS.defaults(context))


async def _read_details(context: Networks, request: Request) -> Any:
    usages = await QUOTAS.get_usages(context, _project(request))
    return QUOTA_DETAILS(**{name: QuotaUsageDocument(usage.maximum, usage.used) for name, usage in usages.items()})


async def _update(context: Networks, request: Request) -> dict[str, Any]:
    project_id = _project(request)
    body = (await read_json(request, QUOTA_ENVELOPE)).quota
    refuse_unserved(body)
    for name in ("project_id", "tenant_id"):
        if (value := getattr(body, name)) not in (None, project_id):
            raise InvalidInput(f"{name} '{value}': the path names {project_id}.")
    values = {resource: getattr(body, resource) for resource in RESOURCES}
    maxima: dict[str, int] = {resource: int(value) for resource, value in values.items() if value is not UNSET}
    quotas = await QUOTAS.set(context, project_id, maxima, check=body.check_limit and not body.force)
    return {"quota": listing.show(QUOTA(**quotas), request, listing.fields_named(request))}


async def _delete(context: Networks, request: Request) -> None:
    project_id = _project(request)
    if not await QUOTAS.delete(context, project_id):
        raise TenantQuotaNotFound(f"Quota for tenant {project_id} could not be found.")


def _project(request: Request) -> str:
    """Return the project that the path names. Raises InvalidInput."""
    project_id: str = request.path_params["project_id"]
    if len(project_id) > PROJECT_ID_MAX or "\x00" in project_id:
        raise InvalidInput(
            f"project '{project_id[:64]}': expected at most {PROJECT_ID_MAX} characters, none of them NUL."
        )
    return project_id
