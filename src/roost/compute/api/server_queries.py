"""Which servers a list is asked for: filters, order, page. What is not served is refused at every microversion.

Upstream ignores, below 2.75, what it does not know, and so answers with servers that were not asked for.
Source: Compute API, "List Servers"; nova/api/openstack/compute/schemas/servers.py, query_params_v21 to v273.
"""

import msgspec
from starlette.requests import Request

from roost.compute.api.access import Access
from roost.compute.api.policies import ALL_FILTERS
from roost.compute.api.requests import (
    FLAG,
    LIMIT,
    NO,
    Parameter,
    Parameters,
    check_parameters,
    flag,
    one_of,
    text_parameter,
)
from roost.compute.model.server import ServerFilter
from roost.platform.errors import BadRequest
from roost.platform.http import canonical_uuid, is_uuid

PARAMETERS: Parameters = {
    "limit": LIMIT,
    "all_tenants": FLAG,
    **dict.fromkeys(("deleted", "soft_deleted"), Parameter(schema=one_of(NO))),
    "sort_key": Parameter(schema={"const": "created_at"}, repeated=True),
    "sort_dir": Parameter(schema={"enum": ["asc", "desc"]}, repeated=True),
    "status": Parameter(repeated=True),
    **dict.fromkeys(("marker", "uuid"), Parameter(schema={"type": "string", "format": "uuid"})),
    "availability_zone": Parameter(),
    **dict.fromkeys(("project_id", "tenant_id", "user_id", "image", "image_ref", "flavor"), Parameter()),
    **dict.fromkeys(("host", "node", "reservation_id", "name", "display_name"), Parameter()),
    **dict.fromkeys(("vm_state", "task_state", "ip", "ip6"), Parameter()),
    "locked": msgspec.structs.replace(FLAG, since=(2, 73)),
    **dict.fromkeys(("tags", "tags-any", "not-tags", "not-tags-any"), Parameter(since=(2, 26))),
}
"""Of a list."""

HOST_FILTERS = frozenset({"host", "node"})
"""Parameters that tell where servers run. Upstream ignores them of who may not use them; here that is 403."""

NEVER_TRUE = ("deleted", "soft_deleted")
"""What no server is here: asked for with `false`, they change nothing."""


def read_filter(access: Access, request: Request, *, rule: str) -> ServerFilter:
    """Return which servers are asked for. rule: of the list. Raises BadRequest, Forbidden."""
    check_parameters(request, PARAMETERS)
    if HOST_FILTERS & request.query_params.keys():
        access.enforce(ALL_FILTERS)
    filter_asked = _read_filter(request)
    all_tenants = text_parameter(request, "all_tenants")
    if all_tenants == "" or flag(all_tenants, "all_tenants", default=False):  # as Nova reads an empty one
        access.enforce(f"{rule}:get_all_tenants")
    elif filter_asked.project_id is None:
        return msgspec.structs.replace(filter_asked, project_id=access.project_id)
    elif filter_asked.project_id != access.project_id:
        access.enforce(f"{rule}:get_all_tenants")
    return filter_asked


def marker_of(request: Request) -> str | None:
    """Return the server that the page begins behind. Raises BadRequest for what is no UUID."""
    marker = text_parameter(request, "marker")
    if marker is not None and not is_uuid(marker):
        raise BadRequest(f"marker [{marker}] not found")
    return None if marker is None else canonical_uuid(marker)


def _read_filter(request: Request) -> ServerFilter:
    server_id = text_parameter(request, "uuid")
    if server_id is not None and not is_uuid(server_id):
        raise BadRequest(f"uuid={server_id}: expected a UUID")
    for name in NEVER_TRUE:
        if flag(text_parameter(request, name), name, default=False):
            raise BadRequest(f"{name}: Roost keeps no such servers: expected false")
    return ServerFilter(
        project_id=_either(request, "project_id", "tenant_id"),
        user_id=text_parameter(request, "user_id"),
        zone=text_parameter(request, "availability_zone"),
        name=_either(request, "name", "display_name"),
        statuses=_read_statuses(request),
        vm_state=None if (vm_state := text_parameter(request, "vm_state")) is None else vm_state.lower(),
        locked=None if (locked := text_parameter(request, "locked")) is None else flag(locked, "locked", default=False),
        tags=_read_tags(request, "tags"),
        tags_any=_read_tags(request, "tags-any"),
        not_tags=_read_tags(request, "not-tags"),
        not_tags_any=_read_tags(request, "not-tags-any"),
        task_state=text_parameter(request, "task_state"),
        host=_either(request, "host", "node"),
        flavor_id=text_parameter(request, "flavor"),
        image_ref=_either(request, "image", "image_ref"),
        reservation_id=text_parameter(request, "reservation_id"),
        server_id=None if server_id is None else canonical_uuid(server_id),
        ip=text_parameter(request, "ip"),
        ip6=text_parameter(request, "ip6"),
    )


def _either(request: Request, name: str, alias: str) -> str | None:
    """Return the value of a parameter that has two names. Raises BadRequest where they say two things."""
    value, value_of_alias = text_parameter(request, name), text_parameter(request, alias)
    if value and value_of_alias and value != value_of_alias:
        raise BadRequest(f"{name}={value} and {alias}={value_of_alias}: expected one of them")
    return value or value_of_alias or None


def _read_statuses(request: Request) -> tuple[str, ...] | None:
    """Return the statuses of which a server must have one."""
    if "status" not in request.query_params:
        return None
    return tuple(sorted({text.upper() for text in request.query_params.getlist("status")}))


def _read_tags(request: Request, name: str) -> tuple[str, ...] | None:
    text = text_parameter(request, name)
    return None if text is None else tuple(text.split(","))


def read_descending(request: Request) -> bool:
    """Return whether the youngest come first. No two are equally old, so keys behind the first decide nothing."""
    keys, directions = (request.query_params.getlist(name) for name in ("sort_key", "sort_dir"))
    if keys and keys[0] != "created_at":
        raise BadRequest(f"sort_key={keys[0]}: Roost does not serve it: expected created_at")
    for direction in directions:
        if direction not in ("asc", "desc"):
            raise BadRequest(f"sort_dir={direction}: expected asc or desc")
    return directions[:1] != ["asc"]
