import asyncio
import contextvars
import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.agent.cloud import AGENT, compute_of, declare_hosts, delete_servers, order_guests, take_leases
from tests.blocked import until_blocked
from tests.compute.reporting import report

from roost.compute.model.work import Failure, Guest, Stage, WorkState
from roost.compute.rules.guests import ReportOutcome, decide_reports, lost_guest_sentence, refuse_for_now
from roost.compute.service import Compute
from roost.compute.service.audit import GUESTS
from roost.compute.service.guests import Polls
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.platform.errors import NotFound
from roost.seams.agent import GuestOrder, GuestReport, OrderId, Refusal

SERVER = "11111111-1111-1111-1111-111111111111"
KEY = (SERVER, "h1")


def say(state: str, *, attempt: int = 2, server_id: str = SERVER, host: str = "h1") -> GuestReport:
    return GuestReport(server_id=server_id, host=host, attempt=attempt, state=state, message="no disk")


def decide(
    *states: str, attempt: int = 2, desired: str = "running", stage: Stage = Stage.LAUNCH,
    work_attempt: int = 2, deleting: bool = False, moving: bool = False,
) -> ReportOutcome:  # fmt: skip
    """What reports of `attempt` change while attempt 2 is in force on the host."""
    return decide_reports(
        [say(state, attempt=attempt) for state in states],
        agent_id=AGENT.id,
        hosts_held=["h1"],
        guests=[Guest(server_id=SERVER, host="h1", attempt=2, desired=desired)],
        works=[WorkState(server_id=SERVER, stage=stage, attempt=work_attempt, deleting=deleting, moving=moving)],
    )


def test_begin_is_confirmed_while_the_guest_is_desired() -> None:
    outcome = decide("begun")
    assert outcome.answers[0].accepted
    assert outcome.begun == {KEY}


def test_begin_is_refused_once_the_guest_is_to_be_absent() -> None:
    outcome = decide("begun", desired="absent")
    assert not outcome.answers[0].accepted
    assert outcome.answers[0].reason
    assert not outcome.begun


@pytest.mark.parametrize("state", ["begun", "running", "failed", "absent"])
def test_a_lower_attempt_changes_nothing(state: str) -> None:
    outcome = decide(state, attempt=1)
    assert not outcome.answers[0].accepted
    assert outcome == ReportOutcome(answers=outcome.answers)


@pytest.mark.parametrize("state", ["begun", "running", "failed"])
def test_an_attempt_that_was_never_ordered_changes_nothing(state: str) -> None:
    outcome = decide(state, attempt=3)
    assert not outcome.answers[0].accepted
    assert outcome == ReportOutcome(answers=outcome.answers)


@pytest.mark.parametrize(("state", "accepted"), [("begun", 0), ("running", 0), ("failed", 0), ("absent", 1)])
def test_without_an_order_only_absence_is_taken(state: str, accepted: int) -> None:
    outcome = decide_reports([say(state)], agent_id=AGENT.id, hosts_held=["h1"], guests=[], works=[])
    assert outcome.answers[0].accepted == bool(accepted)
    assert outcome == ReportOutcome(answers=outcome.answers)


@pytest.mark.parametrize(
    ("state", "said", "known", "unplugged"),
    [
        ("running", 3, 3, True),
        ("running", 2, 2, False),  # of an order before
        ("running", None, 3, True),  # its agent does not say, and has done what it was ordered
        ("paused", None, 1, False),
        ("paused", 3, 3, True),
        ("unchanged", 3, None, False),
        ("begun", 3, None, False),
    ],
)
def test_a_guest_has_the_nics_of_the_order_that_its_host_answers(
    state: Any, said: int | None, known: int | None, unplugged: bool
) -> None:
    outcome = decide_reports(
        [GuestReport(server_id=SERVER, host="h1", attempt=2, state=state, nics_version=said)],
        agent_id=AGENT.id,
        hosts_held=["h1"],
        guests=[
            Guest(
                server_id=SERVER, host="h1", attempt=2, desired="running", reported="running", nics_version=3,
                nics_reported=1,
            )
        ],
        works=[],
    )  # fmt: skip
    assert outcome.nics_versions == ({} if known is None else {KEY: known})
    assert outcome.unplugged == ({SERVER} if unplugged else set())


@pytest.mark.parametrize(("reported", "unplugged"), [(1, True), (3, False)])
def test_a_guest_that_is_gone_as_it_was_asked_to_has_no_nics(reported: int, unplugged: bool) -> None:
    guest = Guest(server_id=SERVER, host="h1", attempt=2, desired="absent", nics_version=3, nics_reported=reported)
    outcome = decide_reports([say("absent")], agent_id=AGENT.id, hosts_held=["h1"], guests=[guest], works=[])
    assert outcome.unplugged == ({SERVER} if unplugged else set())


@pytest.mark.parametrize(
    ("desired", "stage", "moving", "unchanged", "kept"),
    [
        ("stopped", None, False, True, False),
        ("stopped", Stage.SETTLE, False, True, False),
        ("paused", None, False, False, False),  # desired meanwhile
        ("stopped", Stage.STOP, True, False, True),
        ("stopped", Stage.RESTORE, True, False, False),
        ("stopped", Stage.LAUNCH, False, False, False),
    ],
)
def test_a_guest_that_its_host_cannot_change_ends_what_was_asked(
    desired: str, stage: Stage | None, moving: bool, unchanged: bool, kept: bool
) -> None:
    said = GuestReport(server_id=SERVER, host="h1", attempt=2, state="unchanged", message="no", desired="stopped")
    works = (
        [] if stage is None else [WorkState(server_id=SERVER, stage=stage, attempt=2, deleting=False, moving=moving)]
    )
    outcome = decide_reports(
        [said],
        agent_id=AGENT.id,
        hosts_held=["h1"],
        guests=[Guest(server_id=SERVER, host="h1", attempt=2, desired=desired, reported="running")],
        works=works,
    )
    failures = {SERVER: Failure(message="no", host="h1")}
    assert (outcome.unchanged, outcome.kept) == (failures if unchanged else {}, failures if kept else {})
    assert (outcome.states, outcome.moves_work) == ({}, kept)


@pytest.mark.parametrize(
    ("stage", "work_attempt", "deleting", "resumed"),
    [
        (Stage.STOP, 2, False, True),
        (Stage.SETTLE, 3, False, True),
        (Stage.CONFIRM, 3, False, True),
        (Stage.RESTORE, 3, False, True),
        (Stage.LAUNCH, 2, False, True),
        (Stage.COPY, 2, False, True),
        # The guest of an earlier attempt is the source's, or of a host that was given up.
        (Stage.LAUNCH, 3, False, False),
        (Stage.COPY, 3, False, False),
        (Stage.LAUNCH, 3, True, True),
    ],
)
def test_a_move_goes_on_with_the_guest_that_its_stage_waits_for(
    stage: Stage, work_attempt: int, deleting: bool, resumed: bool
) -> None:
    for state, desired in (("stopped", "stopped"), ("absent", "absent")):
        outcome = decide(state, desired=desired, stage=stage, work_attempt=work_attempt, deleting=deleting, moving=True)
        assert bool(outcome.resumed or outcome.retreats) is resumed


def test_a_running_guest_settles_its_launch() -> None:
    outcome = decide("running")
    assert (outcome.states, outcome.active) == ({KEY: "running"}, {SERVER: "h1"})


CASES: list[dict[str, Any]] = [
    {"desired": "absent"},
    {"deleting": True},
    {"work_attempt": 3},
    {"stage": Stage.DELETE},
    {"stage": Stage.SETTLE},
]


@pytest.mark.parametrize("case", CASES)
def test_a_running_guest_that_nobody_waits_for_is_noted_and_moves_nothing(case: dict[str, Any]) -> None:
    outcome = decide("running", **case)
    assert outcome.states == {KEY: "running"}
    assert not outcome.moves_work


@pytest.mark.parametrize(("state", "counts"), [("failed", True), ("absent", False)])
def test_a_launch_that_left_nothing_retreats(state: str, counts: bool) -> None:
    outcome = decide(state)
    assert outcome.gone == {KEY}
    assert outcome.retreats[SERVER].counts is counts
    assert outcome.retreats[SERVER].failure.host == "h1"
    assert outcome.retreats[SERVER].failure.message == "no disk"


@pytest.mark.parametrize("state", ["failed", "absent"])
@pytest.mark.parametrize("case", [{"stage": Stage.DELETE}, {"stage": Stage.FAIL}, {"deleting": True}])
def test_a_guest_that_is_gone_lets_the_delete_go_on(state: str, case: dict[str, Any]) -> None:
    outcome = decide(state, **case)
    assert (outcome.gone, outcome.resumed, outcome.retreats) == ({KEY}, {SERVER}, {})


def test_a_later_report_sees_what_an_earlier_one_changed() -> None:
    outcome = decide("begun", "running", "failed", "failed")
    assert [answer.accepted for answer in outcome.answers] == [True, True, True, True]
    assert (outcome.begun, outcome.states, outcome.gone, outcome.lost) == (set(), {}, set(), {KEY})
    assert (outcome.active, outcome.retreats) == ({SERVER: "h1"}, {})
    outcome = decide("begun", "failed", "failed")
    assert [answer.accepted for answer in outcome.answers] == [True, True, False]
    assert (outcome.begun, outcome.gone) == (set(), {KEY})


@pytest.fixture
async def compute(database: Database) -> Compute:
    await declare_hosts(database, ["h1", "h2"])
    compute = compute_of(database)
    await take_leases(compute, ["h1", "h2"], AGENT)
    return compute


async def poll(compute: Compute, hosts: list[str], busy: Sequence[OrderId] = ()) -> list[GuestOrder]:
    return list((await Polls(compute).poll(hosts, agent=AGENT, busy=busy, wait_s=0)).orders)


async def test_a_poll_gives_what_differs_and_leaves_out_what_is_busy(compute: Compute) -> None:
    one, two = await order_guests(compute, ["h1", "h2"])
    orders = await poll(compute, ["h1", "h2"])
    assert {(order.server_id, order.host, order.desired, order.ram_mb) for order in orders} == {
        (one, "h1", "running", 512),
        (two, "h2", "running", 512),
    }
    assert [order.server_id for order in await poll(compute, ["h1"])] == [one]
    busy = [order.id for order in await poll(compute, ["h1", "h2"])]
    assert await poll(compute, ["h1", "h2"], busy) == []
    await delete_servers(compute, [one])
    assert [order.desired for order in await poll(compute, ["h1", "h2"], busy)] == ["absent"]


async def test_a_held_poll_answers_when_an_order_comes(compute: Compute) -> None:
    held = asyncio.create_task(Polls(compute).poll(None, agent=AGENT, busy=[], wait_s=20))
    async with compute.database.connection() as connection:
        while await connection.fetchval("SELECT count(*) FROM compute.host WHERE seen_at IS NULL"):
            await asyncio.sleep(0)
    servers = await order_guests(compute, ["h2"])
    async with asyncio.timeout(1.5):  # before it would have looked again by itself
        assert [order.server_id for order in (await held).orders] == servers


async def test_a_poll_names_the_hosts_that_do_not_exist(compute: Compute) -> None:
    with pytest.raises(NotFound, match="h7, h8"):
        await poll(compute, ["h1", "h7", "h8"])


async def test_reports_are_written_once_however_often_they_are_sent(compute: Compute) -> None:
    (server,) = await order_guests(compute, ["h1"], attempt=2)
    for _ in range(2):
        assert (await report(compute, [say("begun", server_id=server)], agent=AGENT))[0].accepted
    for accepted in (True, False):
        assert (await report(compute, [say("failed", server_id=server)], agent=AGENT))[0].accepted is accepted
    async with compute.database.connection() as connection:
        work = await connection.fetchrow("SELECT * FROM compute.work")
        assert (work["stage"], work["failures"], work["excluded_hosts"]) == ("retry", 1, ["h1"])
        assert json.loads(work["failure"])["message"] == "no disk"
        assert await connection.fetchval("SELECT count(*) FROM compute.guest") == 0


async def test_two_agents_that_report_at_once_move_the_work_once(compute: Compute) -> None:
    servers = await order_guests(compute, ["h1", "h2"] * 20, attempt=2)
    hosts = ["h1", "h2"] * 20
    said = [say("failed", server_id=server, host=host) for server, host in zip(servers, hosts, strict=True)]
    answers = await asyncio.gather(report(compute, said, agent=AGENT), report(compute, said[::-1], agent=AGENT))
    assert sum(answer.accepted for answered in answers for answer in answered) == 40
    async with compute.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM compute.work WHERE failures = 1") == 40


@pytest.mark.parametrize("states", [["begun"], ["running", "failed", "absent"]])
async def test_a_set_of_reports_costs_the_same_statements_at_any_size(dsn: str, states: list[str]) -> None:
    database = await Database.open(dsn, size=1)
    try:
        await declare_hosts(database, ["h1"])
        await take_leases(compute_of(database), ["h1"], AGENT)
        counts = []
        for size in (1, 1, 100):  # the first also asks for types
            statements: list[Any] = []
            servers = {state: await order_guests(compute_of(database), ["h1"] * size, attempt=2) for state in states}
            said = [say(state, server_id=server) for state in states for server in servers[state]]
            async with database.connection() as connection:
                connection.add_query_logger(statements.append)
            await report(compute_of(database), said, agent=AGENT)
            async with database.connection() as connection:
                connection.remove_query_logger(statements.append)
            counts.append(len(statements))
        assert counts[1] == counts[2]
        assert 0 < counts[1] <= 12
    finally:
        await database.close()


async def test_an_audit_that_waits_for_a_guest_holds_none_that_comes_after_it(compute: Compute) -> None:
    """All lock guests in the order of their servers: an audit that did not could make a conductor give way."""
    first, last = (f"{n}{SERVER[1:]}" for n in (2, 3))
    async with compute.database.transaction() as tx:
        for server in (last, first):
            await tx.execute("INSERT INTO compute.guest VALUES ($1, 'h1', 1, 'running')", server)
    async with compute.database.transaction() as tx:
        await tx.execute("SELECT FROM compute.guest WHERE server_id = $1 FOR UPDATE", first)
        auditing = asyncio.create_task(GUESTS.run(compute, repairs=Repairs.ALL), context=contextvars.Context())
        await until_blocked(compute.database, 1)
        await tx.execute("SELECT FROM compute.guest WHERE server_id = $1 FOR UPDATE NOWAIT", last)
    assert [(drift.key, drift.repaired) for drift in await auditing] == [(first, True), (last, True)]
    async with compute.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM compute.guest WHERE desired = 'absent'") == 2


def test_a_fault_names_the_host_that_lost_its_guest() -> None:
    assert lost_guest_sentence("h1") == "its guest is gone from host h1"


def test_a_report_that_is_refused_for_now_is_made_again() -> None:
    answer = refuse_for_now(say("running"))
    assert (answer.server_id, answer.host, answer.accepted, answer.refusal) == (SERVER, "h1", False, Refusal.NO_LEASE)
    assert "went back in time" in answer.reason
