"""/allocations: what consumers hold, one by one and many at once. Source: Placement API 1.0 to 1.39.

The bodies that schedulers send all day are decoded by msgspec; whatever it does not take is read again as the JSON
Schema of its microversion says, which has the last word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api import answer_schemas, schemas
from roost.placement.api.bodies import BOUNDS, check, decode, work_on
from roost.placement.api.errors import refusal
from roost.placement.api.policies import ADMIN_OR_SERVICE, admin_or_service
from roost.placement.api.protocol import answer, provider_uuid
from roost.placement.errors import AllocationsRefused, ConsumerNotFound, ResourceClassNotFound
from roost.placement.model import NameKind
from roost.placement.service import claims as claims_service
from roost.placement.service import events as events_service
from roost.placement.service import implied as implied_service
from roost.placement.service import reads as reads_service
from roost.placement.service.ledger import Ledger
from roost.placement.service.names import check_names
from roost.platform.bodies import read_bytes
from roost.platform.errors import BadRequest
from roost.platform.http import Version, canonical_uuid, is_uuid
from roost.platform.operations import Operation, Operations, Rule, version_of
from roost.seams.placement import ClaimGroup, ConsumerClaim, Refused

BY_PROVIDER_SINCE = (1, 12)
GENERATIONS_SINCE = (1, 28)
MAPPINGS_SINCE = (1, 34)
CONSUMER_TYPES_SINCE = (1, 38)
UNKNOWN_TYPE = "unknown"
"""What a consumer without a type is shown as."""

NOBODY = "00000000-0000-0000-0000-000000000000"
"""The project and the user of consumers that are written before 1.8."""

Amount = Annotated[int, Meta(ge=1, le=schemas.INTEGER_MAX)]
Name = Annotated[str, Meta(pattern=r"^[A-Z0-9_]+\Z", max_length=255)]
Identity = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]+\Z")]
Uuid = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]
Suffix = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}\Z")]


class AllocationBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be held on one provider; the generation is there for clients that send back what they read."""

    resources: Annotated[dict[Name, Amount], Meta(min_length=1)]
    generation: int | UnsetType = UNSET


class ConsumerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """All that a consumer is to hold; the mappings of a candidate are accepted and not kept."""

    allocations: dict[Uuid, AllocationBody]
    project_id: Identity
    user_id: Identity
    consumer_generation: int | None
    consumer_type: Name | UnsetType = UNSET
    mappings: Annotated[dict[Suffix, Annotated[list[Uuid], Meta(min_length=1)]], Meta(min_length=1)] | UnsetType = UNSET


ONE_DECODER = msgspec.json.Decoder(ConsumerBody)
MANY_DECODER = msgspec.json.Decoder(Annotated[dict[Uuid, ConsumerBody], Meta(min_length=1)])


@dataclass(frozen=True)
class Allocations:
    """The operations of allocations."""

    ledger: Ledger

    async def show(self, request: Request) -> Response:
        text: str = request.path_params["uuid"]
        lines = (
            await reads_service.list_consumer_allocations(self.ledger, canonical_uuid(text)) if is_uuid(text) else []
        )
        allocations: dict[str, Any] = {}
        for line in lines:
            shown = allocations.setdefault(
                line.provider_uuid, {"generation": line.provider_generation, "resources": {}}
            )
            shown["resources"][line.resource_class] = line.used
        body: dict[str, Any] = {"allocations": allocations}
        version = version_of(request)
        if lines and version >= BY_PROVIDER_SINCE:
            body["project_id"], body["user_id"] = lines[0].project_id, lines[0].user_id
            if version >= GENERATIONS_SINCE:
                body["consumer_generation"] = lines[0].consumer_generation
            if version >= CONSUMER_TYPES_SINCE:
                body["consumer_type"] = lines[0].consumer_type or UNKNOWN_TYPE
        return answer(request, body)

    async def replace(self, request: Request) -> Response:
        uuid = consumer_uuid(request.path_params["uuid"])
        raw, version = await read_bytes(request, BOUNDS), version_of(request)
        try:
            body = ONE_DECODER.decode(raw) if version >= GENERATIONS_SINCE else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            body = None
        if body is not None and _is_of(body, version):
            claim = fast_claim(uuid, body)
        else:
            data = decode(raw)
            await work_on(raw, check, data, schemas.ALLOCATIONS_SET.at(version), "JSON does not validate")
            claim = slow_claim(uuid, data, version)
        await self._claim((claim,), f"for consumer {uuid}: ")
        return Response(None, 204)

    async def replace_many(self, request: Request) -> Response:
        raw = await read_bytes(request, BOUNDS)
        claims = await work_on(raw, read_claims, raw, version_of(request))
        await self._claim(claims, "")
        return Response(None, 204)

    async def release(self, request: Request) -> Response:
        text: str = request.path_params["uuid"]
        if not is_uuid(text) or not await claims_service.release(self.ledger, [canonical_uuid(text)]):
            raise ConsumerNotFound(f"No allocations for consumer '{text}'")
        return Response(None, 204)

    async def show_provider(self, request: Request) -> Response:
        generation, lines = await reads_service.get_provider_allocations(self.ledger, provider_uuid(request))
        allocations: dict[str, Any] = {}
        for line in lines:
            shown = allocations.setdefault(line.consumer_uuid, {"resources": {}})
            shown["resources"][line.resource_class] = line.used
            if version_of(request) >= GENERATIONS_SINCE:
                shown["consumer_generation"] = line.consumer_generation
        return answer(request, {"allocations": allocations, "resource_provider_generation": generation})

    async def _claim(self, claims: tuple[ConsumerClaim, ...], whose: str) -> None:
        group = ClaimGroup(claims, addresses_stay=self.ledger.settings.implied_addresses)
        names = {name for claim in group.consumers for resources in claim.allocations.values() for name in resources}
        try:
            await check_names(self.ledger, NameKind.RESOURCE_CLASS, names)
        except ResourceClassNotFound as error:
            raise ResourceClassNotFound(f"Unable to allocate inventory {whose}{error}") from error
        answered = await implied_service.claim_one(self.ledger, group)
        if isinstance(answered, Refused):
            refused = refusal(answered)
            if isinstance(refused, AllocationsRefused):
                events_service.note_claim(self.ledger, group, answered, str(refused))
            raise refused

    def operations(self) -> Operations:
        """Return the operations, by path and method."""
        rule = admin_or_service("allocations")
        return {
            "/allocations": {
                "POST": Operation(
                    summary="claim for several consumers, all or nothing; 409 with every shortfall",
                    endpoint=self.replace_many, errors=(409,), rule=rule("manage"), since=(1, 13),
                    body=schemas.ALLOCATIONS_SET_MANY, status=204,
                )
            },
            "/allocations/{uuid}": {
                "GET": Operation(
                    summary="what a consumer holds; empty for one that holds nothing", endpoint=self.show,
                    path=schemas.ANY_CONSUMER, result=answer_schemas.CONSUMER, rule=rule("list"),
                ),
                "PUT": Operation(
                    summary="claim for one consumer, instead of what it held", endpoint=self.replace, errors=(409,),
                    rule=rule("update"), body=schemas.ALLOCATIONS_SET, status=204,
                ),
                "DELETE": Operation(
                    summary="give back all that a consumer holds, whatever its generation", endpoint=self.release,
                    errors=(404,), rule=rule("delete"), status=204,
                ),
            },
            "/resource_providers/{uuid}/allocations": {
                "GET": Operation(
                    summary="what each consumer holds of it", endpoint=self.show_provider,
                    result=answer_schemas.PROVIDER_ALLOCATIONS, errors=(404,),
                    rule=Rule("placement:resource_providers:allocations:list", ADMIN_OR_SERVICE),
                )
            },
        }  # fmt: skip


def read_claims(raw: bytes, version: Version) -> tuple[ConsumerClaim, ...]:
    """Return the claims of a body for many consumers. Raises BadRequest."""
    try:
        bodies = MANY_DECODER.decode(raw) if version >= GENERATIONS_SINCE else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        bodies = {}
    if bodies and all(_is_of(body, version) for body in bodies.values()):
        return tuple([fast_claim(uuid, body) for uuid, body in bodies.items()])
    data = decode(raw)
    check(data, schemas.ALLOCATIONS_SET_MANY.at(version), "JSON does not validate")
    return slow_claims(data, version)


def slow_claims(data: Mapping[str, Any], version: Version) -> tuple[ConsumerClaim, ...]:
    """Return the claims of a body by consumer that is as its schema says. Raises BadRequest."""
    claims = tuple(slow_claim(consumer_uuid(uuid), entry, version) for uuid, entry in data.items())
    if len({claim.consumer_uuid for claim in claims}) < len(claims):
        raise BadRequest("a consumer is named twice: expected each once, in either spelling of its UUID")
    return claims


def fast_claim(uuid: str, body: ConsumerBody) -> ConsumerClaim:
    """Return the claim that a body stands for."""
    return ConsumerClaim(
        consumer_uuid=uuid,
        generation=body.consumer_generation,
        consumer_type=body.consumer_type or None,
        project_id=body.project_id,
        user_id=body.user_id,
        allocations={provider: entry.resources for provider, entry in body.allocations.items()},
    )


def slow_claim(uuid: str, data: Mapping[str, Any], version: Version) -> ConsumerClaim:
    """Return the claim of plain data that is as the schema of its microversion says. Raises BadRequest."""
    entries = data["allocations"]
    if isinstance(entries, list):  # before 1.12; what is said last of a provider counts
        entries = {entry["resource_provider"]["uuid"]: entry for entry in entries}
    allocations: dict[str, dict[str, int]] = {}
    for provider, entry in entries.items():
        if not is_uuid(provider):
            raise BadRequest(f"Allocation for resource provider '{provider}' that does not exist.")
        allocations[canonical_uuid(provider)] = {name: int(amount) for name, amount in entry["resources"].items()}
    return ConsumerClaim(
        consumer_uuid=uuid,
        generation=data.get("consumer_generation"),
        any_generation=version < GENERATIONS_SINCE,
        consumer_type=data.get("consumer_type"),
        project_id=data.get("project_id", NOBODY),
        user_id=data.get("user_id", NOBODY),
        allocations=allocations,
    )


def consumer_uuid(text: str) -> str:
    """Return a consumer's UUID as Roost writes it. Raises BadRequest."""
    if not is_uuid(text):
        raise BadRequest(f"Malformed consumer_uuid: {text}")
    return canonical_uuid(text)


def _is_of(body: ConsumerBody, version: Version) -> bool:
    typed = body.consumer_type is not UNSET
    return typed == (version >= CONSUMER_TYPES_SINCE) and (body.mappings is UNSET or version >= MAPPINGS_SINCE)
