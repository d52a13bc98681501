"""Texts and patterns in the filters of a list, and what happens where they take too long."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from tests.compute.test_servers import boot

from roost.compute.errors import FilterInvalid
from roost.compute.model.server import ServerFilter
from roost.compute.rules.patterns import read_search
from roost.compute.service import Compute
from roost.compute.service import servers as service
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.store.servers import LOCK_PATTERNS, PATTERN_SPACE


@asynccontextmanager
async def holder(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A transaction beside those of the service; its locks end with the block."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@pytest.fixture
async def cloud(compute: Compute) -> Compute:
    """One flavor."""
    await create_flavor(compute, FlavorRequest(name="small", vcpus=1, ram_mb=1024, disk_gb=10, id="1"))
    return compute


@pytest.mark.parametrize(
    ("only", "by_patterns", "looked_for"),
    [
        (ServerFilter(), False, ServerFilter()),
        (ServerFilter(name="web"), False, ServerFilter(name="%web%")),
        (ServerFilter(name="50%_a"), False, ServerFilter(name=r"%50\%\_a%")),
        (ServerFilter(ip6="fd00::"), False, ServerFilter(ip6="%fd00::%")),
        (ServerFilter(name="^web"), True, ServerFilter(name="^web")),
        (ServerFilter(name="50%", ip="10.0.0.1"), True, ServerFilter(name="50%", ip="10.0.0.1")),
        (ServerFilter(name=r"\\1"), True, ServerFilter(name=r"\\1")),
        (ServerFilter(name=r"\d{2}\.0"), True, ServerFilter(name=r"\d{2}\.0")),
    ],
)
def test_plain_text_is_a_part_and_all_else_a_pattern(
    only: ServerFilter, by_patterns: bool, looked_for: ServerFilter
) -> None:
    search = read_search(only)
    assert (search.by_patterns, search.only) == (by_patterns, looked_for)


@pytest.mark.parametrize("pattern", [r"(.+)(.+)(.+)(.+)\4\3\2\1$", r"(a)\1", r"(a)\\\1", r"(a)[\1]"])
def test_a_back_reference_is_refused(pattern: str) -> None:
    for only in (ServerFilter(name=pattern), ServerFilter(ip=pattern), ServerFilter(name="a", ip6=pattern)):
        with pytest.raises(FilterInvalid, match="expected no back reference"):
            read_search(only)


async def test_both_find_the_servers(cloud: Compute) -> None:
    servers = {name: (await boot(cloud, name=name, nics=()))[0] for name in ("web_1", "web-1", "web%1")}
    for text, names in {
        "web_": ["web_1"], "b%": ["web%1"], "web": ["web%1", "web-1", "web_1"], "^web.1$": ["web%1", "web-1", "web_1"],
        "-1|_": ["web-1", "web_1"], "x": [],
    }.items():  # fmt: skip
        listed = await service.list_servers(cloud, ServerFilter(name=text))
        assert [one.id for one in listed] == [servers[name] for name in names], text


async def test_a_list_by_a_pattern_that_takes_too_long_is_ended(
    cloud: Compute, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PATTERN_S", 0.1)
    await service.list_servers(cloud, ServerFilter(name="^w"))  # its statement is prepared
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with holder(dsn) as holding:
        await holding.execute("LOCK compute.server")
        with pytest.raises(FilterInvalid, match=r"name=\^w: no answer within 0.1 s"):
            await service.list_servers(cloud, ServerFilter(name="^w"))
        assert await holding.fetchval(waiting) == 0


async def test_a_project_looks_by_patterns_once_at_a_time(
    cloud: Compute, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PATTERN_S", 0.5)
    async with holder(dsn) as searching:
        await searching.execute(LOCK_PATTERNS, PATTERN_SPACE, "theirs")
        with pytest.raises(FilterInvalid, match="a project looks by patterns once at a time"):
            await service.list_servers(cloud, ServerFilter(name="^w", project_id="theirs"))
        assert await service.list_servers(cloud, ServerFilter(name="w", project_id="theirs")) == []
        assert await service.list_servers(cloud, ServerFilter(name="^w", project_id="mine")) == []
    assert await service.list_servers(cloud, ServerFilter(name="^w", project_id="theirs")) == []
