"""The Network API over HTTP, as agents that make and bind ports themselves call it, and as credentials are tried.

The NIC that a port is for goes along in binding:profile: Roost's network service makes such a port under one id
however often it is asked, and claims its addresses. Source: Network API v2, ports; extension binding.
"""

import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from roost.platform.errors import reason_of
from roost.platform.http_sessions import new_session
from roost.seams.agent import NetworkAway, NetworkRefused, PortTaken, PortWanted

TIMEOUT_S = 30.0
COMPUTE_OWNER = "compute:nova"
REPEATED = frozenset({"PortChanged", "RetryRequest"})
"""Errors after which the same request may be made again at once."""

TokenGiver = Callable[[aiohttp.ClientSession], Awaitable[str | None]]
"""Returns a token, None where none is asked for. Raises NetworkRefused, NetworkAway."""


class _Address(Struct):
    ip_address: str


class _Port(Struct):
    id: str
    mac_address: str
    fixed_ips: list[_Address]


class _PortAnswer(Struct):
    port: _Port


class _Error(Struct):
    type: str = ""
    message: str = ""


class _ErrorAnswer(Struct):
    NeutronError: _Error


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
        self._tls = tls
        self._url = url.rstrip("/").removesuffix("/v2.0")
        self._give_token = give_token
        self._token: str | None = None
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

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
            answer = await self._call("POST", "/ports", {"port": body})
        else:
            answer = await self._call("PUT", f"/ports/{wanted.port_id}", {"port": body}, revision=wanted.revision)
        try:
            port = msgspec.json.decode(answer, type=_PortAnswer).port
        except msgspec.DecodeError as error:
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

    async def _call(self, method: str, path: str, body: Any, *, revision: int | None = None) -> bytes:
        """Return the answer. A token that is refused is had anew, once. Raises NetworkRefused, NetworkAway."""
        for last in (False, True):
            fresh = self._token is None
            status, answer = await self._send(method, path, body, revision)
            if status == 401 and not last and not fresh and self._give_token is not None:
                self._token = None
                continue
            if status in (408, 429) or status >= 500:
                raise NetworkAway(f"{self._url} answers {status}")
            if status >= 400:
                error = _read_error(answer)
                raise NetworkRefused(
                    f"{error.message or f'{method} {path} is refused'} ({status})",
                    status=status,
                    repeat=error.type in REPEATED,
                )
            return answer
        raise AssertionError("unreachable")

    async def _send(self, method: str, path: str, body: Any, revision: int | None) -> tuple[int, bytes]:
        if self._session is None:
            self._session = new_session(timeout_s=self._timeout_s, tls=self._tls or True)
        if self._token is None and self._give_token is not None:
            self._token = await self._give_token(self._session)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token is not None:
            headers["X-Auth-Token"] = self._token
        if revision is not None:
            headers["If-Match"] = f"revision_number={revision}"
        content = None if body is None else msgspec.json.encode(body)
        try:
            async with self._session.request(
                method, f"{self._url}/v2.0{path}", data=content, headers=headers, allow_redirects=False
            ) as response:
                return response.status, await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise NetworkAway(f"{self._url} does not answer: {reason_of(error)}") from error


def _read_error(answer: bytes) -> _Error:
    try:
        return msgspec.json.decode(answer, type=_ErrorAnswer).NeutronError
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Error()  # of a proxy, say: its page is nobody's reason
