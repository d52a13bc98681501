"""How the Placement API answers errors: one table, upstream's `errors` list, HTML or plain text for who asks for it.

Source: OpenStack API working group, errors guideline; Placement API 1.23 for the codes.
"""

import html
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from roost.placement.errors import (
    AllocationProviderNotFound,
    AllocationsRefused,
    ConcurrentUpdate,
    InventoryInUse,
    ProviderHasChildren,
    ProviderInUse,
    ProviderNameTaken,
    QueryKeyRepeated,
    QueryValueBad,
    QueryValueMissing,
    ReshapeProviderNotFound,
)
from roost.placement.service.figures import GENERATION_CONFLICTS
from roost.platform.errors import RoostError
from roost.platform.http import Problem, json_response
from roost.platform.request_ids import request_id_of
from roost.seams.placement import Refused, Rule, Shortfall

UNDEFINED_CODE = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"
CODES_SINCE = (1, 23)

PROBLEMS: dict[type[Exception], Problem] = {
    ConcurrentUpdate: Problem(409, CONCURRENT_UPDATE, "Conflict"),
    InventoryInUse: Problem(409, "placement.inventory.inuse", "Conflict"),
    ProviderNameTaken: Problem(409, "placement.duplicate_name", "Conflict"),
    ProviderInUse: Problem(409, "placement.resource_provider.inuse", "Conflict"),
    ProviderHasChildren: Problem(409, "placement.resource_provider.cannot_delete_parent", "Conflict"),
    ReshapeProviderNotFound: Problem(400, "placement.resource_provider.not_found", "Bad Request"),
    QueryKeyRepeated: Problem(400, "placement.query.duplicate_key", "Bad Request"),
    QueryValueBad: Problem(400, "placement.query.bad_value", "Bad Request"),
    QueryValueMissing: Problem(400, "placement.query.missing_value", "Bad Request"),
}

EXPLANATIONS = {
    400: "The server could not comply with the request since it is either malformed or otherwise incorrect.",
    401: "This server could not verify that you are authorized to access the document you requested.",
    403: "Access was denied to this resource.",
    404: "The resource could not be found.",
    406: "The resource could not be generated that was acceptable to your browser.",
    409: "There was a conflict when trying to complete your request.",
    413: "The body of your request was too large for this server.",
    415: "The request media type is not supported by this server.",
}
"""The sentence that upstream puts before the detail; its clients search the text behind it."""


def error_response(problem: Problem, detail: str, request: Request) -> Response:
    """Return an error in the Placement API's own words; JSON unless the client asks for something else."""
    if problem.code == CONCURRENT_UPDATE:
        GENERATION_CONFLICTS.inc()
    explanation = EXPLANATIONS.get(problem.status)
    detail = _in_one_line(detail)
    text = f"{explanation}\n\n {detail}  " if explanation else detail
    accept = request.headers.get("accept", "")
    title = problem.title or HTTPStatus(problem.status).phrase
    if not accept or "json" in accept or "*/*" in accept or "application/*" in accept:
        return json_response(_errors_list(problem, title, text, request), problem.status)
    if "text/html" in accept:
        page = f"<html><head><title>{problem.status} {title}</title></head><body>{html.escape(text)}</body></html>"
        return Response(page, problem.status, media_type="text/html")
    return Response(f"{problem.status} {title}\n\n{text}", problem.status, media_type="text/plain")


def _in_one_line(detail: str) -> str:
    """Return the detail without line breaks: `openstack` shows the last line of an error, and no other.

    Source: webob.exc.strip_tags, through which upstream's details go.
    """
    return detail.replace("\n", " ").replace("\r", "")


def _errors_list(problem: Problem, title: str, text: str, request: Request) -> dict[str, list[dict[str, object]]]:
    error: dict[str, object] = {
        "status": problem.status,
        "title": title,
        "detail": text,
        "request_id": request_id_of(request.scope),
    }
    version = getattr(request.state, "microversion", None)
    if version is not None and version >= CODES_SINCE:
        error["code"] = problem.code or UNDEFINED_CODE
    if version is None and problem.status == 406:
        error["max_version"], error["min_version"] = "1.39", "1.0"
    return {"errors": [error]}


def refusal(refused: Refused) -> RoostError:
    """Return the error that upstream answers where the ledger refuses; all reasons are in its text."""
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
            present = "null" if shortfall.free < 0 else shortfall.free
            generation = None if shortfall.requested < 0 else shortfall.requested
            return f"consumer generation conflict - expected {present} but got {generation}"
        case Rule.NO_INVENTORY:
            return f"Inventory for {what} invalid: No inventory of class {shortfall.resource_class}."
        case Rule.CAPACITY:
            return (
                f"Unable to create allocation for {what}. The requested amount would exceed the capacity: "
                f"{shortfall.requested} asked, {shortfall.free} free."
            )
        case _:
            return (
                f"Unable to create allocation for {what}. The requested amount would violate inventory constraints: "
                f"{shortfall.requested} asked, {shortfall.rule.value} is {shortfall.limit}."
            )
