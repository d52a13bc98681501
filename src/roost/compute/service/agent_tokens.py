"""The tokens by which agents authenticate: made and revoked by operators, verified on each request of an agent."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from roost.compute.errors import AgentTokenNotFound
from roost.compute.model.cloud import AgentToken, LiveToken
from roost.compute.rules.agent_tokens import EVERY_HOST, HostPatterns, check_patterns, token_hash
from roost.compute.store import agent_tokens as store
from roost.platform.auth import Unauthorized
from roost.platform.database import Database
from roost.platform.http import is_uuid

PREFIX = "roost_agent_"
"""By which people, and programs that look for secrets in files, know what a token is."""

RANDOM_BYTES = 32
REMEMBERED_S = 2.0
"""How long a process goes by what it read. With the rounds of a held poll, a revoked token is refused within 5 s."""

READ_PAUSE_S = 0.2
"""Between two reads: a flood of made-up tokens costs no more than these."""

HostsAllowed = Callable[[], Awaitable[HostPatterns]]
"""Tells, as of now, which hosts a request may speak for. Raises Unauthorized once its token is revoked."""


async def every_host() -> HostPatterns:
    """Allow all hosts, where agents are asked for no token."""
    return EVERY_HOST


async def create_agent_token(database: Database, *, hosts: Sequence[str], name: str) -> tuple[AgentToken, str]:
    """Make a token for these hosts; the token itself, the second value, is not kept. Raises BadRequest."""
    check_patterns(hosts)
    token = PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
    async with database.transaction() as tx:
        kept = await store.insert_agent_token(tx, token_sha256=token_hash(token), name=name, hosts=list(hosts))
    return kept, token


async def list_agent_tokens(database: Database) -> list[AgentToken]:
    """Return all tokens, revoked ones too, oldest first."""
    async with database.connection() as connection:
        return await store.list_agent_tokens(connection)


async def revoke_agent_token(database: Database, token_id: str) -> AgentToken:
    """Revoke a token; one that is revoked already stays so. Raises AgentTokenNotFound."""
    revoked = None
    if is_uuid(token_id):
        async with database.transaction() as tx:
            revoked = await store.revoke_agent_token(tx, token_id)
    if revoked is None:
        raise AgentTokenNotFound(f"there is no agent token {token_id}: `roost-manage agent-token list` shows all")
    return revoked


class AgentTokens:
    """The tokens that count, as one process remembers them. clock: monotonic seconds."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._tokens: dict[bytes, LiveToken] = {}
        self._patterns: dict[bytes, HostPatterns] = {}
        self._mark: store.TokensMark | None = None
        self._read_at_s = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def verify(self, token: str) -> HostPatterns:
        """Return the hosts that the token is for. Raises Unauthorized, DatabaseUnavailable."""
        key = token_hash(token)
        now_s = self._clock()
        await self._read_since(now_s - REMEMBERED_S)
        if key not in self._tokens:
            await self._read_since(now_s)  # it may have been made just now
        live = self._tokens.get(key)
        if live is None:
            raise Unauthorized("this agent token is not known, or was revoked")
        if not live.used_today:
            self._tokens[key] = msgspec.structs.replace(live, used_today=True)
            async with self._database.connection() as connection:
                await store.mark_token_used(connection, live.id)
        return self._patterns[key]

    async def _read_since(self, moment_s: float) -> None:
        """Return once the tokens were read at that moment or later; callers that come together share one read."""
        while self._read_at_s < moment_s:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
            await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            await asyncio.sleep(self._read_at_s + READ_PAUSE_S - self._clock())
            read_at_s = self._clock()
            async with self._database.connection() as connection:
                mark = await store.read_tokens_mark(connection)  # before the tokens: what changes since, is read next
                if mark != self._mark:
                    self._remember(await store.list_live_tokens(connection))
                    self._mark = mark
            self._read_at_s = read_at_s
        finally:
            self._reading = None

    def _remember(self, tokens: Sequence[LiveToken]) -> None:
        """Go by these from now on; what a token is for never changes, so what was made of its patterns stays."""
        self._tokens = {token.token_sha256: token for token in tokens}
        self._patterns = {
            key: self._patterns.get(key) or HostPatterns(token.hosts) for key, token in self._tokens.items()
        }
