"""/resource_providers/{uuid}/inventories. Source: Placement API 1.0 to 1.39."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api import answer_schemas, schemas
from roost.placement.api.bodies import read_body
from roost.placement.api.policies import admin_or_service
from roost.placement.api.protocol import answer, provider_uuid
from roost.placement.errors import InventoryMalformed
from roost.placement.service import providers as providers_service
from roost.placement.service import reads as reads_service
from roost.placement.service.ledger import Ledger
from roost.platform.http import Version, root_url
from roost.platform.operations import Operation, Operations, version_of
from roost.seams.placement import Inventory

WHOLLY_RESERVED_SINCE = (1, 26)


@dataclass(frozen=True)
class Inventories:
    """The operations of a provider's inventories, all together and one by one."""

    ledger: Ledger

    async def list_inventories(self, request: Request) -> Response:
        provider = await reads_service.get_provider(self.ledger, provider_uuid(request))
        return _all_answer(request, provider.inventories, provider.generation)

    async def replace_all(self, request: Request) -> Response:
        uuid = provider_uuid(request)
        body = await read_body(request, schemas.INVENTORIES_SET)
        inventories = read_inventories(body["inventories"])
        for name, inventory in inventories.items():
            check_capacity(uuid, name, inventory, version_of(request), "update")
        generation = await providers_service.set_inventories(
            self.ledger, uuid, inventories, generation=body["resource_provider_generation"]
        )
        return _all_answer(request, inventories, generation)

    async def add(self, request: Request) -> Response:
        uuid = provider_uuid(request)
        body = await read_body(request, schemas.INVENTORY_CREATE)
        name, inventory = body["resource_class"], read_inventory(body)
        check_capacity(uuid, name, inventory, version_of(request), "create")
        generation = await providers_service.add_inventory(self.ledger, uuid, name, inventory)
        url = f"{root_url(request)}/resource_providers/{uuid}/inventories/{name}"
        return answer(request, _one(inventory, generation), 201, {"Location": url})

    async def delete_all(self, request: Request) -> Response:
        await providers_service.delete_inventories(self.ledger, provider_uuid(request))
        return Response(None, 204)

    async def show(self, request: Request) -> Response:
        name: str = request.path_params["resource_class"]
        inventory, generation = await reads_service.get_inventory(self.ledger, provider_uuid(request), name)
        return answer(request, _one(inventory, generation))

    async def replace(self, request: Request) -> Response:
        uuid = provider_uuid(request)
        body = await read_body(request, schemas.INVENTORY_UPDATE)
        name, inventory = request.path_params["resource_class"], read_inventory(body)
        check_capacity(uuid, name, inventory, version_of(request), "update")
        generation = await providers_service.update_inventory(
            self.ledger, uuid, name, inventory, generation=body["resource_provider_generation"]
        )
        return answer(request, _one(inventory, generation))

    async def delete(self, request: Request) -> Response:
        await providers_service.delete_inventory(
            self.ledger, provider_uuid(request), request.path_params["resource_class"]
        )
        return Response(None, 204)

    def operations(self) -> Operations:
        """Return the operations, by path and method."""
        rule = admin_or_service("resource_providers:inventories")
        every = "/resource_providers/{uuid}/inventories"
        return {
            every: {
                "GET": Operation(
                    summary="what it has, by resource class", endpoint=self.list_inventories, rule=rule("list"),
                    result=answer_schemas.INVENTORIES, errors=(404,),
                ),
                "POST": Operation(
                    summary="have one more inventory", endpoint=self.add, rule=rule("create"),
                    body=schemas.INVENTORY_CREATE, status=201, result=answer_schemas.ONE_INVENTORY, errors=(404, 409),
                ),
                "PUT": Operation(
                    summary="have these inventories and no others; 409 if one that goes is in use",
                    endpoint=self.replace_all, rule=rule("update"), body=schemas.INVENTORIES_SET,
                    result=answer_schemas.INVENTORIES, errors=(404, 409),
                ),
                "DELETE": Operation(
                    summary="have no inventory; 409 if some is in use", endpoint=self.delete_all, rule=rule("delete"),
                    since=(1, 5), status_before=405, status=204, errors=(404, 409),
                ),
            },
            f"{every}/{{resource_class}}": {
                "GET": Operation(
                    summary="one inventory", endpoint=self.show, rule=rule("show"),
                    result=answer_schemas.ONE_INVENTORY, errors=(404,),
                ),
                "PUT": Operation(
                    summary="change it; it may shrink below its use", endpoint=self.replace, rule=rule("update"),
                    body=schemas.INVENTORY_UPDATE, result=answer_schemas.ONE_INVENTORY, errors=(404, 409),
                ),
                "DELETE": Operation(
                    summary="drop it; 409 if it is in use", endpoint=self.delete, rule=rule("delete"), status=204,
                    errors=(404, 409),
                ),
            },
        }  # fmt: skip


def read_inventories(body: Mapping[str, Any]) -> dict[str, Inventory]:
    """Return resource class -> inventory, of a body that is as its schema says."""
    return {name: read_inventory(fields) for name, fields in body.items()}


def read_inventory(body: Mapping[str, Any]) -> Inventory:
    """Return one inventory, of a body that is as its schema says; what is not given is as upstream has it."""
    fields = {name: body[name] for name in Inventory.__struct_fields__ if name in body}
    whole = {name: int(value) for name, value in fields.items() if name != "allocation_ratio"}
    return Inventory(**whole, allocation_ratio=float(fields.get("allocation_ratio", 1.0)))


def check_capacity(uuid: str, name: str, inventory: Inventory, version: Version, action: str) -> None:
    """Raise InventoryMalformed if nothing, or before 1.26 not one unit, could ever be taken of an inventory."""
    capacity = (inventory.total - inventory.reserved) * inventory.allocation_ratio
    may_be_zero = version >= WHOLLY_RESERVED_SINCE
    if capacity > 0 or (may_be_zero and capacity == 0):
        return
    bound = "greater than" if may_be_zero else "greater than or equal to"
    raise InventoryMalformed(
        f"Unable to {action} inventory for resource provider {uuid}: Invalid inventory for '{name}' on resource "
        f"provider '{uuid}'. The reserved value is {bound} total."
    )


def _all_answer(request: Request, inventories: Mapping[str, Inventory], generation: int) -> Response:
    shown = {name: msgspec.structs.asdict(inventory) for name, inventory in inventories.items()}
    return answer(request, {"resource_provider_generation": generation, "inventories": shown})


def _one(inventory: Inventory, generation: int) -> dict[str, Any]:
    return {**msgspec.structs.asdict(inventory), "resource_provider_generation": generation}
