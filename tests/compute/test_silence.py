"""Hosts that fall silent and come back: the rules as tables, then the watch on real PostgreSQL and a real ledger."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT, take_leases
from tests.compute.test_hosts import report_of, silent_for

from roost.compute.rules.silence import Listening, has_listened, listen_on, listened_s
from roost.compute.service import Compute
from roost.compute.service import hosts as service
from roost.compute.service.guests import Polls
from roost.compute.service.silence import SilenceWatch
from roost.compute.settings import ComputeSettings
from roost.platform.errors import DatabaseUnavailable
from roost.seams.placement import DISABLED

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        (None, at(0), Listening(at(0), at(0))),
        (Listening(at(0), at(9)), at(10), Listening(at(0), at(10))),
        (Listening(at(0), at(9)), at(14), Listening(at(0), at(14))),
        (Listening(at(0), at(9)), at(14.1), Listening(at(14.1), at(14.1))),  # away: stopped, or without a database
        (Listening(at(0), at(9)), at(31_536_000), Listening(at(31_536_000), at(31_536_000))),  # the clock jumped
        (Listening(at(0), at(9)), at(8), Listening(at(8), at(8))),  # the clock was set back
    ],
)
def test_who_listens_begins_anew_after_a_gap(before: Listening | None, now: datetime, after: Listening) -> None:
    assert listen_on(before, now, gap_max_s=5) == after


@pytest.mark.parametrize(("last_s", "listened"), [(0, False), (29.9, False), (30, True), (300, True)])
def test_silence_counts_once_somebody_has_listened_for_long_enough(last_s: float, listened: bool) -> None:
    assert has_listened(Listening(NOON, at(last_s)), for_s=30) is listened


@pytest.mark.parametrize("last_s", [0, 0.5, 3600])
def test_listening_is_counted_in_seconds(last_s: float) -> None:
    assert listened_s(Listening(NOON, at(last_s))) == last_s


@pytest.mark.parametrize("down_after_s", [1.0, 30.0, 600.0])
def test_a_host_that_lives_is_never_taken_for_silent(down_after_s: float) -> None:
    settings = ComputeSettings(host_down_after_s=down_after_s)
    assert settings.quiet_after_s < 0.7 * (settings.host_down_after_s - settings.look_s)


async def watch_of(compute: Compute, *, listened_s: float = 3600) -> SilenceWatch:
    async with compute.database.connection() as connection:
        now = await connection.fetchval("SELECT now()")
    return SilenceWatch(compute, Listening(now - timedelta(seconds=listened_s), now))


async def closed_hosts(compute: Compute) -> set[str]:
    """The hosts that the ledger keeps servers from."""
    hosts = await service.list_hosts(compute)
    states = await compute.placement.get_providers([host.provider_uuid for host in hosts])
    return {state.name for state in states.values() if DISABLED in (state.traits or ())}


async def test_a_host_is_closed_while_it_is_silent_and_open_from_its_next_poll(compute: Compute) -> None:
    await service.register_hosts(compute, [report_of("h1"), report_of("h2")], agent=None)
    assert await closed_hosts(compute) == {"h1", "h2"}, "nobody has heard of them"
    await Polls(compute).poll(["h1", "h2"], agent=AGENT, busy=[], wait_s=0)
    assert await closed_hosts(compute) == set()
    await silent_for(compute, "h1", 31)
    await silent_for(compute, "h2", 20)
    watch = await watch_of(compute)
    assert await watch.look() == ["h1"]
    assert await closed_hosts(compute) == {"h1"}
    assert [host.down for host in await service.list_hosts(compute)] == [True, False]
    assert await watch.look() == []
    await Polls(compute).poll(["h1"], agent=AGENT, busy=[], wait_s=0)
    assert await closed_hosts(compute) == set()
    assert [host.down for host in await service.list_hosts(compute)] == [False, False]


async def test_an_agent_that_reports_its_host_opens_it(compute: Compute) -> None:
    await service.register_hosts(compute, [report_of("h1")], agent=None)
    await service.register_hosts(compute, [report_of("h1")], agent=AGENT)
    assert await closed_hosts(compute) == set()


@pytest.mark.parametrize("listened_s", [0, 20])
async def test_nobody_is_silent_before_somebody_has_listened(compute: Compute, listened_s: float) -> None:
    await service.register_hosts(compute, [report_of("h1")], agent=AGENT)
    await silent_for(compute, "h1", 3600)
    assert await (await watch_of(compute, listened_s=listened_s)).look() == []
    assert await SilenceWatch(compute).look() == []
    assert await closed_hosts(compute) == set()


async def test_a_host_heard_of_in_the_future_is_silent_once_the_clock_is_back(compute: Compute) -> None:
    await service.register_hosts(compute, [report_of("h1"), report_of("h2")], agent=AGENT)
    await silent_for(compute, "h1", -31_536_000)
    await silent_for(compute, "h2", -31_536_000)
    await take_leases(compute, ["h2"], AGENT)
    assert await (await watch_of(compute)).look() == ["h1"]


async def test_what_a_watch_notes_and_does_not_live_to_publish_is_published_later(
    compute: Compute,
) -> None:
    await service.register_hosts(compute, [report_of("h1"), report_of("h2")], agent=AGENT)
    await silent_for(compute, "h1", 31)
    broken: Any = compute.placement
    broken.broken = DatabaseUnavailable("away")
    with pytest.raises(DatabaseUnavailable):
        await (await watch_of(compute)).look()
    assert await closed_hosts(compute) == set()
    await Polls(compute).poll(["h2"], agent=AGENT, busy=[], wait_s=0)
    broken.broken = None
    assert await service.publish_hosts(compute) == 1
    assert await closed_hosts(compute) == {"h1"}
    broken.broken = DatabaseUnavailable("away")
    await Polls(compute).poll(["h1"], agent=AGENT, busy=[], wait_s=0)
    assert await closed_hosts(compute) == {"h1"}
    broken.broken = None
    assert await service.publish_hosts(compute) == 1
    assert await closed_hosts(compute) == set()


async def test_a_rack_falls_silent_and_comes_back_with_as_many_statements_as_one_host(
    compute: Compute, statements: Any
) -> None:
    counts = []
    for number, names in enumerate((["a1"], [f"b{number}" for number in range(100)])):
        agent = replace(AGENT, id=f"a0000000-0000-0000-0000-00000000000{number}")
        await service.register_hosts(compute, [report_of(name) for name in names], agent=agent)
        for name in names:
            await silent_for(compute, name, 31)
        watch, polls = await watch_of(compute), Polls(compute)
        with statements() as seen:
            assert sorted(await watch.look()) == sorted(names)
            await polls.poll(names, agent=agent, busy=[], wait_s=0)
            counts.append(len(seen))
    assert counts[0] == counts[1]
