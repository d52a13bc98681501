"""POST /reshaper. Source: Placement API 1.30, 1.34, 1.38."""

from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api import schemas
from roost.placement.api.allocations import slow_claims
from roost.placement.api.bodies import read_body
from roost.placement.api.errors import refusal
from roost.placement.api.inventories import check_capacity, read_inventories
from roost.placement.errors import ReshapeProviderNotFound, ResourceClassNotFound
from roost.placement.service.ledger import Ledger
from roost.placement.service.reshape import NewInventories, reshape
from roost.platform.http import canonical_uuid, is_uuid
from roost.platform.operations import Operation, Operations, Rule, version_of
from roost.seams.placement import Refused


def reshaper_operations(ledger: Ledger) -> Operations:
    """Return the operation of the reshaper."""

    async def post(request: Request) -> Response:
        body = await read_body(request, schemas.RESHAPE)
        inventories = {
            _uuid(uuid): NewInventories(new["resource_provider_generation"], read_inventories(new["inventories"]))
            for uuid, new in body["inventories"].items()
        }
        for uuid, new in inventories.items():
            for name, inventory in new.inventories.items():
                check_capacity(uuid, name, inventory, version_of(request), "update")
        claims = slow_claims(body["allocations"], version_of(request))
        try:
            answered = await reshape(ledger, inventories, claims)
        except ResourceClassNotFound as error:
            raise ResourceClassNotFound(f"malformed reshaper data: {error}") from error
        if isinstance(answered, Refused):
            raise refusal(answered)
        return Response(None, 204)

    return {
        "/reshaper": {
            "POST": Operation(
                summary="change inventories and the allocations on them in one step", endpoint=post,
                rule=Rule("placement:reshaper:reshape", "rule:service_api"),
                since=(1, 30), body=schemas.RESHAPE, status=204, errors=(409,),
            )
        }
    }  # fmt: skip


def _uuid(text: str) -> str:
    if not is_uuid(text):
        raise ReshapeProviderNotFound(f"Resource provider {text} in inventories not found")
    return canonical_uuid(text)
