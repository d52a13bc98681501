"""Ports over HTTP."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from roost.network import addressing
from roost.network.api import bodies_ports as bodies
from roost.network.api import documents, listing
from roost.network.api.documents import PortDocument
from roost.network.api.protocol import Operations
from roost.network.api.resources import Resource
from roost.network.errors import InvalidInput, PortNotFound
from roost.network.model import Port, PortFilter
from roost.network.service import Networks
from roost.network.service import ports as service
from roost.platform.http import canonical_uuid, is_uuid, json_response


async def _find(context: Networks, ids: Sequence[str] | None) -> list[Port]:
    return await service.list_ports(context, PortFilter(ids=None if ids is None else tuple(ids)))


PORT = Resource(
    one="port", many="ports", document=PortDocument, missing=PortNotFound, find=_find, show=documents.port
)  # fmt: skip


def port_operations(context: Networks) -> Operations:
    """Of the collection, and of one port."""

    async def list_all(request: Request) -> Response:
        shown = [documents.port(item) for item in await service.list_ports(context, _filter(request))]
        return json_response({"ports": listing.select(shown, request, PortDocument)})

    async def create(items: Sequence[bodies.PortBody]) -> list[Port]:
        return await service.create_ports(context, [bodies.port(item, context.default_project) for item in items])

    async def update(port_id: str, body: bodies.PortUpdateBody, revision: int | None) -> Port:
        return await service.update_port(context, port_id, bodies.port_changes(body, revision))

    return {
        "/v2.0/ports": {
            "GET": PORT.list_operation(list_all),
            "POST": PORT.create_operation(context, bodies.PortEnvelope, create),
        },
        "/v2.0/ports/{id}": {
            "GET": PORT.show_operation(context),
            "PUT": PORT.update_operation(context, bodies.PortUpdateEnvelope, update),
            "DELETE": PORT.delete_operation(context, service.delete_port),
        },
    }


def _filter(request: Request) -> PortFilter:
    """What the database can narrow down; `listing` filters by everything again."""
    addresses = listing.fixed_ip_filters(request).get("ip_address")
    device_ids = [text for text in request.query_params.getlist("device_id") if "\x00" not in text]
    return PortFilter(
        ids=_uuids(request, "id"),
        network_ids=_uuids(request, "network_id"),
        device_ids=tuple(device_ids) if "device_id" in request.query_params else None,
        addresses=None if addresses is None else tuple(text for text in addresses if _is_address(text)),
    )


def _uuids(request: Request, name: str) -> tuple[str, ...] | None:
    if name not in request.query_params:
        return None
    return tuple(canonical_uuid(text) for text in request.query_params.getlist(name) if is_uuid(text))


def _is_address(text: str) -> bool:
    try:
        addressing.parse(text)
    except InvalidInput:
        return False
    return True
