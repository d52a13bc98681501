"""Servers in the Compute API's shapes. What may be asked: server_bodies.py, server_queries.py; by whom: access.py."""

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.access import Access, access_of
from roost.compute.api.answers import (
    Address,
    AddressesAnswer,
    ServerAnswer,
    ServerMadeAnswer,
    ServersAnswer,
    ServersDetailAnswer,
    TopologyAnswer,
)
from roost.compute.api.pages import More, read_page
from roost.compute.api.policies import ATTACH_NETWORK, FORCED_HOST, MEMBER, READER, REQUESTED_HOST, SERVERS, SHOW_SERVER
from roost.compute.api.requests import flag, links, path_text, query, read_body
from roost.compute.api.server_bodies import CreateBody, UpdateBody, read_server, read_update
from roost.compute.api.server_documents import Shown, addresses_of, show_brief, show_changed, show_listed, show_server
from roost.compute.api.server_queries import PARAMETERS, marker_of, read_descending, read_filter
from roost.compute.errors import NetworkNotOfServer
from roost.compute.model.server import Server
from roost.compute.service import Compute
from roost.compute.service import server_changes as changes_service
from roost.compute.service import servers as service
from roost.platform.auth import Policy
from roost.platform.http import json_response
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.turns import encode_in_turns


class Servers:
    """The operations of servers."""

    def __init__(self, compute: Compute, policy: Policy) -> None:
        self.compute = compute
        self.policy = policy

    def operations(self) -> Operations:
        """Return them by path below /v2.1."""
        return {
            "/servers": {
                "GET": Operation(
                    summary="servers by id and name, the youngest first",
                    endpoint=self._list_brief,
                    rule=Rule(f"{SERVERS}index", READER),
                    query=query(PARAMETERS),
                    result=ServersAnswer,
                ),
                "POST": Operation(
                    summary="accept one server, or several",
                    endpoint=self._create,
                    rule=Rule(f"{SERVERS}create", MEMBER),
                    body=CreateBody,
                    status=202,
                    result=ServerMadeAnswer,
                    errors=(409,),
                ),
            },
            "/servers/detail": {
                "GET": Operation(
                    summary="servers, the youngest first",
                    endpoint=self._list_detail,
                    rule=Rule(f"{SERVERS}detail", f"{READER} or rule:service_api"),
                    query=query(PARAMETERS),
                    result=ServersDetailAnswer,
                )
            },
            "/servers/{server_id}": {
                "GET": Operation(
                    summary="one server", endpoint=self._show, rule=Rule(SHOW_SERVER, READER), result=ServerAnswer
                ),
                "PUT": Operation(
                    summary="change the server's name, hostname or description",
                    endpoint=self._update,
                    rule=Rule(f"{SERVERS}update", MEMBER),
                    body=UpdateBody,
                    result=ServerAnswer,
                ),
                "DELETE": Operation(
                    summary="delete the server, at whatever stage it is",
                    endpoint=self._delete,
                    rule=Rule(f"{SERVERS}delete", MEMBER),
                    status=204,
                    errors=(409,),
                ),
            },
            **ADDRESS_OPERATIONS,
            **TOPOLOGY_OPERATIONS,
        }

    def _access(self, request: Request) -> Access:
        return access_of(self.compute, self.policy, request)

    async def _create(self, request: Request) -> Response:
        access = self._access(request)
        body = await read_body(request, CreateBody)
        reservation_only = flag(body.server.return_reservation_id, "return_reservation_id", default=False)
        server_request = read_server(body, request.state.microversion)
        if server_request.host is not None:
            access.enforce(REQUESTED_HOST if body.server.names_host else FORCED_HOST)
        if server_request.nics:
            access.enforce(ATTACH_NETWORK)
        accepted = await service.create_servers(
            self.compute,
            server_request,
            project_id=access.project_id,
            user_id=access.user_id,
            permissions=access.permissions,
            request_id=access.request_id,
            token=access.token,
        )
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

    async def _list_brief(self, request: Request) -> dict[str, Any]:
        servers, more = await self._page(request, f"{SERVERS}index")
        return {"servers": await encode_in_turns(partial(show_brief, request), servers)} | more

    async def _list_detail(self, request: Request) -> dict[str, Any]:
        servers, more = await self._page(request, f"{SERVERS}detail")
        shown = Shown.of(self._access(request), self.compute)
        listed = await encode_in_turns(lambda server: show_listed(request, server, shown), servers)
        return {"servers": listed} | more

    async def _show(self, request: Request) -> dict[str, Any]:
        shown = Shown.of(self._access(request), self.compute)
        return {"server": show_server(request, request.state.server, shown)}

    async def _update(self, request: Request) -> dict[str, Any]:
        update = read_update(await read_body(request, UpdateBody), request.state.microversion)
        server: Server = request.state.server
        changed = await changes_service.update_server(self.compute, server.id, update, self._access(request).requester)
        return {"server": show_changed(request, changed, Shown.of(self._access(request), self.compute))}

    async def _delete(self, request: Request) -> None:
        server: Server = request.state.server
        access = self._access(request)
        await service.delete_server(self.compute, server.id, may_be_locked=access.is_admin, by=access.requester)

    async def _page(self, request: Request, rule: str) -> tuple[list[Server], More]:
        only = read_filter(self._access(request), request, rule=rule)
        descending = read_descending(request)

        async def load(_marker: str | None, limit: int) -> list[Server]:
            return await service.list_servers(
                self.compute, only, marker=marker_of(request), limit=limit, descending=descending
            )

        return await read_page(request, "servers", load, lambda server: server.id)


async def _list_addresses(request: Request) -> dict[str, Any]:
    return {"addresses": addresses_of(request.state.server)}


async def _show_addresses(request: Request) -> dict[str, Any]:
    network = path_text(request, "network")
    shown = addresses_of(request.state.server)
    if network not in shown:
        raise NetworkNotOfServer(f"Instance is not a member of specified network: {network}.")
    return {network: shown[network]}


async def _show_topology(_request: Request) -> dict[str, Any]:
    return {"nodes": [], "pagesize_kb": None}


TOPOLOGY_OPERATIONS: Operations = {
    "/servers/{server_id}/topology": {
        "GET": Operation(
            summary="the server's NUMA nodes: it has none",
            endpoint=_show_topology,
            rule=Rule("compute:server:topology:index", READER),
            since=(2, 78),
            result=TopologyAnswer,
        )
    },
}

ADDRESS_OPERATIONS: Operations = {
    "/servers/{server_id}/ips": {
        "GET": Operation(
            summary="the server's addresses by network",
            endpoint=_list_addresses,
            rule=Rule("os_compute_api:ips:index", READER),
            result=AddressesAnswer,
        )
    },
    "/servers/{server_id}/ips/{network}": {
        "GET": Operation(
            summary="the server's addresses on one network",
            endpoint=_show_addresses,
            rule=Rule("os_compute_api:ips:show", READER),
            result=dict[str, list[Address]],  # type: ignore[valid-type]
        )
    },
}
