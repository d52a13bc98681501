"""One project's requests have half of a process's connections, and leave everybody else the others."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from roost.platform import shares
from roost.platform.auth import OPERATOR, Caller, project_counted
from roost.platform.database import Database
from roost.platform.health import Health
from roost.platform.shares import ShareUsed, count_for

MEMBER, OTHER = Caller("u", "p", ("member",)), Caller("v", "q", ("member",))


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[Database]:
    """Four connections: two for each project."""
    database = await Database.open(dsn, size=4)
    yield database
    await database.close()


class Held:
    """How many connections each caller holds, all until they are let go."""

    def __init__(self, pool: Database) -> None:
        self.counts: Counter[Caller] = Counter()
        self.let_go = asyncio.Event()
        self._pool = pool

    async def hold(self, caller: Caller) -> None:
        count_for(project_counted(caller))
        async with self._pool.connection():
            self.counts[caller] += 1
            await self.let_go.wait()

    def begin(self, caller: Caller, count: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.hold(caller)) for _ in range(count)]

    async def reaches(self, caller: Caller, count: int) -> None:
        async with asyncio.timeout(10):
            while self.counts[caller] < count:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # one more would hold one by now


async def test_a_project_has_half_of_the_connections(pool: Database) -> None:
    held = Held(pool)
    many = held.begin(MEMBER, 6)
    await held.reaches(MEMBER, 2)
    others = [*held.begin(OTHER, 1), *held.begin(OPERATOR, 1)]
    await held.reaches(OTHER, 1)
    await held.reaches(OPERATOR, 1)
    assert held.counts == {MEMBER: 2, OTHER: 1, OPERATOR: 1}
    held.let_go.set()
    await asyncio.gather(*many, *others)
    assert held.counts[MEMBER] == 6


@pytest.mark.parametrize(
    "exempt", [OPERATOR, Caller("n", "services", ("service",)), Caller("s", None, ("reader",), system_scope="all")]
)
async def test_operators_and_services_have_all(pool: Database, exempt: Caller) -> None:
    held = Held(pool)
    many = held.begin(exempt, 4)
    await held.reaches(exempt, 4)
    held.let_go.set()
    await asyncio.gather(*many)


async def test_who_waits_for_its_own_share_is_told_so(pool: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "WAIT_S", 0.1)
    held = Held(pool)
    many = held.begin(MEMBER, 2)
    await held.reaches(MEMBER, 2)
    with pytest.raises(ShareUsed, match="the project p has 2 requests at work in this process"):
        await asyncio.create_task(held.hold(MEMBER))
    held.let_go.set()
    await asyncio.gather(*many, *held.begin(MEMBER, 2))


async def test_transactions_within_others_wait_for_no_share(pool: Database) -> None:
    async def nest() -> None:
        count_for(project_counted(MEMBER))
        async with pool.transaction() as outer, pool.transaction() as inner:
            await outer.execute("SELECT 1")
            await inner.execute("SELECT 1")

    async with asyncio.timeout(5):
        await asyncio.gather(*(nest() for _ in range(8)))


async def test_a_process_without_a_free_connection_is_not_ready(pool: Database) -> None:
    health = Health(pool)
    assert await health.find_hindrance() is None
    held = Held(pool)
    many = held.begin(OPERATOR, 4)
    await held.reaches(OPERATOR, 4)
    assert await health.find_hindrance() == "all 4 connections of this process are in use for 0.7 s"
    assert await health.find_fault() is None
    held.let_go.set()
    await asyncio.gather(*many)
    assert await health.find_hindrance() is None
    health.close()
