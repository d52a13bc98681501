"""How the Placement API answers errors: one table, and upstream's `errors` list.

Source: OpenStack API working group, errors guideline; Placement API 1.23 for the codes.
"""

import uuid
from typing import Any

from starlette.requests import Request

from roost.placement.errors import (
    AllocationProviderNotFound,
    AllocationsRefused,
    ConcurrentUpdate,
    InventoryInUse,
    ProviderNameTaken,
    QueryKeyRepeated,
    QueryValueBad,
    QueryValueMissing,
)
from roost.platform.errors import RoostError
from roost.platform.http import Problem
from roost.seams.placement import Refused, Rule, Shortfall

UNDEFINED_CODE = "placement.undefined_code"

PROBLEMS: dict[type[Exception], Problem] = {
    ConcurrentUpdate: Problem(409, "placement.concurrent_update", "Conflict"),
    InventoryInUse: Problem(409, "placement.inventory.inuse", "Conflict"),
    ProviderNameTaken: Problem(409, "placement.duplicate_name", "Conflict"),
    QueryKeyRepeated: Problem(400, "placement.query.duplicate_key", "Bad Request"),
    QueryValueBad: Problem(400, "placement.query.bad_value", "Bad Request"),
    QueryValueMissing: Problem(400, "placement.query.missing_value", "Bad Request"),
}

EXPLANATIONS = {
    400: "The server could not comply with the request since it is either malformed or otherwise incorrect.",
    404: "The resource could not be found.",
    409: "There was a conflict when trying to complete your request.",
}
"""The sentence that upstream puts before the detail; its clients search the text behind it."""


def errors_list(problem: Problem, detail: str, request: Request) -> dict[str, Any]:
    """An error's body in the Placement API's own words."""
    explanation = EXPLANATIONS.get(problem.status)
    error = {
        "status": problem.status,
        "title": problem.title,
        "detail": f"{explanation}\n\n {detail}  " if explanation else detail,
        "request_id": request.headers.get("x-openstack-request-id") or f"req-{uuid.uuid4()}",
        "code": problem.code or UNDEFINED_CODE,
    }
    return {"errors": [error]}


def refusal(refused: Refused) -> RoostError:
    """The error that upstream answers where the ledger refuses; all reasons are in its text."""
    shortfalls = refused.shortfalls
    for shortfall in shortfalls:
        if shortfall.rule is Rule.NO_PROVIDER:
            uuid_ = shortfall.provider_uuid
            return AllocationProviderNotFound(f"Allocation for resource provider '{uuid_}' that does not exist.")
    changed = [shortfall for shortfall in shortfalls if shortfall.rule is Rule.CONSUMER_GENERATION]
    if changed:
        return ConcurrentUpdate("; ".join(_words(shortfall) for shortfall in changed))
    return AllocationsRefused(
        "Unable to allocate inventory: " + "; ".join(_words(shortfall) for shortfall in shortfalls)
    )


def _words(shortfall: Shortfall) -> str:
    what = f"'{shortfall.resource_class}' on resource provider '{shortfall.provider_uuid}'"
    match shortfall.rule:
        case Rule.CONSUMER_GENERATION:
            present = None if shortfall.free < 0 else shortfall.free
            given = None if shortfall.asked < 0 else shortfall.asked
            return f"consumer generation conflict - expected {present} but got {given}"
        case Rule.NO_INVENTORY:
            return f"Inventory for {what} invalid: No inventory of class {shortfall.resource_class}."
        case Rule.CAPACITY:
            return (
                f"Unable to create allocation for {what}. The requested amount would exceed the capacity: "
                f"{shortfall.asked} asked, {shortfall.free} free."
            )
        case _:
            return (
                f"Unable to create allocation for {what}. The requested amount would violate inventory constraints: "
                f"{shortfall.asked} asked, {shortfall.rule.value} is {shortfall.limit}."
            )
