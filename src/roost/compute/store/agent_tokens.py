"""SQL of the tokens by which agents authenticate."""

from collections.abc import Sequence
from typing import Any

from roost.compute.model.cloud import AgentToken, LiveToken
from roost.platform.database import Connection
from roost.platform.rows import read_row

INSERT = """-- compute.insert_agent_token
INSERT INTO compute.agent_token (token_sha256, name, hosts) VALUES ($1, $2, $3)
RETURNING id, name, hosts, created_at, last_used_on, revoked_at"""


async def insert_agent_token(tx: Connection, *, token_sha256: bytes, name: str, hosts: Sequence[str]) -> AgentToken:
    """Keep a new token."""
    return _token(await tx.fetchrow(INSERT, token_sha256, name, hosts))


LIST = """-- compute.list_agent_tokens
SELECT id, name, hosts, created_at, last_used_on, revoked_at FROM compute.agent_token ORDER BY created_at, id"""


async def list_agent_tokens(connection: Connection) -> list[AgentToken]:
    """Return all tokens, revoked ones too, oldest first."""
    return [_token(row) for row in await connection.fetch(LIST)]


READ_MARK = """-- compute.read_tokens_mark
SELECT count(*), count(revoked_at), max(created_at), max(revoked_at), (now() AT TIME ZONE 'UTC')::date
FROM compute.agent_token"""

TokensMark = tuple[Any, ...]
"""Differs whenever a token was made or revoked, and on another day, when no token was used yet."""


async def read_tokens_mark(connection: Connection) -> TokensMark:
    """Return what tells whether the tokens are to be read again."""
    return tuple(await connection.fetchrow(READ_MARK))


LIST_LIVE = """-- compute.list_live_tokens
SELECT id, token_sha256, hosts, coalesce(last_used_on = (now() AT TIME ZONE 'UTC')::date, false) AS used_today
FROM compute.agent_token WHERE revoked_at IS NULL"""


async def list_live_tokens(connection: Connection) -> list[LiveToken]:
    """Return the tokens that count."""
    return [read_row(LiveToken, row) for row in await connection.fetch(LIST_LIVE)]


MARK_USED = """-- compute.mark_token_used
UPDATE compute.agent_token SET last_used_on = (now() AT TIME ZONE 'UTC')::date
WHERE id = $1::uuid AND last_used_on IS DISTINCT FROM (now() AT TIME ZONE 'UTC')::date"""


async def mark_token_used(connection: Connection, token_id: str) -> None:
    """Record that a token was used today."""
    await connection.execute(MARK_USED, token_id)


REVOKE = """-- compute.revoke_agent_token
UPDATE compute.agent_token SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1::uuid
RETURNING id, name, hosts, created_at, last_used_on, revoked_at"""


async def revoke_agent_token(tx: Connection, token_id: str) -> AgentToken | None:
    """Revoke a token, or leave it revoked since it was; None where there is none."""
    row = await tx.fetchrow(REVOKE, token_id)
    return None if row is None else _token(row)


def _token(row: Any) -> AgentToken:
    return read_row(AgentToken, row)
