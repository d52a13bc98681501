"""A server's NICs, one by one. Source: Compute API, "Port interfaces"."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from roost.compute.api.access import access_of
from roost.compute.api.answers import InterfaceAnswer, InterfacesAnswer
from roost.compute.api.policies import MEMBER, READER
from roost.compute.api.requests import Attributes, check_attributes, path_text, read_body
from roost.compute.model.server import NicAsked, Server
from roost.compute.rules.servers import nic_problem
from roost.compute.service import Compute
from roost.compute.service import interfaces as service
from roost.compute.service.interfaces import find_port
from roost.platform.auth import Policy
from roost.platform.errors import BadRequest
from roost.platform.operations import Operation, Operations, Rule
from roost.seams.compute import ServerPort

RULES = "os_compute_api:os-attach-interfaces:"
TAGS_FROM = (2, 70)
Uuid = Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class FixedIp(Struct, frozen=True, forbid_unknown_fields=True):
    """An address that the NIC is to have."""

    ip_address: str


class Attachment(Struct, frozen=True, forbid_unknown_fields=True):
    """The NIC: a port, or a network with perhaps an address of it; nothing for the only network."""

    port_id: Uuid | None = None
    net_id: Uuid | None = None
    fixed_ips: Annotated[tuple[FixedIp, ...], Meta(min_length=1, max_length=1)] | None = None
    tag: Annotated[str, Meta(min_length=1, max_length=60)] | UnsetType = UNSET


class InterfaceBody(Struct, frozen=True, forbid_unknown_fields=True, rename={"attachment": "interfaceAttachment"}):
    """The whole body."""

    attachment: Attachment = Attachment()


class Interfaces:
    """The operations of servers' NICs."""

    def __init__(self, compute: Compute, policy: Policy) -> None:
        self.compute = compute
        self.policy = policy

    def operations(self) -> Operations:
        """Return them by path below /v2.1."""
        return {
            "/servers/{server_id}/os-interface": {
                "GET": Operation(
                    summary="the server's NICs",
                    endpoint=self._list,
                    rule=Rule(f"{RULES}list", READER),
                    result=InterfacesAnswer,
                ),
                "POST": Operation(
                    summary="give the server a NIC: a port, or one on a network",
                    endpoint=self._attach,
                    rule=Rule(f"{RULES}create", MEMBER),
                    body=InterfaceBody,
                    result=InterfaceAnswer,
                    errors=(409,),
                ),
            },
            "/servers/{server_id}/os-interface/{port_id}": {
                "GET": Operation(
                    summary="one of them",
                    endpoint=self._show_one,
                    rule=Rule(f"{RULES}show", READER),
                    result=InterfaceAnswer,
                ),
                "DELETE": Operation(
                    summary="take it off the server",
                    endpoint=self._detach,
                    rule=Rule(f"{RULES}delete", MEMBER),
                    status=202,
                    errors=(409,),
                ),
            },
        }

    async def _list(self, request: Request) -> dict[str, Any]:
        server: Server = request.state.server
        shown = [_show(request, server, port) for port in server.ports if port.port_id is not None]
        return {"interfaceAttachments": shown}

    async def _show_one(self, request: Request) -> dict[str, Any]:
        server: Server = request.state.server
        port = find_port(server, path_text(request, "port_id"))
        return {"interfaceAttachment": _show(request, server, port)}

    async def _attach(self, request: Request) -> dict[str, Any]:
        server: Server = request.state.server
        attachment = (await read_body(request, InterfaceBody)).attachment
        check_attributes(attachment, request.state.microversion, Attributes(since={"tag": (2, 49)}))
        if attachment.tag is not UNSET:
            raise BadRequest("tag: Roost tags only the NICs with which a server is made.")
        if attachment.port_id is not None and attachment.net_id is not None:
            raise BadRequest("Must not input both network_id and port_id")
        if attachment.fixed_ips and attachment.net_id is None:
            raise BadRequest("Must input network_id when request IP address")
        access = access_of(self.compute, self.policy, request)
        nic = None
        if attachment.port_id is not None or attachment.net_id is not None:
            fixed_ip = attachment.fixed_ips[0].ip_address if attachment.fixed_ips else None
            nic = NicAsked(network_id=attachment.net_id, port_id=attachment.port_id, fixed_ip=fixed_ip)
            if problem := nic_problem([nic], count=1):
                raise BadRequest(problem)
        port = await service.attach_interface(
            self.compute, server.id, nic, access.requester, permissions=access.permissions
        )
        return {"interfaceAttachment": _show(request, server, port)}

    async def _detach(self, request: Request) -> None:
        access = access_of(self.compute, self.policy, request)
        await service.detach_interface(
            self.compute, request.state.server, path_text(request, "port_id"), access.requester
        )


def _show(request: Request, server: Server, port: ServerPort) -> dict[str, Any]:
    """Return it as clients know it; which subnet an address is on, the Network API says."""
    shown: dict[str, Any] = {
        "port_state": "ACTIVE" if server.power == "running" else "DOWN",
        "port_id": port.port_id,
        "net_id": port.network_id,
        "mac_addr": port.mac_address,
        "fixed_ips": [{"ip_address": address} for address in port.addresses],
    }
    if request.state.microversion >= TAGS_FROM:
        shown["tag"] = None if port.tag == "" or port.tag.isdecimal() else port.tag
    return shown
