"""Ports over HTTP."""

import re

from starlette.requests import Request
from starlette.responses import Response

from roost.network import addressing
from roost.network.api import bodies, documents, listing
from roost.network.api.resources import ATTRIBUTES, path_id
from roost.network.errors import InvalidInput, PortNotFound
from roost.network.model import PortFilter
from roost.network.service import Networks
from roost.network.service import ports as service
from roost.platform.http import Endpoint, canonical_uuid, is_uuid, json_response, read_json


def port_endpoints(context: Networks) -> tuple[dict[str, Endpoint], dict[str, Endpoint]]:
    """Of the collection, and of one port."""

    async def list_all(request: Request) -> Response:
        found = await service.list_ports(context, _filter(request))
        shown = [documents.port(item) for item in found]
        return json_response({"ports": listing.select(shown, request, ATTRIBUTES["ports"])})

    async def create(request: Request) -> Response:
        body = await read_json(request, bodies.PortEnvelope)
        made = await service.create_port(context, bodies.port(body.port, context.default_project))
        return json_response({"port": documents.port(made)}, 201)

    async def show(request: Request) -> Response:
        found = await service.get_port(context, path_id(request, "Port", PortNotFound))
        return json_response({"port": listing.show_fields(documents.port(found), request)})

    async def update(request: Request) -> Response:
        port_id = path_id(request, "Port", PortNotFound)
        body = await read_json(request, bodies.PortUpdateEnvelope)
        changed = await service.update_port(context, port_id, bodies.port_changes(body.port, _revision(request)))
        return json_response({"port": documents.port(changed)})

    async def delete(request: Request) -> Response:
        await service.delete_port(context, path_id(request, "Port", PortNotFound))
        return Response(status_code=204)

    return {"GET": list_all, "POST": create}, {"GET": show, "PUT": update, "DELETE": delete}


def _revision(request: Request) -> int | None:
    """The revision that the request insists on. Source: Network API, extension revision-if-match."""
    text = request.headers.get("if-match")
    if text is None:
        return None
    match = re.fullmatch(r"revision_number=([0-9]{1,9})", text)
    if match is None:
        raise InvalidInput("If-Match: expected revision_number=<number>.")
    return int(match[1])


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
