"""The Network API: decode, call one service function, encode."""

from typing import Any

from starlette.routing import Route

from roost.network.api.agents import agent_operations
from roost.network.api.availability import availability_operations
from roost.network.api.errors import API
from roost.network.api.extensions import first_operations
from roost.network.api.guard import checks
from roost.network.api.networks import NETWORK
from roost.network.api.openapi import ABOUT
from roost.network.api.policies import ATTRIBUTES, CHECKS, SCOPES
from roost.network.api.port_bindings import binding_operations
from roost.network.api.ports import PORT
from roost.network.api.quotas import quota_operations
from roost.network.api.segments import SEGMENT
from roost.network.api.subnets import SUBNET
from roost.network.api.tags import tag_operations
from roost.network.service import Networks
from roost.platform.auth import UNRESTRICTED, Policy
from roost.platform.openapi import with_document
from roost.platform.operations import Operations, make_routes, make_rules


def operations(networks: Networks, policy: Policy = UNRESTRICTED) -> Operations:
    """Return every operation of the API, by path and method."""
    served: Operations = {
        # First, since routes are tried in order, what clients ask all day.
        **PORT.operations(networks),
        **binding_operations(networks),
        **NETWORK.operations(networks),
        **SEGMENT.operations(networks),
        **SUBNET.operations(networks),
        **availability_operations(networks),
        **agent_operations(networks),
        **quota_operations(networks),
        **tag_operations(networks),
        **first_operations(),
    }
    return with_document(ABOUT, served, policy)


def routes(networks: Networks, policy: Policy = UNRESTRICTED) -> list[Route]:
    """Return everything below the API's root; whoever serves it mounts it at /network."""
    return [*make_routes(API, operations(networks, policy), checks(networks, policy)), API.not_found()]


def rules() -> list[Any]:
    """Return every policy rule with its default, as oslo.policy takes them."""
    nothing: Any = None  # no operation needs a service to be listed
    return make_rules(CHECKS, operations(nothing), ATTRIBUTES, scope_types=SCOPES)
