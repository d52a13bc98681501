"""The Network API as agents that make and bind ports themselves call it; release 2.0 deletes it.

The NIC that a port is for goes along in binding:profile: Roost's network service makes such a port under one id
however often it is asked, and claims its addresses. Source: Network API v2, ports; extension binding.
"""

from typing import Any

from msgspec import Struct

from roost.clients.network_api import NetworkApi
from roost.platform.http_sessions import Unanswered
from roost.seams.agent import NetworkAway
from roost.seams.old_agents import PortTaken, PortWanted

COMPUTE_OWNER = "compute:nova"


class _Address(Struct):
    ip_address: str


class _Port(Struct):
    id: str
    mac_address: str
    fixed_ips: list[_Address]


class _PortAnswer(Struct):
    port: _Port


class AgentNetworkApi:
    """Implements roost.seams.old_agents.AgentNetwork."""

    def __init__(self, api: NetworkApi) -> None:
        self._api = api

    async def take_port(self, wanted: PortWanted) -> PortTaken:
        """See AgentNetwork.take_port."""
        body: dict[str, Any] = {
            "device_id": wanted.server_id,
            "device_owner": COMPUTE_OWNER,
            "binding:host_id": wanted.host,
            "binding:profile": {"roost_nic": wanted.tag},
        }
        if wanted.port_id is None:
            body |= {"network_id": wanted.network_id}
            body |= {"project_id": wanted.project_id} if wanted.project_id else {}
            body |= {"fixed_ips": [{"ip_address": wanted.fixed_ip}]} if wanted.fixed_ip else {}
            reply = await self._api.call("POST", "/ports", {"port": body})
        else:
            reply = await self._api.call("PUT", f"/ports/{wanted.port_id}", {"port": body}, revision=wanted.revision)
        try:
            port = reply.read(_PortAnswer).port
        except Unanswered as error:
            raise NetworkAway(f"the Network API answered with no port: {error}") from error
        return PortTaken(
            id=port.id, mac_address=port.mac_address, addresses=tuple(item.ip_address for item in port.fixed_ips)
        )

    async def delete_port(self, port_id: str) -> None:
        """See AgentNetwork.delete_port."""
        await self._api.call("DELETE", f"/ports/{port_id}", None)

    async def detach_port(self, port_id: str) -> None:
        """See AgentNetwork.detach_port."""
        body = {"device_id": "", "device_owner": "", "binding:host_id": ""}
        await self._api.call("PUT", f"/ports/{port_id}", {"port": body})
