"""Callers known by Keystone's tokens: validated over HTTP, remembered for a while, never past their expiry.

Two calls of Keystone are needed: get Roost's own token, and validate a caller's. keystoneauth1 knows them too,
and many ways to get a token besides, but it is built on `requests`: each validation would hold a thread, and its
session cannot share one answer among callers who wait. So the calls are made here, on aiohttp.

Source: Identity API v3, POST and GET /v3/auth/tokens; keystonemiddleware, auth_token, for service tokens and for what
is answered when.
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from weakref import WeakValueDictionary

import msgspec
import structlog
from msgspec import Struct
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from starlette.datastructures import Headers

from roost.platform.auth import AuthenticationUnavailable, Caller, Unauthorized
from roost.platform.catalog import CatalogService
from roost.platform.http_sessions import HttpSession, Query, Reply, Unanswered
from roost.platform.metrics import TOKENS
from roost.platform.settings import KeystoneSettings, KeystoneUser

LOOKS_LIKE_ONE = r"[\x21-\x7e]{1,2048}"
"""Longer ones would be refused by Keystone's own server, which must not look like an outage."""

TOKENS_FAILED_MAX = 3
"""So many tokens in a row must get no verdict for Keystone to count as down: one alone may be what it stumbles over."""

REMEMBERED_MAX = 10_000
"""Verdicts, of those that were good and of those that were not; the least recently used go first."""

REFUSED_CACHE_S = 5.0
UNAVAILABLE = "The Keystone service is temporarily unavailable."
DOWN_PAUSE_S = 1.0
"""For so long Keystone is not called again after it failed: in an outage, callers do not wait."""

OWN_LIFE_USED = 0.9
CONNECTIONS_MAX = 40
ADDRESS_CONNECTIONS_MAX = CONNECTIONS_MAX // 2
"""Validations at once for the callers of one address: somebody who tries many tokens keeps nobody else waiting."""

log = structlog.get_logger()


class _Named(Struct, frozen=True):
    id: str = ""
    name: str = ""


class _Owned(_Named, frozen=True):
    domain: _Named = _Named()


class _Token(Struct, frozen=True):
    user: _Owned
    expires_at: datetime
    roles: tuple[_Named, ...] = ()
    project: _Owned | None = None
    domain: _Named | None = None
    system: dict[str, Any] | None = None
    catalog: tuple[CatalogService, ...] = ()


class _Answer(Struct, frozen=True):
    token: _Token


class OwnToken(Struct, frozen=True):
    """A token of Roost's own user, with the name and the roles that Keystone says it has, and its catalogue."""

    text: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()
    catalog: tuple[CatalogService, ...] = ()


class _Verdict(Struct, frozen=True):
    """Keystone's answer about a token. caller: None for an invalid one. good_until_s: by this process's clock."""

    caller: Caller | None
    expires_at: datetime
    good_until_s: float


Key = tuple[bytes, bool]
"""(a token's hash, whether it may have expired): tokens themselves are not kept."""


class Keystone:
    """One Keystone, as one process asks it.

    Requests that bring the same token at the same time wait for one validation. clock: monotonic seconds; now: an
    aware UTC datetime, which expiries are compared with. challenge: the WWW-Authenticate of a 401.
    """

    def __init__(
        self,
        settings: KeystoneSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.challenge = f'Keystone uri="{settings.www_authenticate_uri or settings.auth_url}"'
        self._settings = settings
        self._clock = clock
        self._now = now
        self._url = f"{settings.auth_url.rstrip('/').removesuffix('/v3')}/v3/auth/tokens"
        self._session = HttpSession(
            timeout_s=settings.timeout_s,
            connections_max=CONNECTIONS_MAX,
            cafile=settings.cafile,
            insecure=settings.insecure,
        )
        self._own_token = OwnToken()
        self._own_renewed_at = datetime.min.replace(tzinfo=UTC)
        self._own_lock = asyncio.Lock()
        self._down_until_s = float("-inf")
        self._is_down = False
        self._failing_until_s: dict[Key, float] = {}
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._good: OrderedDict[Key, _Verdict] = OrderedDict()
        self._refused: OrderedDict[Key, _Verdict] = OrderedDict()
        self._asking: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    async def identify(self, headers: Headers, address: str = "") -> Caller:
        """Return the caller whose token it is, who calls from the address. Raises Unauthorized.

        Raises AuthenticationUnavailable where Keystone gives no verdict.

        A service that passes a user's request on sends its own token in X-Service-Token. It needs one of
        service_token_roles; then the user's token may have expired meanwhile, as far as Keystone allows.
        """
        token = headers.get("x-auth-token")
        if not token:
            raise Unauthorized
        service = None
        if service_token := headers.get("x-service-token"):
            service = await self._caller(service_token, address, allow_expired=False)
            if not set(self._settings.service_token_roles).intersection(service.roles):
                raise Unauthorized
        caller = await self._caller(token, address, allow_expired=service is not None)
        return caller if service is None else msgspec.structs.replace(caller, service=service)

    def figures(self) -> Iterator[Metric]:
        """Yield how many verdicts are remembered."""
        remembered = GaugeMetricFamily("roost_keystone_cache_entries", "Verdicts on tokens kept.", labels=["verdict"])
        remembered.add_metric(["valid"], len(self._good))
        remembered.add_metric(["invalid"], len(self._refused))
        yield remembered

    async def own_token(self, *, refused: str = "") -> OwnToken:
        """Return a token of Roost's own user, a new one shortly before it expires, or when this one was refused.

        Raises AuthenticationUnavailable.
        """
        async with self._own_lock:
            if self._own_token.text in ("", refused) or self._now() >= self._own_renewed_at:
                reply = await self._request("POST", credentials_body(self._settings))
                status = reply.status
                if status == 429 or status >= 500:
                    raise self._failed(f"Keystone is in trouble: it answers {status}")
                if status != 201 or "X-Subject-Token" not in reply.headers:
                    raise self._failed(f"Keystone refuses Roost's own credentials: it answers {status}")
                try:
                    answer = reply.read(_Answer).token
                except Unanswered as error:
                    raise self._failed(f"Keystone's answer is no token: {error}") from error
                life = answer.expires_at - self._now()
                self._own_renewed_at = self._now() + life * OWN_LIFE_USED
                roles = tuple(role.name for role in answer.roles)
                self._own_token = OwnToken(reply.headers["X-Subject-Token"], answer.user.name, roles, answer.catalog)
            return self._own_token

    async def close(self) -> None:
        """Close the connections."""
        await self._session.aclose()

    async def _caller(self, token: str, address: str, *, allow_expired: bool) -> Caller:
        token = token.strip()
        if not re.fullmatch(LOOKS_LIKE_ONE, token):
            raise Unauthorized
        key = (blake2b(token.encode(), digest_size=16).digest(), allow_expired)
        verdict = self._remembered(key)
        if verdict is None:
            lock = self._asking.setdefault(key, asyncio.Lock())
            async with lock:
                verdict = self._remembered(key)  # of who held the lock before
                if verdict is None:
                    async with self._shares.setdefault(address, asyncio.Semaphore(ADDRESS_CONNECTIONS_MAX)):
                        verdict = await self._ask_and_count(token, key)
                    self._remember(key, verdict)
        if verdict.caller is None:
            raise Unauthorized
        return verdict.caller

    def _remembered(self, key: Key) -> _Verdict | None:
        """Return a verdict that still counts, and count that it was not asked for."""
        for verdicts in (self._good, self._refused):
            verdict = verdicts.get(key)
            if verdict is None or self._clock() >= verdict.good_until_s:
                continue
            if verdict.caller is None or key[1] or self._now() < verdict.expires_at:
                verdicts.move_to_end(key)
                TOKENS.labels("cached").inc()
                return verdict
        return None

    def _remember(self, key: Key, verdict: _Verdict) -> None:
        """Keep the two kinds apart: a flood of invalid tokens evicts no valid one."""
        self._good.pop(key, None)
        self._refused.pop(key, None)
        verdicts = self._refused if verdict.caller is None else self._good
        verdicts[key] = verdict
        if len(verdicts) > REMEMBERED_MAX:
            verdicts.popitem(last=False)

    async def _ask_and_count(self, token: str, key: Key) -> _Verdict:
        try:
            verdict = await self._ask(token, key)
        except AuthenticationUnavailable:
            TOKENS.labels("unavailable").inc()
            raise
        TOKENS.labels("invalid" if verdict.caller is None else "valid").inc()
        return verdict

    async def _ask(self, token: str, key: Key) -> _Verdict:
        """Validate a token. A token of Roost's own that Keystone does not take any more is renewed once.

        What Keystone, or the server in front of it, refuses otherwise is no token. Raises AuthenticationUnavailable.
        """
        _, allow_expired = key
        if self._clock() < self._failing_until_s.get(key, float("-inf")):
            raise AuthenticationUnavailable(UNAVAILABLE)
        query = [("nocatalog", "1"), *([("allow_expired", "1")] if allow_expired else [])]
        own = (await self.own_token()).text
        headers = {"X-Auth-Token": own, "X-Subject-Token": token}
        reply = await self._request("GET", headers=headers, query=query)
        if reply.status == 401:
            headers["X-Auth-Token"] = (await self.own_token(refused=own)).text
            reply = await self._request("GET", headers=headers, query=query)
        status = reply.status
        if status in (401, 403):
            hint = "; its user needs the role service or admin" if status == 403 else ""
            raise self._failed_for(key, f"Keystone does not let Roost validate tokens: it answers {status}{hint}")
        if status != 429 and 400 <= status < 500:
            self._failing_until_s.clear()
            return self._refusal()
        if status != 200:
            raise self._failed_for(key, f"Keystone is in trouble: it answers {status}")
        try:
            answer = reply.read(_Answer).token
        except Unanswered as error:
            raise self._failed_for(key, f"Keystone's answer is no token: {error}") from error
        self._failing_until_s.clear()
        if not allow_expired and answer.expires_at <= self._now():
            return self._refusal()
        return _Verdict(_caller_of(answer), answer.expires_at, self._clock() + self._settings.token_cache_s)

    def _refusal(self) -> _Verdict:
        return _Verdict(None, self._now(), self._clock() + REFUSED_CACHE_S)

    async def _request(
        self, method: str, body: Any = None, *, query: Query = (), headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Return the answer. Raises AuthenticationUnavailable, at once where Keystone was away a moment ago."""
        if self._clock() < self._down_until_s:
            raise AuthenticationUnavailable(UNAVAILABLE)
        try:
            reply = await self._session.ask(method, self._url, body, query=query, headers=headers, with_token=False)
        except Unanswered as error:
            raise self._failed(f"Keystone does not answer: {error}") from error
        if self._is_down and reply.status in (200, 201, 404):
            self._is_down = False
            log.info("Keystone answers again")
        return reply

    def _failed_for(self, key: Key, text: str) -> AuthenticationUnavailable:
        """Return the error to raise for one token, which is not asked about for a while; of several, for all."""
        self._failing_until_s[key] = self._clock() + DOWN_PAUSE_S
        if len(self._failing_until_s) >= TOKENS_FAILED_MAX:
            self._failing_until_s.clear()
            return self._failed(text)
        log.warning("Keystone gives no verdict on a token", reason=text, url=self._url)
        return AuthenticationUnavailable(UNAVAILABLE)

    def _failed(self, text: str) -> AuthenticationUnavailable:
        """Return the error to raise for all tokens. The reason is in the log once for each outage, not in answers."""
        if not self._is_down:
            log.error("tokens cannot be validated", reason=text, url=self._url)
        self._is_down = True
        self._down_until_s = self._clock() + DOWN_PAUSE_S
        return AuthenticationUnavailable(UNAVAILABLE)


def _caller_of(token: _Token) -> Caller:
    return Caller(
        user_id=token.user.id,
        project_id=token.project.id if token.project else None,
        roles=tuple(role.name for role in token.roles),
        system_scope="all" if token.system else None,
        domain_id=token.domain.id if token.domain else None,
        user_domain_id=token.user.domain.id,
        project_domain_id=token.project.domain.id if token.project else None,
    )


def credentials_body(settings: KeystoneUser) -> dict[str, Any]:
    """Return the body of POST /v3/auth/tokens."""
    if settings.application_credential_id:
        credential = {"id": settings.application_credential_id, "secret": settings.application_credential_secret}
        return {"auth": {"identity": {"methods": ["application_credential"], "application_credential": credential}}}
    user_domain = _domain(settings.user_domain_id, settings.user_domain_name)
    user = {"name": settings.username, "password": settings.password, "domain": user_domain}
    project_domain = _domain(settings.project_domain_id, settings.project_domain_name)
    project = {"name": settings.project_name, "domain": project_domain}
    return {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": {"project": project}}}


def _domain(domain_id: str, name: str) -> dict[str, str]:
    return {"id": domain_id} if domain_id else {"name": name}
