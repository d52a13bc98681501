"""Whose word an agent's is: the table of cases, and the same on the database, with what a poll costs."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT, compute_of, declare_hosts, order_guests, take_leases
from tests.compute.reporting import report

from roost.compute.errors import AgentRefused
from roost.compute.model.agents import AgentRow
from roost.compute.rules.agents import (
    FORMER_BOOTS_MAX,
    decide_admission,
    hash_secret,
    is_settled,
    poll_of,
    sentence_of_guests,
)
from roost.compute.rules.silence import Listening
from roost.compute.service import Compute
from roost.compute.service.agents import settle_polls
from roost.compute.service.guests import Polls, compare_guests
from roost.compute.service.hosts import list_hosts, list_quiet_hosts, register_hosts
from roost.compute.service.leases import LeaseRequest, release_leases, renew_leases
from roost.compute.service.silence import SilenceWatch
from roost.compute.settings import ComputeSettings
from roost.compute.store import agents as agent_rows
from roost.compute.store import hosts as host_rows
from roost.platform.database import Database
from roost.platform.errors import NotFound
from roost.seams.agent import GuestReport, GuestsBody, HostReport

LEASE_S = 30.0
NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
FIRST, SECOND, THIRD = (f"{number}0000000-0000-0000-0000-000000000000" for number in (1, 2, 3))
SECRET, WRONG = "the secret", "a stolen one"


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def identity(boot_id: str | None = FIRST, secret: str = SECRET, label: str = "") -> Any:
    return replace(AGENT, boot_id=boot_id, secret=secret, label=label or f"start {(boot_id or '-')[0]}")


def row(boot_id: str | None = FIRST, **fields: Any) -> AgentRow:
    """An agent that has long run, and was heard of 5 s ago."""
    known: dict[str, Any] = {
        "label": f"start {(boot_id or '-')[0]}", "boot_since": ago(3600), "seen_at": ago(5),
        "secret_sha256": hash_secret(SECRET), "service_version": AGENT.service_version,
    }  # fmt: skip
    return AgentRow(id=AGENT.id, boot_id=boot_id, **{**known, **fields})


CLASH = row(SECOND, former_boots=(FIRST,), former_boot_id=FIRST, former_at=ago(4), boot_at=ago(5))
UNKNOWN = AgentRow(id=AGENT.id, boot_since=NOW)


@pytest.mark.parametrize(
    ("agent", "known", "refusal", "boot_id", "former_boots"),
    [
        (identity(), UNKNOWN, None, FIRST, ()),
        (identity(None, ""), UNKNOWN, None, None, ()),
        (identity(), row(), None, FIRST, ()),
        (identity(SECOND), row(), None, SECOND, (FIRST,)),  # a restart waits for nobody
        (identity(THIRD), row(SECOND, former_boots=(FIRST,)), None, THIRD, (SECOND, FIRST)),
        (identity(FIRST), row(SECOND, former_boots=(FIRST,)), "two of this agent run", SECOND, (FIRST,)),
        (identity(FIRST), row(SECOND, former_boots=(THIRD, FIRST)), "two of this agent run", SECOND, (THIRD, FIRST)),
        (identity(FIRST), row(SECOND, former_boots=(FIRST,), seen_at=ago(31)), None, FIRST, (SECOND,)),
        (identity(FIRST), row(SECOND, former_boots=(FIRST,), seen_at=ago(90), boot_since=ago(29)), "two", SECOND, None),
        (identity(SECOND), CLASH, "two of this agent run", SECOND, (FIRST,)),
        (identity(FIRST), CLASH, "two of this agent run", SECOND, (FIRST,)),
        (identity(THIRD), CLASH, "two of this agent run", THIRD, (SECOND, FIRST)),  # a restart of one ends nothing
        (identity(SECOND), replace(CLASH, former_at=ago(30)), None, SECOND, (FIRST,)),
        (identity(FIRST), replace(CLASH, boot_at=ago(30), seen_at=ago(30)), None, FIRST, (SECOND,)),
        (identity(THIRD), replace(CLASH, former_at=ago(30), boot_at=ago(30)), None, THIRD, (SECOND, FIRST)),
        (identity(secret=""), row(), "brings no secret", FIRST, ()),
        (identity(secret=WRONG), row(), "brings another secret than its own", FIRST, ()),
        (identity(SECOND, WRONG), row(), "brings another secret than its own", FIRST, ()),
        (identity(None, ""), row(), "brings no secret", FIRST, ()),  # version 4 with the id of one that has a secret
        (identity(), row(secret_sha256=None), None, FIRST, ()),
        (identity(), row(None, secret_sha256=None), None, FIRST, ()),  # version 4 was replaced by version 5
        (identity(None, ""), row(None, secret_sha256=None), None, None, ()),
    ],
)
def test_the_newest_start_holds_and_two_hold_nothing(
    agent: Any, known: AgentRow, refusal: str | None, boot_id: str | None, former_boots: tuple[str, ...] | None
) -> None:
    admission = decide_admission(agent, known, now=NOW, lease_s=LEASE_S)
    assert (admission.refusal.sentence if admission.refusal else "").startswith(
        f"this agent {refusal}" if refusal and refusal.startswith("brings") else refusal or ""
    )
    assert (admission.refusal is None) == (refusal is None)
    assert admission.row.boot_id == boot_id
    assert former_boots is None or admission.row.former_boots == former_boots
    if admission.refusal is None:
        assert is_settled(agent, admission.row)
        assert admission.row.label == agent.label
        assert decide_admission(agent, admission.row, now=NOW, lease_s=LEASE_S) == admission
    elif not admission.refusal.clash:
        assert admission.row == known


def test_what_refuses_an_agent_names_labels_and_times_and_no_id() -> None:
    for agent, known in ((identity(FIRST), CLASH), (identity(secret=WRONG), row())):
        refusal = decide_admission(agent, known, now=NOW, lease_s=LEASE_S).refusal
        assert refusal is not None
        assert not any(word in refusal.sentence for word in (AGENT.id, FIRST, SECOND, SECRET, WRONG))
        assert "start " in refusal.sentence
        assert "2026-01-02T1" in refusal.sentence


def test_a_call_that_is_no_poll_begins_no_start() -> None:
    admission = decide_admission(identity(SECOND), row(), now=NOW, lease_s=LEASE_S, begins=False)
    assert (admission.row, admission.refusal) == (row(), None)
    fresh = decide_admission(identity(), UNKNOWN, now=NOW, lease_s=LEASE_S, begins=False)
    assert fresh.row.secret_sha256 == hash_secret(SECRET), "the first lease of an id stores its secret"


def test_a_few_former_starts_are_kept() -> None:
    known = row(FIRST)
    for number in range(20):
        agent = identity(f"a{number:07}-0000-0000-0000-000000000000")
        known = decide_admission(agent, known, now=NOW, lease_s=LEASE_S).row
    assert len(known.former_boots) == FORMER_BOOTS_MAX


def test_a_digest_says_what_is_written_of_hosts() -> None:
    digest = poll_of(AGENT, ["h2", "h1"], lease_length_s=LEASE_S).hosts_digest
    assert digest == poll_of(identity(), ["h1", "h2"], lease_length_s=LEASE_S).hosts_digest
    others = [
        poll_of(AGENT, ["h1"], lease_length_s=LEASE_S),
        poll_of(AGENT, ["h1h2"], lease_length_s=LEASE_S),
        poll_of(replace(AGENT, fence_after_s=120.0), ["h1", "h2"], lease_length_s=LEASE_S),
        poll_of(replace(AGENT, service_version=3), ["h1", "h2"], lease_length_s=LEASE_S),
        poll_of(AGENT, ["h1", "h2"], lease_length_s=LEASE_S + 1),
        poll_of(replace(AGENT, keeps_disks=True), ["h1", "h2"], lease_length_s=LEASE_S),
    ]
    assert len({digest, *(other.hosts_digest for other in others)}) == 7


def test_the_hosts_of_guests_are_named() -> None:
    assert sentence_of_guests({"h2", "h1"}).startswith("this agent has guests on h1, h2, which it does not name: ")
    assert "h1, h2, h3 and other hosts" in sentence_of_guests({"h4", "h3", "h2", "h1"})


LEASE_LENGTHS = "SELECT array_agg(lease_length_s) FROM compute.host WHERE name IN ('h1', 'h2')"

# On the database.


@pytest.fixture
async def compute(database: Database) -> Compute:
    await declare_hosts(database, ["h1", "h2", "h3"])
    return compute_of(database)


async def value(compute: Compute, sql: str, *arguments: Any) -> Any:
    async with compute.database.connection() as connection:
        return await connection.fetchval(sql, *arguments)


async def pass_time(compute: Compute, seconds: float) -> None:
    """All that was noted is longer ago."""
    for table, columns in (("host", ("seen_at",)), ("agent", ("seen_at", "boot_since", "boot_at", "former_at"))):
        changes = ", ".join(f"{column} = {column} - $1 * interval '1 s'" for column in columns)
        async with compute.database.connection() as connection:
            await connection.execute(f"UPDATE compute.{table} SET {changes}", seconds)


async def poll(compute: Compute, agent: Any, *hosts: str) -> Any:
    return await Polls(compute).poll(hosts or ("h1", "h2"), agent=agent, busy=[], wait_s=0)


async def look_for_silent(compute: Compute) -> list[str]:
    now = await value(compute, "SELECT now()")
    return await SilenceWatch(compute, Listening(since=now - timedelta(hours=1), last=now)).look()


LOCKS_WAITED_FOR = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
HOSTS_OF_AGENT = "SELECT array_agg(name ORDER BY name) FROM compute.host WHERE agent_id = $1"


async def test_a_poll_of_a_fleet_that_goes_on_is_one_statement_that_reads_no_host(
    compute: Compute, statements: Any
) -> None:
    agent = identity()
    await take_leases(compute, ["h1", "h2"], agent)
    before = await value(compute, "SELECT max(seen_at) FROM compute.host WHERE agent_id IS NOT NULL")
    for seconds in (0, 4):  # the second time it is noted that the agent was heard of
        await pass_time(compute, seconds)
        with statements() as seen:
            renewed = await take_leases(compute, ["h2", "h1"], agent)
        assert seen == ["compute.hear_agents"]
        assert renewed.hosts_held == {"h1", "h2"}
        assert renewed.as_of > 0
    assert await value(compute, "SELECT max(seen_at) < $1 FROM compute.host", before)
    assert await value(compute, "SELECT now() - seen_at < interval '2 s' FROM compute.agent")


async def test_what_is_written_of_a_host_is_written_again_when_it_changes(compute: Compute) -> None:
    agent = identity()
    await take_leases(compute, ["h1", "h2"], agent)
    await take_leases(compute, ["h1", "h2"], replace(agent, fence_after_s=120.0))
    assert await value(compute, "SELECT count(*) FROM compute.host WHERE fence_after_s = 120") == 2
    await take_leases(compute, ["h1", "h2"], replace(agent, label="a new name", fence_after_s=120.0))
    assert await value(compute, "SELECT label FROM compute.agent") == "a new name"
    for keeps_disks, hosts_with_disks in ((None, 0), (True, 2), (None, 2), (False, 0)):
        await take_leases(compute, ["h1", "h2"], replace(agent, keeps_disks=keeps_disks))
        assert await value(compute, "SELECT count(*) FROM compute.host WHERE keeps_disks") == hosts_with_disks


async def test_a_host_is_alive_while_its_agent_is(compute: Compute) -> None:
    agent = identity()
    await take_leases(compute, ["h1", "h2"], agent)
    for _ in range(3):
        await pass_time(compute, 20)
        assert await look_for_silent(compute) == []
        await take_leases(compute, ["h1", "h2"], agent)
    assert await list_quiet_hosts(compute) == {"h3"}
    [h1, *_] = await list_hosts(compute)
    assert h1.seen_at is not None
    assert await value(compute, "SELECT now() - $1 < interval '5 s'", h1.seen_at), "what the API shows"
    await pass_time(compute, 20)
    assert await list_quiet_hosts(compute) == {"h1", "h2", "h3"}
    await pass_time(compute, 11)
    assert await look_for_silent(compute) == ["h1", "h2"]
    assert await value(compute, "SELECT hosts_digest IS NULL FROM compute.agent")
    assert (await take_leases(compute, ["h1", "h2"], agent)).hosts_held == {"h1", "h2"}
    assert await value(compute, "SELECT count(*) FROM compute.host WHERE NOT silent") == 2


CHANGES = {
    "another agent takes it": "UPDATE compute.host SET agent_id = gen_random_uuid() WHERE name = 'h1'",
    "it is released": "UPDATE compute.host SET agent_id = NULL WHERE name = 'h1'",
    "it is silent": "UPDATE compute.host SET silent = true WHERE name = 'h1'",
    "it is deleted": "DELETE FROM compute.host WHERE name = 'h1'",
}


@pytest.mark.parametrize("sql", CHANGES.values(), ids=CHANGES)
async def test_whoever_takes_a_host_from_an_agent_has_its_next_poll_read_its_hosts(compute: Compute, sql: str) -> None:
    await take_leases(compute, ["h1", "h2"], identity())
    assert await value(compute, "SELECT hosts_digest IS NOT NULL FROM compute.agent")
    await value(compute, "UPDATE compute.host SET updated_at = now(), wanted = wanted + 1 RETURNING 1")
    assert await value(compute, "SELECT hosts_digest IS NOT NULL FROM compute.agent"), "other changes are none of it"
    await value(compute, sql)
    assert await value(compute, "SELECT hosts_digest IS NULL FROM compute.agent WHERE id = $1", AGENT.id)


async def test_a_host_that_was_deleted_is_missed_by_the_next_poll(compute: Compute) -> None:
    await take_leases(compute, ["h1", "h2"], identity())
    await value(compute, "DELETE FROM compute.host WHERE name = 'h1'")
    with pytest.raises(NotFound, match="h1"):
        await poll(compute, identity())


async def test_a_note_of_silence_and_the_poll_that_it_has_not_seen(compute: Compute) -> None:
    """R43: whichever has the agent's row first, no host of an agent that was just told that it holds is silent."""
    agent = identity()
    await take_leases(compute, ["h1", "h2"], agent)
    await pass_time(compute, 40)
    async with compute.database.transaction() as tx:
        heard = await agent_rows.hear_agents(
            tx, [poll_of(agent, ["h1", "h2"], lease_length_s=LEASE_S)], renew_after_s=3
        )
        assert heard[0].renewed
        looking = asyncio.create_task(look_for_silent(compute))
        while not await value(compute, LOCKS_WAITED_FOR):
            await asyncio.sleep(0.01)
    assert await looking == []
    assert await value(compute, "SELECT count(*) FROM compute.host WHERE NOT silent") == 2
    await pass_time(compute, 40)
    async with compute.database.transaction() as tx:
        assert await host_rows.note_silent_hosts(tx, silent_after_s=29) == ["h1", "h2"]
        polling = asyncio.create_task(take_leases(compute, ["h1", "h2"], agent))
        while not await value(compute, LOCKS_WAITED_FOR):
            await asyncio.sleep(0.01)
    assert (await polling).hosts_held == {"h1", "h2"}
    assert await value(compute, "SELECT count(*) FROM compute.host WHERE NOT silent") == 2


async def test_a_digest_is_not_written_over_a_change_that_it_has_not_seen(compute: Compute) -> None:
    """R43: the change has the agent's row, although there is no digest on it that it could take away."""
    agent = identity()
    await take_leases(compute, ["h1", "h2"], agent)
    await value(compute, "UPDATE compute.agent SET hosts_digest = NULL RETURNING 1")
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.host SET agent_id = NULL WHERE name = 'h1'")
        settling = asyncio.create_task(settle_polls(compute, [poll_of(agent, ["h1", "h2"], lease_length_s=LEASE_S)]))
        while not settling.done() and not await value(compute, LOCKS_WAITED_FOR):
            await asyncio.sleep(0.01)
    await settling
    assert await value(compute, "SELECT hosts_digest IS NULL FROM compute.agent WHERE id = $1", AGENT.id)


async def test_hosts_that_an_agent_does_not_ask_for_any_more_are_released(compute: Compute) -> None:
    agent = identity()
    await take_leases(compute, ["h1", "h2"], agent)
    await pass_time(compute, 20)
    await take_leases(compute, ["h1", "h2"], agent)
    await take_leases(compute, ["h1"], agent)
    assert await value(compute, HOSTS_OF_AGENT, AGENT.id) == ["h1"]
    assert await list_quiet_hosts(compute) == {"h3"}, "it was heard of until then"
    assert (await take_leases(compute, ["h1"], agent)).hosts_held == {"h1"}
    assert await value(compute, "SELECT hosts_digest IS NOT NULL FROM compute.agent")


async def test_a_release_keeps_what_was_promised_with_the_last_lease(compute: Compute) -> None:
    agent = replace(identity(), fence_after_s=120.0)
    await take_leases(compute, ["h1", "h2"], agent)
    await pass_time(compute, 20)
    await value(compute, "UPDATE compute.host SET promised_at = seen_at RETURNING 1")
    await take_leases(compute, ["h1", "h2"], agent)
    await release_leases(compute, agent)
    assert await value(
        compute, "SELECT bool_and(promised_at = seen_at AND seen_at > now() - interval '5 s') FROM compute.host"
        " WHERE name <> 'h3'"
    )  # fmt: skip


async def test_a_promise_counts_from_the_last_lease_and_not_from_the_hosts_row(compute: Compute) -> None:
    agent = replace(identity(), fence_after_s=120.0)
    await take_leases(compute, ["h1"], agent)
    await value(compute, "UPDATE compute.host SET silent = true, seen_at = seen_at - interval '1 h',"
        " promised_at = promised_at - interval '1 h' WHERE name = 'h1' RETURNING 1")  # fmt: skip
    async with compute.database.connection() as connection:
        judge = {"lease_length_s": 30, "margin": 1.1, "listened_s": 3600}
        assert await host_rows.note_promises_kept(connection, **judge) == []
        await connection.execute("UPDATE compute.agent SET seen_at = seen_at - interval '200 s'")
        assert await host_rows.note_promises_kept(connection, **judge) == ["h1"]


async def test_a_lease_of_another_length_is_noted_though_the_agent_was_just_heard(compute: Compute) -> None:
    agent = replace(identity(), fence_after_s=120.0)
    for lease_length_s in (600.0, 30.0, 600.0):
        compute.settings = ComputeSettings(host_down_after_s=lease_length_s)
        assert (await take_leases(compute, ["h1", "h2"], agent)).hosts_held == {"h1", "h2"}
        assert await value(compute, LEASE_LENGTHS) == [lease_length_s, lease_length_s]
    await release_leases(compute, agent)
    assert await value(compute, LEASE_LENGTHS) == [600.0, 600.0]


@pytest.mark.parametrize("lease_length_s", [600.0, None], ids=["noted", "only the release before gave it"])
async def test_a_promise_runs_from_the_end_of_the_lease_with_which_it_was_told(
    compute: Compute, lease_length_s: float | None
) -> None:
    await take_leases(compute, ["h1"], replace(identity(), fence_after_s=120.0))
    await pass_time(compute, 200)
    await value(compute, "UPDATE compute.host SET silent = true, promised_at = seen_at, lease_length_s = $1"
        " WHERE name = 'h1' RETURNING 1", lease_length_s)  # fmt: skip
    judge = {"lease_length_s": 30, "margin": 1.1, "listened_s": 3600}
    async with compute.database.connection() as connection:
        due = await host_rows.note_promises_kept(connection, **judge)
        assert due == ([] if lease_length_s else ["h1"])
    await pass_time(compute, 540)
    await value(compute, "UPDATE compute.host SET promised_at = seen_at WHERE name = 'h1' RETURNING 1")
    async with compute.database.connection() as connection:
        assert await host_rows.note_promises_kept(connection, **{**judge, "listened_s": 731}) == []
        assert await host_rows.note_promises_kept(connection, **judge) == (["h1"] if lease_length_s else [])


async def test_two_starts_of_one_agent_are_both_refused_until_one_is_alone(compute: Compute) -> None:
    first, second = identity(FIRST), identity(SECOND)
    await poll(compute, first)
    await poll(compute, second)  # a restart: it does not wait
    for agent in (first, second, first):
        with pytest.raises(AgentRefused, match=r"two of this agent run: start 2.* and start 1") as refused:
            await poll(compute, agent)
        assert refused.value.retry_after_s == LEASE_S
        for call in (
            report(compute, [GuestReport(server_id=FIRST, host="h1", attempt=1, state="absent")], agent=agent),
            compare_guests(compute, GuestsBody(agent=agent, guests=(), as_of=0.0)),
            release_leases(compute, agent),
            register_hosts(compute, [HostReport(name="h1", vcpus=1, ram_mb=1, disk_gb=1)], agent=agent),
        ):
            with pytest.raises(AgentRefused):
                await call
    async with compute.database.connection() as connection:
        [clash] = await agent_rows.list_clashes(connection, lease_s=LEASE_S)
    assert (clash.label, clash.former_label) == ("start 2", "start 1")
    for _ in range(2):
        await pass_time(compute, 20)
        if await value(compute, "SELECT former_at > now() - interval '30 s' FROM compute.agent"):
            with pytest.raises(AgentRefused):
                await poll(compute, second)
    await poll(compute, second)
    async with compute.database.connection() as connection:
        assert await agent_rows.list_clashes(connection, lease_s=LEASE_S) == []
    with pytest.raises(AgentRefused):
        await poll(compute, first)


async def test_nobody_speaks_for_an_agent_without_its_secret(compute: Compute) -> None:
    await poll(compute, identity(), "h1", "h2")
    for secret in ("", WRONG):
        for boot_id in (FIRST, SECOND, None):
            thief = identity(boot_id, secret)
            for call in (
                poll(compute, thief),
                report(compute, [GuestReport(server_id=FIRST, host="h1", attempt=1, state="absent")], agent=thief),
                compare_guests(compute, GuestsBody(agent=thief, guests=(), as_of=0.0)),
                release_leases(compute, thief),
                register_hosts(compute, [HostReport(name="h1", vcpus=1, ram_mb=1, disk_gb=1)], agent=thief),
            ):
                with pytest.raises(AgentRefused, match="secret") as refused:
                    await call
                assert AGENT.id not in str(refused.value)
    assert await value(compute, HOSTS_OF_AGENT, AGENT.id) == ["h1", "h2"]
    assert await value(compute, "SELECT boot_id::text FROM compute.agent") == FIRST


async def test_an_agent_of_version_4_is_served_by_its_id_until_it_brings_a_secret(compute: Compute) -> None:
    old = identity(None, "")
    await poll(compute, old)
    await poll(compute, replace(old, label="restarted"))
    await poll(compute, identity())
    with pytest.raises(AgentRefused, match="brings no secret"):
        await poll(compute, old)


async def test_the_first_lease_stores_the_secret(compute: Compute) -> None:
    await register_hosts(compute, [HostReport(name="h9", vcpus=1, ram_mb=1, disk_gb=1)], agent=identity())
    assert await value(compute, "SELECT secret_sha256 FROM compute.agent") == hash_secret(SECRET)


async def test_an_agent_with_guests_is_not_served_under_another_hosts_name(compute: Compute) -> None:
    (server,) = await order_guests(compute, ["h1"])
    await poll(compute, identity(FIRST), "h1")
    await report(compute, [GuestReport(server_id=server, host="h1", attempt=1, state="begun")], agent=identity(FIRST))
    for _ in range(2):
        with pytest.raises(AgentRefused, match="has guests on h1, which it does not name: name them too"):
            await poll(compute, identity(SECOND), "h2")
    assert await value(compute, HOSTS_OF_AGENT, AGENT.id) == ["h1"]
    await release_leases(compute, identity(FIRST))
    with pytest.raises(AgentRefused, match="has guests on h1"):
        await poll(compute, identity(SECOND), "h2")
    await poll(compute, identity(SECOND), "h1", "h2")
    assert await value(compute, HOSTS_OF_AGENT, AGENT.id) == ["h1", "h2"]
    await value(compute, "DELETE FROM compute.guest RETURNING 1")
    await poll(compute, identity(THIRD), "h2")
    assert await value(compute, HOSTS_OF_AGENT, AGENT.id) == ["h2"]


async def test_polls_of_many_agents_are_heard_together(compute: Compute, statements: Any) -> None:
    agents = [replace(identity(), id=f"c0000000-0000-0000-0000-{number:012}") for number in range(3)]
    requests = [LeaseRequest((f"h{number + 1}",), agent) for number, agent in enumerate(agents)]
    await renew_leases(compute, requests)
    with statements() as seen:
        answers = await renew_leases(compute, requests)
    assert seen == ["compute.hear_agents"]
    assert [answer.hosts_held for answer in answers] == [{"h1"}, {"h2"}, {"h3"}]  # type: ignore[union-attr]


async def test_hosts_that_are_declared_are_read_when_they_change(compute: Compute) -> None:
    polls = Polls(compute)
    everywhere = {"busy": [], "wait_s": 0}

    async def hosts() -> list[str]:
        await polls.poll(None, agent=identity(), **everywhere)  # type: ignore[arg-type]
        return list(await value(compute, HOSTS_OF_AGENT, AGENT.id))

    assert await hosts() == ["h1", "h2", "h3"]
    declared = polls._declared
    assert await hosts() == ["h1", "h2", "h3"]
    assert polls._declared is declared
    await declare_hosts(compute.database, ["h4"])
    assert await hosts() == ["h1", "h2", "h3", "h4"]
    await value(compute, "DELETE FROM compute.host WHERE name = 'h1'")
    assert await hosts() == ["h2", "h3", "h4"]
    await value(compute, "UPDATE compute.host SET declared = false WHERE name = 'h2' RETURNING 1")
    assert await hosts() == ["h3", "h4"]
