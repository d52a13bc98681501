"""Servers in the Compute API's shapes. What may be asked: server_bodies.py, server_queries.py."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.requests import flag, links, next_link, path_text, read_body
from roost.compute.api.server_bodies import CreateBody, read_server
from roost.compute.api.server_documents import addresses_of, show_brief, show_server
from roost.compute.api.server_queries import owner, read_page
from roost.compute.errors import NetworkNotOfServer, ServerNotFound
from roost.compute.model import Server
from roost.compute.service import Compute
from roost.compute.service import servers as service
from roost.platform.auth import Forbidden, caller_of
from roost.platform.http import Endpoint, canonical_uuid, is_uuid, json_response


def endpoints(compute: Compute) -> dict[str, Mapping[str, Endpoint]]:
    """Path below /v2.1 -> method -> endpoint."""

    async def create(request: Request) -> Response:
        body = await read_body(request, CreateBody)
        reservation_only = flag(body.server.return_reservation_id, "return_reservation_id", default=False)
        asked = read_server(body, request.state.microversion)
        if asked.host is not None and "admin" not in map(str.lower, caller_of(request.scope).roles):
            raise Forbidden("Policy does not allow os_compute_api:servers:create:forced_host to be performed.")
        project_id, user_id = owner(compute, request)
        accepted = await service.create_servers(compute, asked, project_id=project_id, user_id=user_id)
        if reservation_only:
            return json_response({"reservation_id": accepted.reservation_id}, 202)
        server_id = accepted.server_ids[0]
        where = links(request, "servers", server_id)
        shown = {
            "id": server_id,
            "links": where,
            "OS-DCF:diskConfig": "MANUAL",
            "security_groups": [{"name": "default"}],
        }
        return json_response({"server": shown}, 202, {"Location": where[0]["href"]})

    async def list_brief(request: Request) -> Response:
        page, more = await _page(compute, request)
        return json_response({"servers": [show_brief(request, server) for server in page]} | more)

    async def list_detail(request: Request) -> Response:
        page, more = await _page(compute, request)
        return json_response({"servers": [show_server(request, server) for server in page]} | more)

    async def show(request: Request) -> Response:
        return json_response({"server": show_server(request, await service.get_server(compute, _server_id(request)))})

    async def list_addresses(request: Request) -> Response:
        server = await service.get_server(compute, _server_id(request))
        return json_response({"addresses": addresses_of(server)})

    async def show_addresses(request: Request) -> Response:
        server, network = await service.get_server(compute, _server_id(request)), path_text(request, "network")
        shown = addresses_of(server)
        if network not in shown:
            raise NetworkNotOfServer(f"Instance is not a member of specified network: {network}.")
        return json_response({network: shown[network]})

    async def delete(request: Request) -> Response:
        await service.delete_server(compute, _server_id(request))
        return json_response(None, 204)

    return {
        "/servers": {"GET": list_brief, "POST": create},
        "/servers/detail": {"GET": list_detail},
        "/servers/{server_id}": {"GET": show, "DELETE": delete},
        "/servers/{server_id}/ips": {"GET": list_addresses},
        "/servers/{server_id}/ips/{network}": {"GET": show_addresses},
    }


def _server_id(request: Request) -> str:
    text = path_text(request, "server_id")
    if not is_uuid(text):
        raise ServerNotFound(f"Instance {text} could not be found.")
    return canonical_uuid(text)


async def _page(compute: Compute, request: Request) -> tuple[list[Server], dict[str, Any]]:
    asked = read_page(compute, request)
    page = await service.list_servers(
        compute, asked.only, marker=asked.marker, limit=asked.limit, descending=asked.descending
    )
    if len(page) < asked.limit or not page:
        return page, {}
    return page, {"servers_links": next_link(request, page[-1].id, limit=asked.limit)}
