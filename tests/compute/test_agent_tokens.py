"""What a token is for, as a table; and what a process remembers of the tokens, on a real database."""

import asyncio
from collections.abc import Callable

import pytest

from roost.compute.errors import AgentTokenNotFound, HostNotCovered
from roost.compute.rules.agent_tokens import HostPatterns, check_patterns, token_hash
from roost.compute.service import agent_tokens as service
from roost.compute.service.agent_tokens import READ_PAUSE_S, REMEMBERED_S, AgentTokens
from roost.platform.auth import Unauthorized
from roost.platform.database import Database
from roost.platform.errors import BadRequest


@pytest.mark.parametrize(
    ("patterns", "host", "covered"),
    [
        (("h1",), "h1", True),
        (("h1",), "h11", False),
        (("h1",), "H1", False),
        (("h1",), "xh1", False),
        (("h1", "h2"), "h2", True),
        (("rack1-*",), "rack1-h7", True),
        (("rack1-*",), "rack11-h7", False),
        (("rack1-*",), "xrack1-h7", False),
        (("*",), "anything.at.all", True),
        (("h?",), "h1", True),
        (("h?",), "h12", False),
        (("h[12]",), "h2", True),
        (("h[12]",), "h3", False),
        (("h.1",), "hx1", False),
        (("h1|h2",), "h2", False),
        (("h1",), "h1\n", False),
        ((), "h1", False),
    ],
)
def test_a_host_is_covered_by_its_name_or_a_pattern(patterns: tuple[str, ...], host: str, covered: bool) -> None:
    assert HostPatterns(patterns).covers(host) is covered


def test_a_refusal_names_the_hosts_and_what_the_token_is_for() -> None:
    with pytest.raises(HostNotCovered, match=r"^this token is for r1-\*, h9, and not for r2-h1, r3-h1$"):
        HostPatterns(("r1-*", "h9")).check(["r3-h1", "r1-h1", "r2-h1", "h9", "r2-h1"])


@pytest.mark.parametrize(
    "patterns", [(), ("",), ("h 1",), ("../h1",), ("h1\n",), ("h\x001",), ("h" * 256,), ("h1", "")]
)
def test_a_pattern_that_fits_no_host_is_refused(patterns: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest):
        check_patterns(patterns)


@pytest.mark.parametrize("patterns", [("h1",), ("rack1-*", "*"), ("h[0-9]?.example.com",)])
def test_names_and_patterns_are_taken(patterns: tuple[str, ...]) -> None:
    check_patterns(patterns)


class Clock:
    """A clock that stands until it is moved on."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def statements(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which reads happen, in order: of the mark that says whether tokens changed, and of all tokens."""
    reads: list[str] = []

    def count(name: str) -> None:
        real: Callable[..., object] = getattr(service.store, name)

        async def counted(connection: object) -> object:
            reads.append(name)
            return await real(connection)  # type: ignore[misc]

        monkeypatch.setattr(service.store, name, counted)

    count("read_tokens_mark")
    count("list_live_tokens")
    return reads


async def test_a_token_is_kept_as_its_hash_only(database: Database) -> None:
    kept, token = await service.create_agent_token(database, hosts=["h1", "r1-*"], name="rack one")
    async with database.connection() as connection:
        (row,) = await connection.fetch("SELECT * FROM compute.agent_token")
    assert token.startswith("roost_agent_")
    assert len(token) == len("roost_agent_") + 43  # 256 bits
    assert row["token_sha256"] == token_hash(token)
    assert token not in repr(dict(row))
    assert (row["id"], row["name"], row["hosts"]) == (kept.id, "rack one", ["h1", "r1-*"])


async def test_a_token_counts_at_once_and_until_it_is_revoked(database: Database) -> None:
    clock = Clock()
    tokens = AgentTokens(database, clock=clock)
    with pytest.raises(Unauthorized):
        await tokens.verify("roost_agent_made-up")
    kept, token = await service.create_agent_token(database, hosts=["h1"], name="")
    clock.now_s += READ_PAUSE_S
    assert (await tokens.verify(token)).patterns == ("h1",)
    await service.revoke_agent_token(database, kept.id)
    clock.now_s += REMEMBERED_S + 0.01
    with pytest.raises(Unauthorized):
        await tokens.verify(token)


async def test_what_was_read_serves_all_requests_for_a_while(database: Database, statements: list[str]) -> None:
    clock = Clock()
    tokens = AgentTokens(database, clock=clock)
    made = [(await service.create_agent_token(database, hosts=[f"h{number}"], name=""))[1] for number in range(5)]
    await asyncio.gather(*(tokens.verify(token) for token in made * 20))
    clock.now_s += REMEMBERED_S
    await asyncio.gather(*(tokens.verify(token) for token in made * 20))
    assert statements == ["read_tokens_mark", "list_live_tokens"]
    clock.now_s += 0.01
    await asyncio.gather(*(tokens.verify(token) for token in made * 20))
    assert statements[2:] == ["read_tokens_mark"]
    await service.create_agent_token(database, hosts=["h9"], name="")
    clock.now_s += REMEMBERED_S + 0.01
    await asyncio.gather(*(tokens.verify(token) for token in made * 20))
    assert statements[3:] == ["read_tokens_mark", "list_live_tokens"]


async def test_made_up_tokens_that_come_together_cost_one_read(database: Database, statements: list[str]) -> None:
    tokens = AgentTokens(database)
    outcomes = await asyncio.gather(*(tokens.verify(f"no-{n}") for n in range(200)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Unauthorized}
    assert statements.count("read_tokens_mark") <= 2


async def test_the_day_of_its_last_use_is_noted_once(database: Database) -> None:
    tokens = AgentTokens(database)
    _, token = await service.create_agent_token(database, hosts=["h1"], name="")
    async with database.connection() as connection:
        await connection.execute("UPDATE compute.agent_token SET last_used_on = '2020-01-01'")
    await tokens.verify(token)
    async with database.connection() as connection:
        today = await connection.fetchval("SELECT (now() AT TIME ZONE 'UTC')::date")
        written_by = await connection.fetchval("SELECT xmin::text FROM compute.agent_token")
    assert [listed.last_used_on for listed in await service.list_agent_tokens(database)] == [today]
    await tokens.verify(token)
    await AgentTokens(database).verify(token)
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT xmin::text FROM compute.agent_token") == written_by


async def test_a_second_revoking_changes_nothing_and_an_unknown_id_is_said(database: Database) -> None:
    kept, _ = await service.create_agent_token(database, hosts=["h1"], name="")
    first = await service.revoke_agent_token(database, kept.id)
    assert await service.revoke_agent_token(database, kept.id) == first
    for token_id in ("nosuch", "11111111-1111-1111-1111-111111111111"):
        with pytest.raises(AgentTokenNotFound, match=token_id):
            await service.revoke_agent_token(database, token_id)
