"""Every operation of the Compute API; mounted under /compute by who wires the services."""

from typing import Any

from starlette.routing import Route

from roost.compute.api import extensions, versions
from roost.compute.api.access import checks
from roost.compute.api.action_log import ActionLog
from roost.compute.api.actions import action_operations
from roost.compute.api.aggregates import Aggregates
from roost.compute.api.builds import build_operations
from roost.compute.api.declared_hosts import declared_host_operations
from roost.compute.api.errors import API, UNVERSIONED
from roost.compute.api.flavors import Flavors
from roost.compute.api.hosts import Hypervisors
from roost.compute.api.interfaces import Interfaces
from roost.compute.api.limits import limit_operations
from roost.compute.api.move_actions import MOVE_ACTIONS
from roost.compute.api.moves import Migrations
from roost.compute.api.openapi import ABOUT
from roost.compute.api.policies import CHECKS, PARTS, SCOPES
from roost.compute.api.power_actions import POWER_ACTIONS
from roost.compute.api.quota_sets import quota_operations
from roost.compute.api.server_attributes import ServerAttributes
from roost.compute.api.servers import Servers
from roost.compute.api.services import Services
from roost.compute.api.usages import usage_operations
from roost.compute.api.zones import zone_operations
from roost.compute.service import Compute
from roost.platform.auth import UNRESTRICTED, Policy
from roost.platform.openapi import with_document
from roost.platform.operations import Operations, make_routes, make_rules


def operations(compute: Compute, policy: Policy = UNRESTRICTED) -> Operations:
    """Return every operation, by path and method: the version documents, Roost's own, all else below /v2.1."""
    versioned: Operations = {
        **Flavors(compute, policy).operations(),
        **Servers(compute, policy).operations(),
        **action_operations(compute, policy, {**POWER_ACTIONS, **MOVE_ACTIONS}),
        **ActionLog(compute, policy).operations(),
        **ServerAttributes(compute, policy).operations(),
        **Hypervisors(compute).operations(),
        **Services(compute, policy).operations(),
        **Aggregates(compute, policy).operations(),
        **zone_operations(compute),
        **Interfaces(compute, policy).operations(),
        **Migrations(compute, policy).operations(),
        **quota_operations(compute),
        **limit_operations(compute, policy),
        **usage_operations(compute),
        **extensions.OPERATIONS,
    }
    served: Operations = {
        **versions.OPERATIONS,
        **build_operations(compute),
        **declared_host_operations(compute),
        **{f"/v2.1{path}": methods for path, methods in versioned.items()},
    }
    return with_document(ABOUT, served, policy)


def routes(compute: Compute, policy: Policy = UNRESTRICTED) -> list[Route]:
    """Return every route; last, a 404 in Nova's words."""
    served, checks_of = operations(compute, policy), checks(compute, policy)
    versioned = {path: methods for path, methods in served.items() if path.startswith("/v2.1/") and path != "/v2.1/"}
    unversioned = {path: methods for path, methods in served.items() if path not in versioned}
    return [
        *make_routes(UNVERSIONED, unversioned, checks_of),
        *make_routes(API, versioned, checks_of),
        API.not_found(),
    ]


def rules() -> list[Any]:
    """Return every policy rule with its default, as oslo.policy takes them."""
    nothing: Any = None  # no operation needs a service to be listed
    return make_rules(CHECKS, operations(nothing), PARTS, scope_types=SCOPES)
