"""The agent's way to the API: finds the agent listener, calls it, and does so again for as long as it must."""

import asyncio
from typing import Any, TypeVar

import aiohttp
import msgspec
import structlog

from roost.agent.token import TokenRefused, TokenSource
from roost.platform.errors import reason_of

CALL_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
BACK_OFF_FIRST_S = 0.05
BACK_OFF_LAST_S = 2.0
DETAIL_MAX = 300
REFUSED_PAUSE_S = 5.0
"""Before a call that the API refuses as wrong is made again: its next version may know better."""

T = TypeVar("T")

log = structlog.get_logger()


class Refused(Exception):
    """The API answers that this request is wrong; status: of the answer, detail: its sentence.

    retry_after_s: when it may be right, if the answer says so.
    """

    def __init__(self, status: int, detail: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.retry_after_s = retry_after_s


class NotLetIn(Refused):
    """The API does not take this agent's token, or not for one of its hosts."""


class NoListener(Exception):
    """The main API does not say where the agents' listener is."""


class _Refusal(msgspec.Struct):
    detail: str


class _Listener(msgspec.Struct):
    url: str


class Connection:
    """One HTTP session with the agent listener, whose address the main API tells.

    token: sent to the agent listener only. One that is refused is read anew before the next call.
    """

    def __init__(self, session: aiohttp.ClientSession, api_url: str, token: TokenSource | None = None) -> None:
        self._session = session
        self._token = token
        self._let_in: bool | None = None
        self._api_url = api_url.rstrip("/")
        self._listener_url: str | None = None
        self._found_url: str | None = None
        self._away = False
        self.returns = 0
        """How often the API answered again after it had been away: its database may be another one since."""

    async def call(self, method: str, path: str, body: Any, kind: type[T], *, wait_s: float = 0.0) -> T:
        """Call until there is an answer: an API that is away loses nothing.

        Raises Refused for a 4xx: NotLetIn for what is wrong with the token, but TokenRefused if no call of this
        connection was let in before.

        body: anything msgspec encodes, None for none. wait_s: how long the API may hold the call on purpose.
        """
        content = None if body is None else msgspec.json.encode(body)
        pause_s = BACK_OFF_FIRST_S
        while True:
            listener_url = self._listener_url
            try:
                if listener_url is None:
                    listener_url = await self._find_listener()
                answer = await self._send_known(method, listener_url + path, content, CALL_TIMEOUT_S + wait_s)
                if self._away:
                    self._away = False
                    self.returns += 1
                    log.info("the API answers again", url=listener_url)
                return msgspec.json.decode(answer, type=kind)
            except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError, NoListener) as error:
                if not self._away:
                    self._away = True
                    event = "the API serves no agents" if isinstance(error, NoListener) else "the API does not answer"
                    log.warning(event, url=listener_url or self._api_url, error=_reason_of(error))
                if self._listener_url == listener_url:
                    self._listener_url = None  # it may have moved
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, BACK_OFF_LAST_S)

    async def call_until_taken(self, method: str, path: str, body: Any, kind: type[T]) -> T:
        """Make a call that must be made sooner or later, whatever the API thinks of it now."""
        while True:
            try:
                return await self.call(method, path, body, kind)
            except Refused as refusal:
                if not isinstance(refusal, NotLetIn):  # which was said
                    log.error("the API refuses", path=path, error=str(refusal))
                await asyncio.sleep(REFUSED_PAUSE_S)

    async def _send_known(self, method: str, url: str, content: bytes | None, timeout_s: float) -> bytes:
        """Send with the token; a refusal of it is said once, in one sentence, until it is let in again."""
        token = self._token.token if self._token else None
        try:
            answer = await self._send(method, url, content, timeout_s, token=token)
        except Refused as refusal:
            if refusal.status not in (401, 403):
                raise
            if self._token:
                self._token.reread()
            if self._let_in is None:
                advice = "" if token else "; give --token-file or ROOST_AGENT_TOKEN"
                raise TokenRefused(f"the API does not let this agent in: {refusal}{advice}") from refusal
            if self._let_in:
                log.error("the API does not let this agent in any more; its guests run on", error=str(refusal))
            self._let_in = False
            raise NotLetIn(refusal.status, refusal.detail) from refusal
        if self._let_in is False:
            log.info("the API lets this agent in again")
        self._let_in = True
        return answer

    async def _find_listener(self) -> str:
        try:
            answer = await self._send("GET", f"{self._api_url}/agent/v1", None, CALL_TIMEOUT_S)
            url = msgspec.json.decode(answer, type=_Listener).url.rstrip("/")
        except (Refused, msgspec.DecodeError) as error:  # another program, or a Roost that does not serve compute
            if isinstance(error, Refused) and error.status != 404:
                raise NoListener(f"{self._api_url} names no listener for agents: {error}") from error
            raise NoListener(
                f"{self._api_url} serves no Compute API and no listener for agents: --api names a Roost that does, as "
                "`roost serve all`; it is asked again and again"
            ) from error
        if self._api_url.startswith("https:") and not url.startswith("https:"):
            raise NoListener(f"{self._api_url} names {url}, which is not https: no token goes there")
        self._listener_url = url if url.endswith("/agent/v1") else f"{url}/agent/v1"
        if self._listener_url != self._found_url:  # one that does not answer is looked for again and again
            self._found_url = self._listener_url
            log.info("connected to the API", url=self._listener_url)
        return self._listener_url

    async def _send(
        self, method: str, url: str, content: bytes | None, timeout_s: float, *, token: str | None = None
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=CONNECT_TIMEOUT_S)
        headers = {"Content-Type": "application/json"} if content is not None else {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        async with self._session.request(
            method, url, data=content, headers=headers, timeout=timeout, allow_redirects=False
        ) as response:
            answer = await response.read()
            if 300 <= response.status < 400:  # another address would get the token, and the secret in the body
                raise aiohttp.ClientError(f"it answers {response.status}, a redirection, which is not followed")
            if 400 <= response.status < 500:
                seconds = response.headers.get("Retry-After", "")
                retry_after_s = float(seconds) if seconds.isdecimal() else None
                raise Refused(response.status, _detail(answer), retry_after_s=retry_after_s)
            response.raise_for_status()
            return answer


def _reason_of(error: Exception) -> str:
    advice = ": --ca-file names whom to trust" if isinstance(error, aiohttp.ClientConnectorCertificateError) else ""
    return reason_of(error) + advice


def _detail(answer: bytes) -> str:
    """Return the sentence in an error's body, or the beginning of it on one line."""
    try:
        return msgspec.json.decode(answer, type=_Refusal).detail
    except msgspec.DecodeError:
        return " ".join(answer.decode(errors="replace").split())[:DETAIL_MAX]
