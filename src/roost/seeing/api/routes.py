"""Every operation of the operator's side; mounted under /roost by who wires the services."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from starlette.routing import Route

from roost.platform.auth import UNRESTRICTED, Policy
from roost.platform.http import Api
from roost.platform.openapi import About, with_document
from roost.platform.operations import Check, Operation, Operations, make_routes, make_rules, policy_check
from roost.platform.versions import versions_operation
from roost.seeing.api.events import event_operations
from roost.seeing.api.policies import CHECKS
from roost.seeing.service.events import EventSource

if TYPE_CHECKING:
    from roost.seeing.service.context import Seeing

API = Api()
"""Refusals are problem details. Source: RFC 9457."""


class ProblemDetails(Struct, frozen=True):
    """Why a request was refused. Source: RFC 9457."""

    type: str
    title: str
    status: int
    detail: str


ABOUT = About(
    title="Roost for operators",
    description="What happened, why a server finds no host, how many more fit, and getting hosts empty.",
    version="1",
    path_parameters={"drain_id": {"type": "string", "pattern": "^[0-9]{1,18}$"}},
    error=ProblemDetails,
)


def operations(seeing: "Seeing", policy: Policy = UNRESTRICTED) -> Operations:
    """Return every operation, by path and method: the version document, and all else below /v1."""
    from roost.seeing.api.capacity import capacity_operations  # with compute, of which a ledger alone imports none
    from roost.seeing.api.drains import Drains
    from roost.seeing.api.explanations import explain_operations

    versioned: Operations = {
        **event_operations(lambda: seeing.sources),
        **explain_operations(seeing),
        **capacity_operations(seeing),
        **Drains(seeing).operations(),
    }
    return _served(versioned, policy)


def _served(versioned: Operations, policy: Policy) -> Operations:
    served: Operations = {
        "/": {"GET": versions_operation("v1", "/v1")},
        **{f"/v1{path}": methods for path, methods in versioned.items()},
    }
    return with_document(ABOUT, served, policy)


def routes(seeing: "Seeing", policy: Policy = UNRESTRICTED) -> list[Route]:
    """Return every route; last, a 404."""
    return _routes(operations(seeing, policy), policy)


def event_routes(sources: Sequence[EventSource], policy: Policy = UNRESTRICTED) -> list[Route]:
    """Return the routes of a placement service alone, of which there is nothing else to see."""
    return _routes(_served(event_operations(lambda: sources), policy), policy)


def _routes(served: Operations, policy: Policy) -> list[Route]:
    def checks_of(_path: str, _method: str, operation: Operation) -> list[Check | None]:
        return [policy_check(policy, operation)]

    return [*make_routes(API, served, checks_of), API.not_found()]


def rules() -> list[Any]:
    """Return every policy rule with its default, as oslo.policy takes them."""
    nothing: Any = None  # no operation needs a service to be listed
    return make_rules(CHECKS, operations(nothing), {}, scope_types=["project"])
