"""Who serves a host, and what a list of guests means: the rules, and the same on the database."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.agent.cloud import AGENT, compute_of, declare_hosts, delete_servers, order_guests, take_leases
from tests.compute.reporting import report

from roost.compute.errors import HostHeld
from roost.compute.model.cloud import HostLease
from roost.compute.model.work import Guest
from roost.compute.rules.agent_tokens import HostPatterns
from roost.compute.rules.drift import GUEST_MISSING, GUEST_UNKNOWN
from roost.compute.rules.guests import GuestList, decide_guest_list, decide_reports
from roost.compute.rules.leases import list_held_elsewhere
from roost.compute.service import Compute
from roost.compute.service.audit import GUESTS
from roost.compute.service.guests import Polls, compare_guests
from roost.compute.service.hosts import register_hosts
from roost.compute.service.leases import (
    LeaseRequest,
    Renewed,
    release_leases,
    renew_leases,
)
from roost.compute.settings import ComputeSettings
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.platform.errors import NotFound
from roost.seams.agent import (
    AgentIdentity,
    GuestAttempt,
    GuestKey,
    GuestReport,
    GuestsBody,
    HostReport,
    ListedGuest,
    Refusal,
)

OTHER = AgentIdentity(id="b0000000-0000-0000-0000-00000000000b", label="the other")
SERVER = "11111111-1111-1111-1111-111111111111"
KEY = (SERVER, "h1")
SINCE = datetime(2026, 1, 2, tzinfo=UTC)
NOW_S = 100.0
BY_THE_OTHER = "host h1 is served by agent the other since 2026-01-02T00:00:00+00:00"


@pytest.mark.parametrize("down_after_s", [1.0, 3.0, 30.0, 300.0])
def test_a_poll_is_held_for_less_than_a_lease_is_trusted(down_after_s: float) -> None:
    settings = ComputeSettings(host_down_after_s=down_after_s)
    assert settings.poll_wait_max_s + settings.heard_again_s < settings.lease_s < down_after_s - settings.look_s


@pytest.mark.parametrize(
    ("holder", "held", "heard_s", "sentence"),
    [
        (AGENT, True, None, None),
        (AGENT, False, None, "host h1 is served by agent that came at the same time since just now"),
        (OTHER, False, None, BY_THE_OTHER),
        (OTHER, False, 6.4, f"{BY_THE_OTHER}, whose lease ends in 24 s unless it is renewed"),
        (OTHER, False, 31.0, f"{BY_THE_OTHER}, whose lease ends in 0 s unless it is renewed"),
        (None, True, None, None),
        (None, False, None, "host h1 is served by agent that came at the same time since just now"),
    ],
)
def test_a_host_that_another_agent_holds_is_named(
    holder: AgentIdentity | None, held: bool, heard_s: float | None, sentence: str | None
) -> None:
    lease = HostLease(host="h1", taken=held, holder=holder, since=SINCE, heard_s=heard_s)
    elsewhere = list_held_elsewhere([lease], AGENT, host_down_after_s=30)
    assert [item.sentence() for item in elsewhere] == ([sentence] if sentence else [])


def guest(**changes: Any) -> Guest:
    """A guest that AGENT has run since 50 s."""
    fields = {"agent_id": AGENT.id, "reported": "running", "since_s": 50.0, "attempt": 2, "desired": "running"}
    return Guest(server_id=SERVER, host="h1", **{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "lost"),
    [
        (guest(desired="absent", agent_id=None), False),  # its order goes to whoever serves the host
        (guest(), True),
        (guest(since_s=NOW_S), False),  # it may have been reported after the list was made
        (guest(desired="absent"), False),
        (guest(lost=True), False),
        (guest(reported=None), False),  # its launch is at work
        (guest(reported=None, agent_id=None), False),  # nobody has begun
        (guest(agent_id=None), True),
    ],
)
def test_what_runs_and_is_not_listed_is_lost(row: Guest, lost: bool) -> None:
    outcome = decide_guest_list([], agent_id=AGENT.id, as_of_s=NOW_S, guests=[row], attempts_by_server={SERVER: 2})
    assert outcome == GuestList(lost=frozenset([KEY] if lost else []))


@pytest.mark.parametrize(
    ("row", "agents_alive", "expected"),
    [
        (guest(agent_id=OTHER.id), (), {"lost": [KEY], "disowned": [KEY]}),
        (guest(agent_id=OTHER.id), (OTHER.id,), {"lost": [KEY]}),
        (guest(agent_id=OTHER.id, lost=True), (), {"disowned": [KEY]}),
        (guest(agent_id=OTHER.id, reported=None), (), {"lost": [KEY], "disowned": [KEY]}),  # begun by a former agent
        (guest(agent_id=OTHER.id, desired="absent"), (), {"gone": [KEY]}),
        (guest(agent_id=OTHER.id, desired="absent"), (OTHER.id,), {}),
        (guest(agent_id=OTHER.id, desired="absent", fenced=True), (), {"gone": [KEY]}),
    ],
)
def test_what_a_former_agent_had_and_the_host_has_not_is_nobodys_unless_that_agent_is_alive(
    row: Guest, agents_alive: tuple[str, ...], expected: dict[str, list[GuestKey]]
) -> None:
    outcome = decide_guest_list(
        [], agent_id=AGENT.id, as_of_s=NOW_S, guests=[row], attempts_by_server={}, agents_alive=agents_alive
    )
    assert outcome == GuestList(**{name: frozenset(keys) for name, keys in expected.items()})
    assert outcome.changes_guests == bool(outcome.keys_changed) == bool(expected)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (guest(), {}),
        (guest(agent_id=OTHER.id), {"adopted": frozenset([KEY]), "begun": frozenset([KEY])}),
        (guest(agent_id=None, reported=None), {"adopted": frozenset([KEY]), "begun": frozenset([KEY])}),
        (guest(lost=True), {"found_again": frozenset([KEY])}),
    ],
)
def test_what_is_listed_is_the_listing_agents(row: Guest, expected: dict[str, Any]) -> None:
    listed = [ListedGuest(server_id=SERVER, host="h1", attempt=2)]
    outcome = decide_guest_list(listed, agent_id=AGENT.id, as_of_s=NOW_S, guests=[row], attempts_by_server={SERVER: 2})
    assert outcome == GuestList(**expected)


@pytest.mark.parametrize(
    ("attempt_listed", "row", "attempt_known", "superseded"),
    [
        (1, None, 2, True),  # the server is elsewhere by now
        (2, None, 2, False),  # the database was restored: it knows this attempt on another host
        (3, None, 2, False),
        (3, None, None, False),  # a server that is not known at all
        (1, guest(), 2, True),  # made anew on the same host
        (2, guest(fenced=True, desired="absent"), 2, True),  # evacuated while its host was away
        (3, guest(), 2, False),
    ],
)
def test_only_a_higher_attempt_proves_that_a_guest_is_no_longer_wanted(
    attempt_listed: int, row: Guest | None, attempt_known: int | None, superseded: bool
) -> None:
    listed = ListedGuest(server_id=SERVER, host="h1", attempt=attempt_listed)
    outcome = decide_guest_list(
        [listed],
        agent_id=AGENT.id,
        as_of_s=NOW_S,
        guests=[] if row is None else [row],
        attempts_by_server={} if attempt_known is None else {SERVER: attempt_known},
    )
    assert outcome == (GuestList(superseded=(listed,)) if superseded else GuestList(unknown=(listed,)))


@pytest.mark.parametrize(
    ("state", "row", "hosts_held", "refusal"),
    [
        ("running", guest(), [], Refusal.NO_LEASE),
        ("absent", None, [], Refusal.NO_LEASE),
        ("running", guest(attempt=3), ["h1"], Refusal.SUPERSEDED),
        ("running", guest(attempt=1), ["h1"], Refusal.UNKNOWN),
        ("running", None, ["h1"], Refusal.UNKNOWN),
        ("absent", guest(desired="absent", agent_id=OTHER.id), ["h1"], Refusal.UNKNOWN),
        ("failed", guest(desired="absent", agent_id=OTHER.id), ["h1"], Refusal.UNKNOWN),
        ("absent", guest(desired="absent"), ["h1"], None),
        ("absent", guest(desired="absent", agent_id=None), ["h1"], None),
    ],
)
def test_a_refusal_says_what_it_means_for_the_guest(
    state: str, row: Guest | None, hosts_held: list[str], refusal: Refusal | None
) -> None:
    said = GuestReport(server_id=SERVER, host="h1", attempt=2, state=state)
    guests = [] if row is None else [row]
    outcome = decide_reports([said], agent_id=AGENT.id, hosts_held=hosts_held, guests=guests, works=[])
    assert outcome.answers[0].refusal is refusal
    assert bool(outcome.answers[0].reason) is (refusal is not None)


def test_absence_that_nobody_asked_for_loses_the_guest_and_frees_nothing() -> None:
    said = GuestReport(server_id=SERVER, host="h1", attempt=2, state="absent")
    outcome = decide_reports([said], agent_id=AGENT.id, hosts_held=["h1"], guests=[guest()], works=[])
    assert (outcome.gone, outcome.lost, outcome.moves_work) == (set(), {KEY}, False)


@pytest.fixture
async def compute(database: Database) -> Compute:
    await declare_hosts(database, ["h1", "h2"])
    return compute_of(database)


async def pass_time(compute: Compute, host: str) -> None:
    """The host fell silent."""
    async with compute.database.connection() as connection:
        await connection.execute("UPDATE compute.host SET silent = true WHERE name = $1", host)


async def value(compute: Compute, sql: str, *arguments: Any) -> Any:
    async with compute.database.connection() as connection:
        return await connection.fetchval(sql, *arguments)


async def running_server(compute: Compute, agent: AgentIdentity = AGENT, host: str = "h1") -> str:
    """An ACTIVE server whose guest the agent runs."""
    (server,) = await order_guests(compute, [host])
    await take_leases(compute, [host], agent)
    (answer,) = await report(
        compute, [GuestReport(server_id=server, host=host, attempt=1, state="running")], agent=agent
    )
    assert answer.accepted
    async with compute.database.connection() as connection:
        await connection.execute("DELETE FROM compute.work")
    return server


async def list_guests(compute: Compute, agent: AgentIdentity, *listed: ListedGuest) -> list[GuestAttempt]:
    renewed = await take_leases(compute, ["h1"], agent)
    as_of = await value(compute, "SELECT extract(epoch FROM clock_timestamp())::double precision")
    assert as_of >= renewed.as_of > 0
    return await compare_guests(compute, GuestsBody(agent=agent, guests=listed, as_of=as_of))


async def test_a_host_is_one_agents_until_it_was_silent_for_too_long(compute: Compute) -> None:
    assert (await take_leases(compute, ["h1", "h2"], AGENT)).hosts_held == {"h1", "h2"}
    with pytest.raises(HostHeld, match=r"host h1 is served by agent a test since .*, and 1 more"):
        await take_leases(compute, ["h1", "h2"], OTHER)
    await pass_time(compute, "h2")
    renewed = await take_leases(compute, ["h1", "h2"], OTHER)
    assert (renewed.hosts_held, [item.host for item in renewed.elsewhere]) == ({"h2"}, ["h1"])
    renewed = await take_leases(compute, ["h1", "h2"], AGENT)
    assert (renewed.hosts_held, [item.host for item in renewed.elsewhere]) == ({"h1"}, ["h2"])
    with pytest.raises(NotFound, match="h3"):
        await take_leases(compute, ["h1", "h3"], AGENT)


async def test_an_agent_that_stops_lets_others_have_its_hosts_at_once(compute: Compute) -> None:
    await take_leases(compute, ["h1", "h2"], AGENT)
    await release_leases(compute, OTHER)
    with pytest.raises(HostHeld):
        await take_leases(compute, ["h1", "h2"], OTHER)
    await release_leases(compute, AGENT, covered=HostPatterns(["h1"]))
    assert (await take_leases(compute, ["h1", "h2"], OTHER)).hosts_held == {"h1"}
    await release_leases(compute, OTHER)
    assert (await take_leases(compute, ["h1"], AGENT)).hosts_held == {"h1"}


async def test_agents_that_come_together_are_answered_each_for_itself(compute: Compute) -> None:
    asked = [
        LeaseRequest(("h1",), AGENT), LeaseRequest(("h2", "h1"), OTHER), LeaseRequest(("h3",), AGENT),
        LeaseRequest(("h1",), OTHER), LeaseRequest(("h1",), AGENT),
    ]  # fmt: skip
    first, second, third, fourth, fifth = await renew_leases(compute, asked)
    assert isinstance(first, Renewed)
    assert isinstance(second, Renewed)
    assert (first.hosts_held, second.hosts_held, [item.host for item in second.elsewhere]) == ({"h1"}, {"h2"}, ["h1"])
    assert (str(third), type(fourth), type(fifth)) == ("there is no host h3", HostHeld, Renewed)


async def test_of_many_agents_that_come_at_once_one_gets_the_host(compute: Compute) -> None:
    agents = [AgentIdentity(id=f"c0000000-0000-0000-0000-{number:012}") for number in range(8)]
    for _ in range(3):
        await pass_time(compute, "h1")
        taken = await asyncio.gather(*(take_leases(compute, ["h1"], agent) for agent in agents), return_exceptions=True)
        assert sorted(isinstance(one, HostHeld) for one in taken) == [False] + [True] * 7


async def test_who_may_not_have_a_host_changes_nothing_of_it(compute: Compute) -> None:
    size = HostReport(name="h9", vcpus=4, ram_mb=4096, disk_gb=40)
    await register_hosts(compute, [size], agent=AGENT)
    with pytest.raises(HostHeld, match="h9"):
        await register_hosts(compute, [HostReport(name="h9", vcpus=64, ram_mb=1, disk_gb=1)], agent=OTHER)
    assert await value(compute, "SELECT vcpus FROM compute.host WHERE name = 'h9'") == 4


async def test_an_empty_list_marks_the_servers_of_the_host_and_frees_nothing(compute: Compute) -> None:
    server = await running_server(compute)
    assert await list_guests(compute, AGENT) == []
    assert await value(compute, "SELECT status FROM compute.server") == "ERROR"
    assert await value(compute, "SELECT fault ->> 'message' FROM compute.server") == "its guest is gone from host h1"
    assert [(drift.kind, drift.key) for drift in await GUESTS.run(compute, repairs=Repairs.ALL)] == [
        (GUEST_MISSING, server)
    ]
    known = ListedGuest(server_id=server, host="h1", attempt=1)
    assert await list_guests(compute, AGENT, known) == []
    assert await value(compute, "SELECT status FROM compute.server") == "ACTIVE"
    assert await value(compute, "SELECT fault IS NULL FROM compute.server")
    assert await GUESTS.run(compute, repairs=Repairs.NONE) == []


async def test_absence_that_nobody_asked_for_marks_the_server(compute: Compute) -> None:
    server = await running_server(compute)
    said = GuestReport(server_id=server, host="h1", attempt=1, state="absent")
    assert (await report(compute, [said], agent=AGENT))[0].accepted
    assert await value(compute, "SELECT status FROM compute.server") == "ERROR"
    assert await value(compute, "SELECT count(*) FROM compute.guest") == 1
    await delete_servers(compute, [server])
    assert (await report(compute, [said], agent=AGENT))[0].accepted
    assert await value(compute, "SELECT count(*) FROM compute.guest") == 0


async def test_only_the_agent_that_has_a_guest_can_say_that_it_is_gone(compute: Compute) -> None:
    server = await running_server(compute)
    await delete_servers(compute, [server])
    said = GuestReport(server_id=server, host="h1", attempt=1, state="absent")
    assert (await report(compute, [said], agent=OTHER))[0].refusal is Refusal.NO_LEASE
    await pass_time(compute, "h1")
    assert (await Polls(compute).poll(["h1"], agent=OTHER, busy=[], wait_s=0)).orders == ()
    assert (await report(compute, [said], agent=OTHER))[0].refusal is Refusal.UNKNOWN
    assert (await report(compute, [said], agent=AGENT))[0].refusal is Refusal.NO_LEASE
    assert await value(compute, "SELECT count(*) FROM compute.guest") == 1
    known = ListedGuest(server_id=server, host="h1", attempt=1)
    await list_guests(compute, OTHER, known)  # it has the guest, so it can also let go of it
    orders = (await Polls(compute).poll(["h1"], agent=OTHER, busy=[], wait_s=0)).orders
    assert [(order.server_id, order.desired) for order in orders] == [(server, "absent")]
    assert (await report(compute, [said], agent=OTHER))[0].accepted
    assert await value(compute, "SELECT count(*) FROM compute.guest") == 0


async def test_guests_that_nobody_knows_are_left_alone_and_named(compute: Compute) -> None:
    known = ListedGuest(server_id=SERVER, host="h1", attempt=3)
    assert await list_guests(compute, AGENT, known) == []
    drifts = await GUESTS.run(compute, repairs=Repairs.ALL)
    assert [(drift.kind, drift.key, drift.repaired) for drift in drifts] == [(GUEST_UNKNOWN, SERVER, False)]
    assert await list_guests(compute, AGENT) == []
    assert await GUESTS.run(compute, repairs=Repairs.NONE) == []


async def test_a_list_says_nothing_of_hosts_that_the_agent_does_not_serve(compute: Compute) -> None:
    server = await running_server(compute, host="h2", agent=OTHER)
    assert await list_guests(compute, AGENT, ListedGuest(server_id=SERVER, host="h2", attempt=1)) == []
    assert await GUESTS.run(compute, repairs=Repairs.NONE) == []
    assert await value(compute, "SELECT status FROM compute.server WHERE id = $1", server) == "ACTIVE"


async def test_a_list_says_nothing_of_hosts_for_which_the_caller_may_not_speak(compute: Compute) -> None:
    """An agent's id is no secret: its lease's refusals name it."""
    await running_server(compute)
    as_of = await value(compute, "SELECT extract(epoch FROM clock_timestamp())::double precision")
    for hosts, status in ((("h2", "rack1-*"), "ACTIVE"), (("h*",), "ERROR")):
        covered = HostPatterns(hosts)
        await compare_guests(compute, GuestsBody(agent=AGENT, guests=(), as_of=as_of), covered=covered)
        assert await value(compute, "SELECT status FROM compute.server") == status


async def test_a_page_of_a_list_says_nothing_of_other_pages(compute: Compute) -> None:
    await running_server(compute)
    as_of = await value(compute, "SELECT extract(epoch FROM clock_timestamp())::double precision")
    for after, until in (("", "h0"), ("h1", None), ("h1", "h2")):
        await compare_guests(compute, GuestsBody(agent=AGENT, guests=(), after=after, until=until, as_of=as_of))
    assert await value(compute, "SELECT status FROM compute.server") == "ACTIVE"
    await compare_guests(compute, GuestsBody(agent=AGENT, guests=(), until="h1", as_of=as_of))
    assert await value(compute, "SELECT status FROM compute.server") == "ERROR"


async def test_a_guest_that_its_host_lost_while_it_was_launched_fails_the_launch(compute: Compute) -> None:
    (server,) = await order_guests(compute, ["h1"])
    async with compute.database.connection() as connection:
        await connection.execute("""UPDATE compute.work SET placed = '{"host": "h1"}'""")
    await take_leases(compute, ["h1"], AGENT)
    await report(compute, [GuestReport(server_id=server, host="h1", attempt=1, state="begun")], agent=AGENT)
    await pass_time(compute, "h1")
    await list_guests(compute, OTHER)
    assert await value(compute, "SELECT stage FROM compute.work") == "fail"
    assert "gone from host h1" in await value(compute, "SELECT failure ->> 'message' FROM compute.work")


def test_a_list_that_only_names_guests_for_people_writes_no_guest() -> None:
    listed = ListedGuest(server_id="s", host="h1", attempt=1)
    assert not GuestList(superseded=(listed,), unknown=(listed,)).changes_guests
    assert all(GuestList(**{name: frozenset([KEY])}).changes_guests for name in ("adopted", "lost", "found_again"))
