"""The Network API: decode, call one service function, encode."""

from starlette.routing import Route

from roost.network.api.agents import agent_operations
from roost.network.api.availability import availability_operations
from roost.network.api.bindings import binding_operations
from roost.network.api.extensions import first_operations
from roost.network.api.guard import checks
from roost.network.api.networks import network_operations
from roost.network.api.openapi import ABOUT
from roost.network.api.ports import port_operations
from roost.network.api.protocol import API
from roost.network.api.quotas import quota_operations
from roost.network.api.segments import segment_operations
from roost.network.api.subnets import subnet_operations
from roost.network.api.tags import tag_operations
from roost.network.service import Networks
from roost.platform.auth import Policy, Unrestricted
from roost.platform.openapi import with_document
from roost.platform.operations import Operations, make_routes

UNRESTRICTED = Unrestricted()


def operations(networks: Networks, policy: Policy = UNRESTRICTED) -> Operations:
    """Every operation of the API, by path and method."""
    served: Operations = {
        # First, since routes are tried in order, what clients ask all day.
        **port_operations(networks),
        **binding_operations(networks),
        **network_operations(networks),
        **segment_operations(networks),
        **subnet_operations(networks),
        **availability_operations(networks),
        **agent_operations(networks),
        **quota_operations(networks),
        **tag_operations(networks),
    }
    served = {**served, **first_operations(served)}
    return with_document(ABOUT, served, asks_callers=not isinstance(policy, Unrestricted))


def routes(networks: Networks, policy: Policy = UNRESTRICTED) -> list[Route]:
    """Everything below the API's root; whoever serves it mounts it at /network."""
    return [*make_routes(API, operations(networks, policy), checks(networks, policy)), API.not_found()]
