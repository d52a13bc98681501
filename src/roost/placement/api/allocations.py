"""/allocations/{consumer}, and POST /allocations for many. Source: Placement API 1.39; 1.28 to 1.37 without types."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.placement import service, service_read
from roost.placement.api.errors import refusal
from roost.placement.api.reads import API, fresh_response
from roost.placement.service import Ledger
from roost.platform.errors import BadRequest
from roost.platform.http import canonical_uuid, is_uuid, json_response, read_json
from roost.seams.placement import ClaimGroup, ConsumerClaim, Refused

CONSUMER_TYPES_SINCE = (1, 38)
UNKNOWN_TYPE = "unknown"
"""What a consumer without a type is shown as."""

Amount = Annotated[int, Meta(ge=1, le=2**31 - 1)]
ResourceClass = Annotated[str, Meta(pattern="^[A-Z0-9_]+$", min_length=1, max_length=255)]
Identity = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]+$")]
TypeName = Annotated[str, Meta(pattern="^[A-Z0-9_]+$", min_length=1, max_length=255)]


class AllocationBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be held on one provider; the generation is there for clients that send back what they read."""

    resources: Annotated[dict[ResourceClass, Amount], Meta(min_length=1)]
    generation: int | UnsetType = UNSET


class ConsumerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """All that a consumer is to hold; the mappings of a candidate are accepted and not kept."""

    allocations: dict[str, AllocationBody]
    project_id: Identity
    user_id: Identity
    consumer_generation: int | None
    consumer_type: TypeName | UnsetType = UNSET
    mappings: dict[str, list[str]] | UnsetType = UNSET


def allocation_routes(ledger: Ledger) -> list[Route]:
    """The routes of allocations."""

    async def show(request: Request) -> Response:
        text: str = request.path_params["uuid"]
        head, held = await service_read.find_consumer(ledger, canonical_uuid(text)) if is_uuid(text) else (None, {})
        allocations = {
            uuid: {"generation": generation, "resources": resources} for uuid, (generation, resources) in held.items()
        }
        body: dict[str, Any] = {"allocations": allocations}
        if head is not None:
            body["project_id"], body["user_id"] = head.project_id, head.user_id
            body["consumer_generation"] = head.generation
            body["consumer_type"] = head.consumer_type or UNKNOWN_TYPE
        return fresh_response(ledger, body)

    async def replace(request: Request) -> Response:
        body = await read_json(request, ConsumerBody)
        await _claim({request.path_params["uuid"]: body}, request)
        return json_response(None, 204)

    async def replace_many(request: Request) -> Response:
        bodies = await read_json(request, dict[str, ConsumerBody])
        if not bodies:
            raise BadRequest("malformed body: expected at least one consumer")
        await _claim(bodies, request)
        return json_response(None, 204)

    async def release(request: Request) -> Response:
        uuid = _uuid(request.path_params["uuid"], "consumer")
        await service_read.get_consumer(ledger, uuid)
        await service.release(ledger, [uuid])
        return json_response(None, 204)

    async def _claim(bodies: Mapping[str, ConsumerBody], request: Request) -> None:
        typed = request.state.microversion >= CONSUMER_TYPES_SINCE
        group = ClaimGroup(tuple(_consumer_claim(uuid, body, typed=typed) for uuid, body in bodies.items()))
        await service_read.check_resource_classes(
            ledger, {name for claim in group.consumers for held in claim.allocations.values() for name in held}
        )
        (answer,) = await service.claim(ledger, [group])
        if isinstance(answer, Refused):
            raise refusal(answer)

    return [
        API.route("/allocations", {"POST": replace_many}),
        API.route("/allocations/{uuid}", {"GET": show, "PUT": replace, "DELETE": release}),
    ]


def _consumer_claim(uuid: str, body: ConsumerBody, *, typed: bool) -> ConsumerClaim:
    if typed != isinstance(body.consumer_type, str):
        wanted = "expected" if typed else "not expected before microversion 1.38"
        raise BadRequest(f"malformed body: consumer_type: {wanted}")
    return ConsumerClaim(
        consumer_uuid=_uuid(uuid, "consumer"),
        generation=body.consumer_generation,
        consumer_type=body.consumer_type if isinstance(body.consumer_type, str) else None,
        project_id=body.project_id,
        user_id=body.user_id,
        allocations={
            _uuid(provider, "resource provider"): held.resources for provider, held in body.allocations.items()
        },
    )


def _uuid(text: str, what: str) -> str:
    if not is_uuid(text):
        raise BadRequest(f"Malformed {what} UUID: expected a UUID, got {text!r}")
    return canonical_uuid(text)
