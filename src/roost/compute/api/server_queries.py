"""Which servers a list is asked for: filters, order, page. What is not served is refused at every microversion.

Upstream ignores, below 2.75, what it does not know, and so answers with servers that were not asked for.
Source: Compute API, "List Servers"; nova/api/openstack/compute/schemas/servers.py, query_params_v21 to v273.
"""

from collections.abc import Mapping

from msgspec import Struct
from starlette.requests import Request

from roost.compute.api.requests import check_parameters, flag, page_limit, text_parameter
from roost.compute.model import ServerFilter
from roost.compute.rules.servers import VM_STATES, ZONE
from roost.compute.service import Compute
from roost.platform.auth import OPERATOR, caller_of
from roost.platform.errors import BadRequest
from roost.platform.http import Version, canonical_uuid, is_uuid

FIRST_VERSIONS: Mapping[str, Version] = {
    **dict.fromkeys(("limit", "marker", "sort_key", "sort_dir", "all_tenants"), (2, 1)),
    **dict.fromkeys(("project_id", "tenant_id", "user_id", "image", "image_ref", "flavor"), (2, 1)),
    **dict.fromkeys(("host", "node", "availability_zone", "reservation_id", "uuid", "name", "display_name"), (2, 1)),
    **dict.fromkeys(("status", "vm_state", "task_state", "ip", "ip6", "deleted", "soft_deleted"), (2, 1)),
    "locked": (2, 73),
}
"""Parameter that is served -> the microversion that brought it."""

REPEATED = frozenset({"status", "sort_key", "sort_dir"})
"""Parameters that may be given several times."""

NEVER_TRUE = ("deleted", "soft_deleted", "locked")
"""What no server is here: asked for with `false`, they change nothing."""


class ServerPage(Struct, frozen=True):
    """What a list is asked for. marker: the server that the page begins behind."""

    only: ServerFilter
    marker: str | None
    limit: int
    descending: bool


def owner(compute: Compute, request: Request) -> tuple[str, str]:
    """Return whose is what a request makes, and whose servers it sees: (project, user)."""
    caller = caller_of(request.scope)
    if caller == OPERATOR or caller.project_id is None:
        return compute.default_project, compute.default_user
    return caller.project_id, caller.user_id or compute.default_user


def read_page(compute: Compute, request: Request) -> ServerPage:
    """Return what a list is asked for. Raises BadRequest."""
    check_parameters(request, FIRST_VERSIONS, repeated=REPEATED)
    marker = text_parameter(request, "marker")
    if marker is not None and not is_uuid(marker):
        raise BadRequest(f"marker [{marker}] not found")
    return ServerPage(
        only=_read_filter(compute, request),
        marker=None if marker is None else canonical_uuid(marker),
        limit=page_limit(request),
        descending=_read_descending(request),
    )


def _read_filter(compute: Compute, request: Request) -> ServerFilter:
    server_id = text_parameter(request, "uuid")
    if server_id is not None and not is_uuid(server_id):
        raise BadRequest(f"uuid={server_id}: expected a UUID")
    for name in NEVER_TRUE:
        if flag(text_parameter(request, name), name, default=False):
            raise BadRequest(f"{name}: Roost keeps no such servers: expected false")
    zone = text_parameter(request, "availability_zone")
    if zone not in (None, ZONE):
        raise BadRequest(f"The requested availability zone is not available: {zone}. There is one: {ZONE}.")
    project_id = _either(request, "project_id", "tenant_id")
    if project_id is None and not flag(text_parameter(request, "all_tenants"), "all_tenants", default=False):
        project_id = owner(compute, request)[0]
    return ServerFilter(
        project_id=project_id,
        user_id=text_parameter(request, "user_id"),
        name=_either(request, "name", "display_name"),
        statuses=_read_statuses(request),
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
    one, other = text_parameter(request, name), text_parameter(request, alias)
    if one and other and one != other:
        raise BadRequest(f"{name}={one} and {alias}={other}: expected one of them")
    return one or other or None


def _read_statuses(request: Request) -> tuple[str, ...] | None:
    """Return the statuses of which a server must have one; none at all where nothing can have what is asked for."""
    wanted = None
    if "status" in request.query_params:
        wanted = {text.upper() for text in request.query_params.getlist("status")}
    vm_state = text_parameter(request, "vm_state")
    if vm_state is not None:
        having = {status for status, state in VM_STATES.items() if state == vm_state.lower()}
        wanted = having if wanted is None else wanted & having
    return None if wanted is None else tuple(sorted(wanted))


def _read_descending(request: Request) -> bool:
    """Return whether the youngest come first. No two are equally old, so keys behind the first decide nothing."""
    keys, directions = (request.query_params.getlist(name) for name in ("sort_key", "sort_dir"))
    if keys and keys[0] != "created_at":
        raise BadRequest(f"sort_key={keys[0]}: Roost does not serve it: expected created_at")
    for direction in directions:
        if direction not in ("asc", "desc"):
            raise BadRequest(f"sort_dir={direction}: expected asc or desc")
    return directions[:1] != ["asc"]
