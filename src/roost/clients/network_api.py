"""The Network API over HTTP, as agents that make and bind ports themselves call it, and as credentials are tried.

The NIC that a port is for goes along in binding:profile: Roost's network service makes such a port under one id
however often it is asked, and claims its addresses. Source: Network API v2, ports; extension binding.
"""

import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from roost.platform.http_sessions import HttpSession, Reply, Unanswered
from roost.seams.agent import NetworkAway, NetworkRefused, PortTaken, PortWanted

TIMEOUT_S = 30.0
COMPUTE_OWNER = "compute:nova"
REPEATED = frozenset({"PortChanged", "RetryRequest"})
"""Errors after which the same request may be made again at once."""

TokenGiver = Callable[[HttpSession], Awaitable[str]]
"""Returns a token. Raises NetworkRefused, NetworkAway."""


class _Address(Struct):
    ip_address: str


class _Port(Struct):
    id: str
    mac_address: str
    fixed_ips: list[_Address]


class _PortAnswer(Struct):
    port: _Port


class _Error(Struct, frozen=True):
    type: str = ""
    message: str = ""


class _ErrorAnswer(Struct):
    NeutronError: _Error = _Error()


class NetworkApi:
    """Implements roost.seams.agent.AgentNetwork for one endpoint; its connections are opened by the first call."""

    def __init__(
        self,
        url: str,
        give_token: TokenGiver | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._url = url.rstrip("/").removesuffix("/v2.0")
        self._session = HttpSession(timeout_s=timeout_s, tls=tls, make_token=give_token)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.aclose()

    async def check(self) -> None:
        """Return if the credentials are let in. Raises NetworkRefused, NetworkAway."""
        try:
            await self._call("GET", "/ports?fields=id&limit=1", None)
        except NetworkRefused as error:
            if error.is_credentials:
                raise
            raise NetworkAway(f"{self._url} is no Network API: {error}") from error

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
            reply = await self._call("POST", "/ports", {"port": body})
        else:
            reply = await self._call("PUT", f"/ports/{wanted.port_id}", {"port": body}, revision=wanted.revision)
        try:
            port = reply.read(_PortAnswer).port
        except Unanswered as error:
            raise NetworkAway(f"{self._url} answered with no port: {error}") from error
        return PortTaken(
            id=port.id, mac_address=port.mac_address, addresses=tuple(item.ip_address for item in port.fixed_ips)
        )

    async def delete_port(self, port_id: str) -> None:
        """See AgentNetwork.delete_port."""
        await self._call("DELETE", f"/ports/{port_id}", None)

    async def detach_port(self, port_id: str) -> None:
        """See AgentNetwork.detach_port."""
        body = {"device_id": "", "device_owner": "", "binding:host_id": ""}
        await self._call("PUT", f"/ports/{port_id}", {"port": body})

    async def _call(self, method: str, path: str, body: Any, *, revision: int | None = None) -> Reply:
        """Return the answer. A token that is refused is had anew, once. Raises NetworkRefused, NetworkAway."""
        headers = {} if revision is None else {"If-Match": f"revision_number={revision}"}
        try:
            reply = await self._session.ask(method, f"{self._url}/v2.0{path}", body, headers=headers)
        except Unanswered as error:
            raise NetworkAway(f"{self._url} does not answer: {error}") from error
        if reply.status in (408, 429) or reply.status >= 500:
            raise NetworkAway(f"{self._url} answers {reply.status}")
        if reply.status >= 400:
            refusal = (reply.find(_ErrorAnswer) or _ErrorAnswer()).NeutronError  # else a page of some proxy
            raise NetworkRefused(
                f"{refusal.message or f'{method} {path} is refused'} ({reply.status})",
                status=reply.status,
                repeat=refusal.type in REPEATED,
            )
        return reply
