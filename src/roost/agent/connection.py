"""The agent's way to the API: finds the agent listener, calls it, and does so again for as long as it must."""

import asyncio
from typing import Any, TypeVar

import aiohttp
import msgspec
import structlog

from roost.platform.errors import reason_of

CALL_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
BACK_OFF_FIRST_S = 0.05
BACK_OFF_LAST_S = 2.0

T = TypeVar("T")

log = structlog.get_logger()


class Refused(Exception):
    """The API answers that this request is wrong; status: of the answer."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status


class NoListener(Exception):
    """The main API does not say where the agent listener is."""


class _Listener(msgspec.Struct):
    url: str


class Connection:
    """One HTTP session with the agent listener, whose address the main API tells."""

    def __init__(self, session: aiohttp.ClientSession, api_url: str) -> None:
        self._session = session
        self._api_url = api_url.rstrip("/")
        self._listener_url: str | None = None
        self._away = False

    async def call(self, method: str, path: str, body: Any, kind: type[T], *, wait_s: float = 0.0) -> T:
        """Call until there is an answer: an API that is away loses nothing. Raises Refused for a 4xx.

        body: anything msgspec encodes, None for none. wait_s: how long the API may hold the call on purpose.
        """
        content = None if body is None else msgspec.json.encode(body)
        pause_s = BACK_OFF_FIRST_S
        while True:
            listener_url = self._listener_url
            try:
                if listener_url is None:
                    listener_url = await self._find_listener()
                answer = await self._send(method, listener_url + path, content, CALL_TIMEOUT_S + wait_s)
                if self._away:
                    self._away = False
                    log.info("the API answers again", url=listener_url)
                return msgspec.json.decode(answer, type=kind)
            except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError, NoListener) as error:
                if not self._away:
                    self._away = True
                    log.warning("the API does not answer", url=listener_url or self._api_url, error=reason_of(error))
                if self._listener_url == listener_url:
                    self._listener_url = None  # it may have moved
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, BACK_OFF_LAST_S)

    async def _find_listener(self) -> str:
        try:
            answer = await self._send("GET", f"{self._api_url}/agent/v1", None, CALL_TIMEOUT_S)
        except Refused as refusal:  # another program has the port, or the API has no agent listener yet
            raise NoListener(f"{self._api_url} names no agent listener: {refusal}") from refusal
        url = msgspec.json.decode(answer, type=_Listener).url.rstrip("/")
        self._listener_url = url if url.endswith("/agent/v1") else f"{url}/agent/v1"
        log.info("the API is found", url=self._listener_url)
        return self._listener_url

    async def _send(self, method: str, url: str, content: bytes | None, timeout_s: float) -> bytes:
        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=CONNECT_TIMEOUT_S)
        headers = {"Content-Type": "application/json"} if content is not None else {}
        async with self._session.request(method, url, data=content, headers=headers, timeout=timeout) as response:
            answer = await response.read()
            if 400 <= response.status < 500:
                raise Refused(response.status, answer.decode(errors="replace"))
            response.raise_for_status()
            return answer
