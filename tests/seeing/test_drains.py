"""What is done about each server of a drain, by how it stands: tables of cases."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from tests.compute.test_action_rules import SERVER

from roost.compute.model.cloud import Host
from roost.compute.model.departures import Departure
from roost.compute.model.work import MoveKind, ServerContext, Stage
from roost.seeing.model import Drain, DrainKind, DrainProgress, DrainRequest
from roost.seeing.rules import drains as rules
from roost.seeing.rules.drains import HostChange, Step

AT = datetime(2026, 3, 1, tzinfo=UTC)
MAY: Mapping[MoveKind, str | None] = dict.fromkeys((MoveKind.LIVE, MoveKind.MIGRATE, MoveKind.EVACUATE))
MAY_NOT: Mapping[MoveKind, str | None] = dict.fromkeys(MAY, "it is in no state for that")
ACTIVE = replace(SERVER, vm_state="active", task_state=None, host="h1", host_down=False)


def departure(**changes: Any) -> Departure:
    """A server that runs on h1, and may do all; changes: of it, and with `server_…` of the server."""
    of_server = {
        name.removeprefix("server_"): changes.pop(name) for name in list(changes) if name.startswith("server_")
    }
    context = {name: changes.pop(name) for name in ("stage", "moving") if name in changes}
    server = replace(ACTIVE, **of_server)
    fields = {"server_id": server.id, "host": "h1", "refusals": MAY, "context": ServerContext(**context)} | changes
    return Departure(server=server, **fields)


def drain(**changes: Any) -> Drain:
    fields: dict[str, Any] = {
        "id": 7, "kind": DrainKind.DRAIN, "hosts": ("h1", "h2"), "segment": None, "parallel": 2, "readdress": False,
        "project_id": "p", "user_id": "u", "request_id": "req-7", "servers": 3, "progress": DrainProgress(),
        "cancelled": False, "created_at": AT,
    }  # fmt: skip
    return Drain(**fields | changes)


OWN_MOVE = {"move_kind": MoveKind.MIGRATE, "own": True}
DEAD = {"host_down": True}
CASES: list[tuple[DrainKind, dict[str, Any], Step, MoveKind | None, str]] = [
    (DrainKind.DRAIN, {}, Step.BEGIN, MoveKind.LIVE, ""),
    (DrainKind.DRAIN, {"server_vm_state": "paused"}, Step.BEGIN, MoveKind.LIVE, ""),
    (DrainKind.DRAIN, {"server_vm_state": "stopped"}, Step.BEGIN, MoveKind.MIGRATE, ""),
    (DrainKind.RECOVER, DEAD, Step.BEGIN, MoveKind.EVACUATE, ""),
    (DrainKind.RECOVER, DEAD | {"server_vm_state": "stopped"}, Step.BEGIN, MoveKind.EVACUATE, ""),
    (DrainKind.RECOVER, DEAD | {"server_task_state": "powering-off"}, Step.BEGIN, MoveKind.EVACUATE, ""),
    # Whatever was vouched for: a host that is heard of keeps its servers.
    (DrainKind.RECOVER, {}, Step.STAY, None, "host h1 is up"),
    # A state that lasts is final, one that passes is waited for.
    (DrainKind.DRAIN, {"refusals": MAY_NOT}, Step.STAY, None, "in no state"),
    (DrainKind.DRAIN, {"refusals": MAY_NOT, "server_task_state": "powering-off"}, Step.WAIT, None, "in no state"),
    # What others do with it is waited for, but for what only a person ends.
    (DrainKind.DRAIN, {"move_kind": MoveKind.LIVE}, Step.WAIT, None, "another move"),
    (DrainKind.DRAIN, {"stage": Stage.LAUNCH}, Step.WAIT, None, "at the stage launch"),
    (DrainKind.DRAIN, {"move_kind": MoveKind.RESIZE, "server_vm_state": "resized"}, Step.STAY, None, "confirmed"),
    (
        DrainKind.DRAIN,
        {"move_kind": MoveKind.RESIZE, "server_vm_state": "resized", "stage": Stage.CONFIRM},
        Step.WAIT,
        None,
        "another move",
    ),
    # Its own moves.
    (DrainKind.DRAIN, {"move_kind": MoveKind.LIVE, "own": True, "stage": Stage.COPY}, Step.MOVING, None, ""),
    (DrainKind.DRAIN, OWN_MOVE | {"server_vm_state": "resized"}, Step.CONFIRM, None, ""),
    (DrainKind.DRAIN, OWN_MOVE | {"server_vm_state": "resized", "stage": Stage.CONFIRM}, Step.MOVING, None, ""),
    (
        DrainKind.DRAIN,
        OWN_MOVE | {"server_vm_state": "resized", "confirm_refusal": "its guest is gone"},
        Step.STAY,
        None,
        "its guest is gone",
    ),
    # Moves that failed.
    (DrainKind.DRAIN, {"failures": 1, "failure": "no room", "failed_s": 0.5}, Step.WAIT, MoveKind.LIVE, "no room"),
    (DrainKind.DRAIN, {"failures": 2, "failure": "no room", "failed_s": 60.0}, Step.BEGIN, MoveKind.LIVE, ""),
    (DrainKind.DRAIN, {"failures": 3, "failure": "no room", "failed_s": 60.0}, Step.STAY, None, "3 moves of it failed"),
    # A drain waits for a host that is down, also with a move that it began; a recovery does not.
    (DrainKind.DRAIN, {"host_down": True}, Step.WAIT, MoveKind.LIVE, "roost recover"),
    (DrainKind.DRAIN, {"host_down": True, "refusals": MAY_NOT}, Step.WAIT, MoveKind.LIVE, "roost recover"),
    (DrainKind.DRAIN, OWN_MOVE | {"host_down": True, "stage": Stage.CONFIRM}, Step.WAIT, None, "waits for host h1"),
    (DrainKind.RECOVER, OWN_MOVE | {"host_down": True, "stage": Stage.BIND}, Step.MOVING, None, ""),
]


@pytest.mark.parametrize(("kind", "changes", "step", "move_kind", "reason"), CASES)
def test_what_is_done_about_a_server(
    kind: DrainKind, changes: dict[str, Any], step: Step, move_kind: MoveKind | None, reason: str
) -> None:
    decision = rules.decide(kind, departure(**dict(changes)))
    assert (decision.step, decision.kind) == (step, move_kind)
    assert reason in decision.reason
    assert bool(decision.reason) == (step in (Step.WAIT, Step.STAY))


def test_a_server_leaves_a_dead_host_in_one_way_only() -> None:
    for vm_state in ("active", "paused", "stopped", "error"):
        assert rules.choose_move(DrainKind.RECOVER, vm_state) is MoveKind.EVACUATE


def numbered(count: int, **changes: Any) -> list[Departure]:
    return [departure(server_id=f"s{number}", **dict(changes)) for number in range(count)]


def test_as_many_moves_begin_as_may_be_under_way() -> None:
    moving = [departure(server_id="m", move_kind=MoveKind.LIVE, own=True, stage=Stage.COPY)]
    planned = rules.plan_round(drain(parallel=3), moving + numbered(5))
    assert len(planned.begin) == 2
    assert (planned.progress.moving, planned.progress.ready) == (3, 3)
    assert not planned.over
    assert planned.progress.servers_left == 6


def test_more_under_way_than_may_be_begins_nothing() -> None:
    moving = [
        departure(server_id=f"m{number}", move_kind=MoveKind.LIVE, own=True, stage=Stage.COPY) for number in range(3)
    ]
    assert rules.plan_round(drain(parallel=2), moving + numbered(1)).begin == ()


def test_the_large_go_first_and_who_failed_last() -> None:
    large = replace(ACTIVE.spec, memory_mb=99_999)
    servers = [
        departure(server_id="failed", server_spec=large, failures=1, failed_s=60.0, failure="no"),
        departure(server_id="small"),
        departure(server_id="large", server_spec=large),
    ]
    planned = rules.plan_round(drain(parallel=9), servers)
    assert [server_id for server_id, _ in planned.begin] == ["large", "small", "failed"]
    assert [one.server_id for one in rules.list_to_place(DrainKind.DRAIN, servers)] == ["large", "small", "failed"]


@pytest.mark.parametrize(
    ("changes", "departures", "over", "staying"),
    [
        ({}, [], True, 0),
        ({}, [{"refusals": MAY_NOT}], True, 1),
        ({}, [{"stage": Stage.LAUNCH}], False, 1),
        ({}, [{}], False, 0),
        ({"overdue": True}, [{}, {"stage": Stage.LAUNCH}], True, 2),
        ({"overdue": True}, [{}, OWN_MOVE | {"stage": Stage.STOP}], False, 1),
        ({"cancelled": True}, [{}], True, 1),
        ({"cancelled": True}, [], True, 0),
        ({"cancelled": True}, [OWN_MOVE | {"server_vm_state": "resized"}], False, 0),
        ({"overdue": True}, [OWN_MOVE | {"host_down": True, "stage": Stage.CONFIRM}], True, 1),
    ],
)
def test_a_drain_is_over_when_nothing_is_left_to_do(
    changes: dict[str, Any], departures: list[dict[str, Any]], over: bool, staying: int
) -> None:
    planned = rules.plan_round(drain(**changes), [departure(**dict(one)) for one in departures])
    assert planned.over == over
    assert len(planned.progress.staying) == staying
    if changes.get("cancelled") or changes.get("overdue"):
        assert planned.begin == ()
        assert planned.progress.ready == 0


def test_a_late_server_says_whether_time_or_an_operator_ended_it() -> None:
    for changes, reason in (({"overdue": True}, rules.OVERDUE), ({"cancelled": True}, rules.CANCELLED)):
        (stays,) = rules.plan_round(drain(**changes), [departure()]).progress.staying
        assert (stays.reason, stays.final) == (reason, True)


def host(name: str, **changes: Any) -> Host:
    fields: dict[str, Any] = {
        "id": 1, "name": name, "provider_uuid": "u", "vcpus": 1, "ram_mb": 1, "disk_gb": 1, "physical_networks": (),
        "cell": "cell1", "declared": True, "disabled": False, "disabled_reason": None, "forced_down": False,
        "service_version": 5, "seen_at": AT,
    }  # fmt: skip
    return Host(**fields | changes)


@pytest.mark.parametrize(
    ("of_drain", "of_host", "change"),
    [
        ({}, {}, HostChange.DISABLE),
        ({}, {"disabled": True, "disabled_reason": "roost drain 7"}, None),
        ({}, {"disabled": True, "disabled_reason": "disk"}, None),
        ({}, {"disabled": True, "disabled_reason": "roost drain 6"}, HostChange.DISABLE),
        ({"cancelled": True}, {"disabled": True, "disabled_reason": "roost drain 7"}, HostChange.ENABLE),
        ({"cancelled": True}, {"disabled": True, "disabled_reason": "roost drain 71"}, None),
        ({"cancelled": True}, {"disabled": True, "disabled_reason": "disk"}, None),
        ({"cancelled": True}, {}, None),
        ({"kind": DrainKind.RECOVER}, {"down": True}, HostChange.FORCE_DOWN),
        ({"kind": DrainKind.RECOVER}, {"forced_down": True, "down": True}, None),
        ({"kind": DrainKind.RECOVER, "cancelled": True}, {"down": True}, None),
        ({"kind": DrainKind.RECOVER, "overdue": True}, {"down": True}, None),
        ({"kind": DrainKind.RECOVER}, {}, None),
    ],
)
def test_what_is_done_to_a_host(of_drain: dict[str, Any], of_host: dict[str, Any], change: HostChange | None) -> None:
    changes = rules.list_host_changes(drain(**of_drain), [host("h1", **of_host)])
    assert [change for _, change in changes] == ([] if change is None else [change])


def test_a_plan_counts_who_goes_how_and_names_who_cannot() -> None:
    servers = [
        departure(server_id="live"),
        departure(server_id="cold", server_vm_state="stopped"),
        departure(server_id="crowded"),
        departure(server_id="stuck", refusals=MAY_NOT),
        departure(server_id="building", stage=Stage.LAUNCH),
    ]
    plan = rules.plan_drain(DrainKind.DRAIN, servers, {"crowded": "no room"})
    assert (plan.servers, plan.live, plan.cold, plan.evacuated) == (5, 1, 1, 0)
    assert [(one.server_id, one.reason) for one in plan.staying] == [
        ("stuck", "it is in no state for that"),
        ("crowded", "no room"),
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"hosts": ()}, "no host is named"),
        ({"hosts": (), "segment": "rack9"}, "segment rack9 is reached by no host"),
        ({"parallel": 0}, "expected 1 to 200"),
        ({"parallel": 201}, "expected 1 to 200"),
        ({"deadline_s": 0.0}, "above 0"),
        ({"deadline_s": 1.0}, None),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(changes: dict[str, Any], said: str | None) -> None:
    fault = rules.find_request_fault(DrainRequest(**{"kind": DrainKind.DRAIN, "hosts": ("h1",)} | changes), 200)
    assert (fault is None) == (said is None)
    assert (said or "") in (fault or "")


def test_refusals_name_hosts_and_the_drain_that_has_them() -> None:
    request = DrainRequest(kind=DrainKind.DRAIN, hosts=("h2", "h3"))
    assert rules.find_overlap_refusal(request, []) is None
    refusal = rules.find_overlap_refusal(request, [drain()])
    assert refusal is not None
    assert refusal.startswith("host h2 is being drained by drain 7")
    assert rules.missing_sentence({"h9", "h8"}) == "Compute host h8, h9 could not be found."
    assert "host h1 is up: its agent was heard of" in rules.up_sentence(["h1"])
    assert "hosts h1, h2 are up: their agents were heard of" in rules.up_sentence(["h2", "h1"])


def test_what_becomes_of_a_drain_is_an_event_of_each_of_its_hosts() -> None:
    events = rules.of_drain(drain(), "over", "servers that stay: 2")
    assert [(event.kind, event.action, event.host) for event in events] == [
        ("drain", "over", "h1"),
        ("drain", "over", "h2"),
    ]
    assert {(event.reason, event.by.request_id if event.by else None) for event in events} == {
        ("drain 7: servers that stay: 2", "req-7")
    }
