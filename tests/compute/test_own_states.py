"""What guests do by themselves: a table of every case, then what follows in the database."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from tests.agent.cloud import AGENT, compute_of, declare_hosts, order_guests, take_leases
from tests.compute.reporting import report

from roost.compute.model.server import ActionFilter, Requester
from roost.compute.model.work import Guest, ServerStanding, Stage, WorkState
from roost.compute.rules import actions as rules
from roost.compute.rules.guests import ReportOutcome, decide_reports, find_report_refusal
from roost.compute.rules.own_states import (
    OwnState,
    decide_own_states,
    guest_of_report,
    judge,
    list_differing,
    list_replugged,
)
from roost.compute.service import Compute
from roost.compute.service.actions import change_power, get_action, list_actions
from roost.compute.service.guests import compare_guests
from roost.compute.service.servers import get_server
from roost.platform.database import Database
from roost.seams.agent import GuestReport, GuestsBody, ListedGuest, Refusal

SERVER = "11111111-1111-1111-1111-111111111111"
FLAVOR = '{"id": "1", "name": "small", "vcpus": 1, "ram_mb": 512, "disk_gb": 1}'
BY = Requester(request_id="req-1", project_id="p", user_id="u")
STATES = ("running", "paused", "stopped", "suspended", "incoming", "absent")
ROW = Guest(
    server_id=SERVER, host="h1", attempt=1, desired="running", reported="running", agent_id=AGENT.id, sequence=7
)
STANDING = ServerStanding(id=SERVER, status="ACTIVE", task_state=None, host="h1")
PAIRS = list(itertools.product(STATES, STATES))
NOTHING, ENDED, UNDONE, REPEATED = OwnState.NOTHING, OwnState.ENDED, OwnState.UNDONE, OwnState.REPEATED


def said(state: Any, *, sequence: int = 8, resume: bool = False, **fields: Any) -> ListedGuest:
    power_state = {"stopped": "shutdown", "absent": None, "incoming": None}.get(state, state)
    defaults = {"server_id": SERVER, "host": "h1", "attempt": 1, "power_state": power_state}
    return ListedGuest(state=state, sequence=sequence, resume=resume, **(defaults | fields))


def work(stage: Stage, *, moving: bool = False) -> WorkState:
    return WorkState(server_id=SERVER, stage=stage, attempt=1, deleting=False, moving=moving)


# What is desired, and was reported -> what the guest is -> what that means while nothing is done to the server, or
# something is.
QUIET = {
    ("running", "paused"): UNDONE, ("running", "stopped"): ENDED, ("running", "suspended"): UNDONE,
    ("paused", "running"): UNDONE, ("paused", "stopped"): ENDED, ("paused", "suspended"): UNDONE,
    ("stopped", "running"): UNDONE, ("stopped", "paused"): UNDONE, ("stopped", "suspended"): UNDONE,
    ("suspended", "running"): UNDONE, ("suspended", "paused"): UNDONE, ("suspended", "stopped"): ENDED,
}  # fmt: skip
BUSY = dict.fromkeys(itertools.product(("stopped", "suspended"), ("running", "paused")), REPEATED)
AT_WORK: list[dict[str, Any]] = [
    {"server": replace(STANDING, task_state="rebooting")},
    {"server": replace(STANDING, task_state="deleting")},
    {"server": replace(STANDING, status="VERIFY_RESIZE")},
    {"server": replace(STANDING, host="h2")},
    {"server": None},
    *({"work": work(stage)} for stage in Stage if stage is not Stage.SETTLE),
    {"work": work(Stage.SETTLE, moving=True)},
]


@pytest.mark.parametrize(
    ("listed", "reported", "version", "is_asked"),
    [(2, 2, 2, False), (1, 2, 2, True), (3, 2, 2, True), (1, 1, 2, False), (2, 1, 2, False), (None, 2, 2, False)],
)
def test_a_guest_that_lists_other_nics_than_were_reported_is_asked_for_unless_it_is_already(
    listed: int | None, reported: int, version: int, is_asked: bool
) -> None:
    row = replace(ROW, nics_reported=reported, nics_version=version)
    guest = said("running", nics_version=listed)
    assert list_replugged([guest], [row]) == ({SERVER} if is_asked else set())
    assert list_replugged([replace(guest, attempt=2)], [row]) == set()
    assert list_replugged([guest], []) == set()


@pytest.mark.parametrize(("desired", "state"), PAIRS)
def test_each_state_of_a_guest_that_is_to_be_in_each_state(desired: str, state: str) -> None:
    row, guest = replace(ROW, desired=desired, reported=desired), said(state)
    for around in ({"work": None}, {"work": work(Stage.SETTLE)}):
        assert judge(row, guest, server=STANDING, **around) is QUIET.get((desired, state), NOTHING)
    for around in AT_WORK:
        arguments = {"server": STANDING, "work": None} | around
        assert judge(row, guest, **arguments) is BUSY.get((desired, state), NOTHING), around


@pytest.mark.parametrize(("desired", "state"), PAIRS)
@pytest.mark.parametrize(
    "row",
    [replace(ROW, reported=None), replace(ROW, reported="failed"), replace(ROW, lost=True), replace(ROW, fenced=True)],
)
def test_while_an_order_is_open_or_the_guest_is_lost_or_fenced_no_state_counts(
    row: Guest, desired: str, state: str
) -> None:
    lost_or_fenced = row.lost or row.fenced
    row = replace(row, desired=desired, reported=desired if lost_or_fenced else row.reported)
    assert judge(row, said(state), server=STANDING, work=None) is NOTHING


@pytest.mark.parametrize(("sequence", "counts"), [(6, False), (7, False), (8, True)])
@pytest.mark.parametrize("case", list(QUIET))
def test_a_state_counts_only_if_its_sequence_is_newer(case: tuple[str, str], sequence: int, counts: bool) -> None:
    row = replace(ROW, desired=case[0], reported=case[0])
    meaning = judge(row, said(case[1], sequence=sequence), server=STANDING, work=None)
    assert meaning is (QUIET[case] if counts else NOTHING)


@pytest.mark.parametrize(
    ("desired", "meaning"), [("running", UNDONE), ("paused", ENDED), ("suspended", ENDED), ("stopped", NOTHING)]
)
def test_what_the_hosts_restart_stopped_is_to_run_again_if_that_is_wanted(desired: str, meaning: OwnState) -> None:
    row = replace(ROW, desired=desired, reported=desired)
    assert judge(row, said("stopped", resume=True), server=STANDING, work=None) is meaning


def test_a_server_in_error_is_stopped_too_but_shows_nothing_of_what_is_asked_again() -> None:
    server = replace(STANDING, status="ERROR")
    assert judge(ROW, said("stopped"), server=server, work=None) is ENDED
    assert judge(ROW, said("paused"), server=server, work=None) is REPEATED


@pytest.mark.parametrize(
    ("fields", "held", "refusal"),
    [
        ({}, ["h1"], None),
        ({}, ["h2"], Refusal.NO_LEASE),
        ({"attempt": 0}, ["h1"], Refusal.SUPERSEDED),
        ({"attempt": 2}, ["h1"], Refusal.UNKNOWN),
        ({"host": "h2"}, ["h2"], Refusal.UNKNOWN),
    ],
)
def test_only_who_has_the_host_is_heard_and_only_of_this_attempt(
    fields: dict[str, Any], held: list[str], refusal: Refusal | None
) -> None:
    outcome = decide_own_states(
        [said("stopped", **fields)], agent_id=AGENT.id, hosts_held=held, guests=[ROW], servers=[STANDING], works=[]
    )
    assert [answer.refusal for answer in outcome.answers] == [refusal]
    assert bool(outcome.ended) is (refusal is None)


@pytest.mark.parametrize(
    ("row", "fields", "holds_host", "refusal"),
    [
        (ROW, {}, True, None),
        (ROW, {}, False, Refusal.NO_LEASE),
        (None, {}, True, Refusal.UNKNOWN),
        (None, {"state": "absent"}, True, None),
        (ROW, {"attempt": 0}, True, Refusal.SUPERSEDED),
        (ROW, {"attempt": 2}, True, Refusal.UNKNOWN),
        (ROW, {"attempt": 2, "state": "absent"}, True, None),
        (replace(ROW, desired="absent"), {"state": "begun"}, True, Refusal.UNKNOWN),
        (replace(ROW, agent_id="b"), {"state": "failed"}, True, Refusal.UNKNOWN),
        (replace(ROW, agent_id=None), {"state": "failed"}, True, None),
    ],
)
def test_which_report_is_refused_and_what_that_means(
    row: Guest | None, fields: dict[str, Any], holds_host: bool, refusal: Refusal | None
) -> None:
    report = replace(as_ordered("running", SERVER, 8), **fields)
    assert find_report_refusal(report, row, agent_id=AGENT.id, holds_host=holds_host)[0] is refusal


def test_of_a_list_only_what_differs_is_looked_at_again() -> None:
    rows = [ROW, replace(ROW, host="h2", reported="stopped")]
    listed = [said("running"), said("running", host="h2"), said("running", host="h3"), said(None)]
    assert list_differing(listed, rows) == [listed[1]]


@pytest.mark.parametrize(
    ("power_state", "state"), [("crashed", "stopped"), ("shutdown", "stopped"), ("paused", "paused"), (None, None)]
)
def test_a_report_of_its_own_says_what_a_list_would(power_state: Any, state: str | None) -> None:
    guest = guest_of_report(by_itself(power_state))
    assert (guest.state, guest.power_state, guest.sequence, guest.key) == (state, power_state, 8, (SERVER, "h1"))


def test_a_roost_without_own_states_takes_a_report_of_its_own_for_nothing() -> None:
    outcome = decide_reports([by_itself("shutdown")], agent_id=AGENT.id, hosts_held=["h1"], guests=[ROW], works=[])
    assert outcome == ReportOutcome(answers=outcome.answers)
    assert outcome.answers[0].accepted


@pytest.fixture
async def compute(database: Database) -> Compute:
    await declare_hosts(database, ["h1", "h2"])
    compute = compute_of(database)
    await take_leases(compute, ["h1", "h2"], AGENT)
    return compute


def by_itself(power_state: Any, server_id: str = SERVER, sequence: int = 8) -> GuestReport:
    return GuestReport(
        server_id=server_id, host="h1", attempt=1, state="unchanged", by_itself=True, power_state=power_state,
        sequence=sequence,
    )  # fmt: skip


def as_ordered(state: Any, server_id: str, sequence: int) -> GuestReport:
    return GuestReport(server_id=server_id, host="h1", attempt=1, state=state, sequence=sequence)


async def active_servers(compute: Compute, hosts: Sequence[str], *, sequence: int = 5) -> list[str]:
    servers = await order_guests(compute, hosts)
    reports = [
        GuestReport(server_id=server, host=host, attempt=1, state="running", sequence=sequence)
        for server, host in zip(servers, hosts, strict=True)
    ]
    assert all(answer.accepted for answer in await report(compute, reports, agent=AGENT))
    async with compute.database.connection() as connection:
        await connection.execute("DELETE FROM compute.work")
        await connection.execute("UPDATE compute.server SET flavor = $1", FLAVOR)
    return servers


async def list_to(compute: Compute, *guests: ListedGuest) -> None:
    async with compute.database.connection() as connection:
        as_of = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::double precision")
    assert await compare_guests(compute, GuestsBody(agent=AGENT, guests=guests, as_of=as_of)) == []


async def shown(compute: Compute, server_id: str) -> tuple[str, str | None, str | None]:
    server = await get_server(compute, server_id)
    return (server.status, server.task_state, server.power_state)


async def latest_event(compute: Compute, server_id: str) -> tuple[str, str, str | None]:
    """Return the last action of the server with its event and how that went."""
    server = await get_server(compute, server_id)
    (latest,) = await list_actions(compute, server, ActionFilter(), marker=None, limit=1)
    (event,) = (await get_action(compute, server, latest.request_id)).events
    return (latest.name, event.name, event.result)


@pytest.mark.parametrize(
    ("power_state", "event"), [("shutdown", "compute_stop_by_itself"), ("crashed", "compute_crash")]
)
@pytest.mark.parametrize("way", ["report", "list"])
async def test_a_guest_that_ended_has_its_server_stopped_and_can_be_started(
    compute: Compute, power_state: Any, event: str, way: str
) -> None:
    (server,) = await active_servers(compute, ["h1"])
    for _ in range(2):  # the second says nothing new
        if way == "report":
            (answer,) = await report(compute, [by_itself(power_state, server)], agent=AGENT)
            assert answer.accepted
        else:
            await list_to(compute, said("stopped", server_id=server, power_state=power_state))
        assert await shown(compute, server) == ("SHUTOFF", None, power_state)
        assert await latest_event(compute, server) == ("stop", event, "Success")
    assert (await get_server(compute, server)).has_crashed is (power_state == "crashed")
    await change_power(compute, server, rules.START, BY)
    assert (await get_server(compute, server)).has_crashed is (power_state == "crashed")
    await report(compute, [as_ordered("running", server, 9)], agent=AGENT)
    assert await shown(compute, server) == ("ACTIVE", None, None)


async def test_a_guest_that_runs_under_a_stopped_server_is_stopped_again(compute: Compute) -> None:
    (server,) = await active_servers(compute, ["h1"])
    await report(compute, [by_itself("shutdown", server)], agent=AGENT)
    await report(compute, [by_itself("running", server, 9)], agent=AGENT)
    assert await shown(compute, server) == ("SHUTOFF", "powering-off", "shutdown")
    assert await latest_event(compute, server) == ("stop", "compute_stop_again", None)
    await report(compute, [as_ordered("stopped", server, 10)], agent=AGENT)
    assert (await shown(compute, server))[:2] == ("SHUTOFF", None)
    assert await latest_event(compute, server) == ("stop", "compute_stop_again", "Success")


async def test_a_guest_that_its_host_cannot_make_what_it_was_has_its_server_say_what_it_is(compute: Compute) -> None:
    (server,) = await active_servers(compute, ["h1"])
    for own in (by_itself("shutdown", server), by_itself("running", server, 9)):
        await report(compute, [own], agent=AGENT)
    cannot = replace(as_ordered("unchanged", server, 9), desired="stopped", message="stuck")
    await report(compute, [cannot], agent=AGENT)
    assert (await shown(compute, server))[:2] == ("ACTIVE", None)
    assert await latest_event(compute, server) == ("stop", "compute_stop_again", "Error")


@pytest.mark.parametrize("way", ["by itself", "as ordered"])
async def test_a_list_that_was_made_before_an_order_was_done_changes_nothing(compute: Compute, way: str) -> None:
    """R45: the list says that the guest is stopped, which it was until it was started."""
    (server,) = await active_servers(compute, ["h1"])
    if way == "as ordered":
        await change_power(compute, server, rules.STOP, BY)
    stopped = by_itself("shutdown", server) if way == "by itself" else as_ordered("stopped", server, 8)
    await report(compute, [stopped], agent=AGENT)
    made_before = said("stopped", server_id=server, sequence=8)
    await change_power(compute, server, rules.START, BY)
    await list_to(compute, made_before)
    assert (await shown(compute, server))[:2] == ("SHUTOFF", "powering-on")
    await report(compute, [as_ordered("running", server, 9)], agent=AGENT)
    await list_to(compute, made_before)
    assert await shown(compute, server) == ("ACTIVE", None, None)


async def test_a_stop_and_a_reboot_that_were_ordered_are_not_by_itself(compute: Compute) -> None:
    (server,) = await active_servers(compute, ["h1"])
    await change_power(compute, server, rules.STOP, BY)
    await list_to(compute, said("stopped", server_id=server, sequence=6))
    assert await shown(compute, server) == ("ACTIVE", "powering-off", None)
    await report(compute, [as_ordered("stopped", server, 6)], agent=AGENT)
    assert await shown(compute, server) == ("SHUTOFF", None, None)
    assert (await latest_event(compute, server))[1] == "compute_stop_instance"
    await change_power(compute, server, rules.REBOOT_HARD, replace(BY, request_id="req-2"))
    (answer,) = await report(compute, [by_itself("shutdown", server, 7)], agent=AGENT)
    assert answer.refusal is Refusal.SUPERSEDED, "a reboot is another attempt"
    assert (await latest_event(compute, server))[1:] == ("compute_reboot_instance", None)


async def test_what_the_hosts_restart_stopped_is_started_again_by_its_host(compute: Compute) -> None:
    (server,) = await active_servers(compute, ["h1"])
    await list_to(compute, said("stopped", server_id=server, resume=True))
    assert await shown(compute, server) == ("ACTIVE", "powering-on", None)
    assert await latest_event(compute, server) == ("start", "compute_start_again", None)
    await report(compute, [as_ordered("running", server, 9)], agent=AGENT)
    assert await shown(compute, server) == ("ACTIVE", None, None)


@pytest.mark.parametrize(("ending", "lines"), [(3, 1), (2, 2)])
async def test_the_end_of_all_guests_of_a_host_is_one_event(compute: Compute, ending: int, lines: int) -> None:
    servers = await active_servers(compute, ["h1", "h1", "h1", "h2"])
    reports = [by_itself("shutdown", server) for server in servers[:ending]]
    with capture_logs() as logs:
        assert len(await report(compute, reports, agent=AGENT)) == ending
    warnings = [line for line in logs if line["log_level"] == "warning"]
    assert len(warnings) == lines
    assert (warnings[0].get("servers") == 3) is (ending == 3)
    for number, server in enumerate(servers):
        assert (await shown(compute, server))[0] == ("SHUTOFF" if number < ending else "ACTIVE")


async def test_of_several_words_on_one_guest_the_newest_counts(compute: Compute) -> None:
    (server,) = await active_servers(compute, ["h1"])
    words = [by_itself("crashed", server, 10), by_itself("running", server, 9), by_itself("shutdown", server, 8)]
    assert [answer.accepted for answer in await report(compute, words, agent=AGENT)] == [True] * 3
    assert await shown(compute, server) == ("SHUTOFF", None, "crashed")


async def test_another_agents_driver_begins_its_sequences_anew(compute: Compute) -> None:
    (server,) = await active_servers(compute, ["h1"], sequence=1000)
    other = replace(AGENT, id="b0000000-0000-0000-0000-00000000000b")
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.host SET silent = true")
    await take_leases(compute, ["h1"], other)
    async with compute.database.connection() as connection:
        as_of = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::double precision")
    listed = said("stopped", server_id=server, sequence=3)
    await compare_guests(compute, GuestsBody(agent=other, guests=(listed,), as_of=as_of))
    assert (await shown(compute, server))[0] == "SHUTOFF"
