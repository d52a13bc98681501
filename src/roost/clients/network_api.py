"""The Network API over HTTP, as credentials are tried. Source: Network API v2."""

import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from roost.platform.http_sessions import HttpSession, Reply, Unanswered
from roost.seams.agent import NetworkAway, NetworkRefused

TIMEOUT_S = 30.0
REPEATED = frozenset({"PortChanged", "RetryRequest"})
"""Errors after which the same request may be made again at once."""

TokenGiver = Callable[[HttpSession], Awaitable[str]]
"""Returns a token. Raises NetworkRefused, NetworkAway."""


class _Error(Struct, frozen=True):
    type: str = ""
    message: str = ""


class _ErrorAnswer(Struct):
    NeutronError: _Error = _Error()


class NetworkApi:
    """One endpoint of the Network API; its connections are opened by the first call."""

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
            await self.call("GET", "/ports?fields=id&limit=1", None)
        except NetworkRefused as error:
            if error.is_credentials:
                raise
            raise NetworkAway(f"{self._url} is no Network API: {error}") from error

    async def call(self, method: str, path: str, body: Any, *, revision: int | None = None) -> Reply:
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
