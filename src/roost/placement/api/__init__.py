"""The Placement API over HTTP: decode, call one service function, encode."""

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.placement.api import answer_schemas
from roost.placement.api.allocations import Allocations
from roost.placement.api.candidates import CandidateOperations
from roost.placement.api.inventories import Inventories
from roost.placement.api.names import ProviderTraits, ResourceClasses, Traits
from roost.placement.api.openapi import ABOUT
from roost.placement.api.policies import make_rules
from roost.placement.api.protocol import API, MICROVERSIONS, answer, checks
from roost.placement.api.providers import Aggregates, Providers
from roost.placement.api.reshape import reshaper_operations
from roost.placement.api.usages import usage_operations
from roost.placement.service import reads as reads_service
from roost.placement.service.ledger import Ledger
from roost.platform.auth import Policy, Unrestricted
from roost.platform.http import show
from roost.platform.openapi import with_document
from roost.platform.operations import Operation, Operations, collect_defaults, make_routes

if TYPE_CHECKING:
    from oslo_policy.policy import RuleDefault


VERSION = {
    "id": "v1.0",
    "max_version": show(MICROVERSIONS.highest),
    "min_version": show(MICROVERSIONS.lowest),
    "status": "CURRENT",
    "links": [{"rel": "self", "href": ""}],
}


def operations(ledger: Ledger, policy: Policy) -> Operations:
    """Return every operation of the API, by path and method."""

    async def show_versions(request: Request) -> Response:
        await reads_service.check_serving(ledger)  # deployments probe this path
        return answer(request, {"versions": [VERSION]})

    served: Operations = {
        # First, since routes are tried in order, what schedulers ask all day.
        **CandidateOperations(ledger).operations(),
        **Allocations(ledger).operations(),
        "/": {
            "GET": Operation(
                summary="the version document",
                endpoint=show_versions,
                result=answer_schemas.VERSIONS,
                needs_token=False,
            )
        },
        **Providers(ledger).operations(),
        **Inventories(ledger).operations(),
        **Aggregates(ledger).operations(),
        **usage_operations(ledger, policy),
        **ResourceClasses(ledger).operations(),
        **Traits(ledger).operations(),
        **ProviderTraits(ledger).operations(),
        **reshaper_operations(ledger),
    }
    return with_document(ABOUT, served, policy, answer=answer)


def routes(ledger: Ledger, policy: Policy) -> list[Route]:
    """Return every route, to be mounted at the root or below a name."""
    return [*make_routes(API, operations(ledger, policy), checks(policy)), API.not_found()]


def rules() -> list["RuleDefault"]:
    """Return every policy rule with its default, as oslo.policy takes them."""
    nothing: Any = None  # no operation needs a ledger to be listed
    return make_rules(collect_defaults(operations(nothing, Unrestricted()), {}))
