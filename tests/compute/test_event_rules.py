"""Which changes of stage are events, whose they are, and by what refused boots are counted. Tables."""

from typing import Any

import pytest

from roost.compute.model.cloud import Host, HostStateChange
from roost.compute.model.events import Occurrence
from roost.compute.model.work import Cause, Failure, Marks, Move, MoveKind, Plan, ServerChange, Stage, StageChange
from roost.compute.rules.events import (
    find_occurrence,
    labels_of,
    make_events,
    of_fenced,
    of_hosts,
    of_idle,
    of_lost,
    of_operator,
    of_own_states,
    of_promises_kept,
    of_records,
    of_restored,
    of_returned,
    of_silent_cells,
    of_too_old,
    of_waiting,
)
from roost.compute.rules.guests import lost_guest_sentence
from roost.platform.events import FAILURE, MOVE, REFUSAL, RETRY, Subject

NOTHING: Any = None
FAILURE_SAID = Failure(message="no room", host="h1", funnel=(("considered", 2), ("with 1 VCPU free", 0)))
PLAN = Plan(spec=NOTHING, flavor=NOTHING, old_spec=NOTHING, old_flavor=NOTHING)


def change(after: Stage | None, failure: Failure | None = FAILURE_SAID, **more: Any) -> StageChange:
    return StageChange(server_id="s", stage=after, failure=failure, **more)


def moving(status: str) -> Move:
    return Move(uuid="m", kind=MoveKind.LIVE, status=status, source_host="h1", plan=PLAN)


@pytest.mark.parametrize(
    ("before", "after", "kind", "event"),
    [
        (Stage.PLACE, Stage.FAIL, None, REFUSAL),
        (Stage.CREATE_PORTS, Stage.FAIL, None, REFUSAL),
        (Stage.ALLOCATE, Stage.FAIL, None, REFUSAL),
        (Stage.BIND, Stage.FAIL, None, REFUSAL),
        (Stage.RETRY, Stage.FAIL, None, FAILURE),
        (Stage.LAUNCH, Stage.FAIL, None, FAILURE),
        (Stage.FAIL, Stage.FAIL, None, None),
        (Stage.FAIL, None, None, None),
        (Stage.RETRY, Stage.PLACE, None, RETRY),
        (Stage.LAUNCH, Stage.RETRY, None, None),
        (Stage.PLACE, Stage.PLACE, None, None),
        (Stage.PLACE, Stage.BIND, None, None),
        (Stage.PLACE, Stage.DELETE, None, None),
        (Stage.PLACE, Stage.RESTORE, MoveKind.LIVE, REFUSAL),
        (Stage.COPY, Stage.RESTORE, MoveKind.LIVE, None),
        (Stage.RETRY, Stage.PLACE, MoveKind.LIVE, RETRY),
        (Stage.RESTORE, Stage.RESTORE, MoveKind.LIVE, None),
    ],
)
def test_what_goes_badly_is_an_event_once(
    before: Stage, after: Stage | None, kind: MoveKind | None, event: str | None
) -> None:
    marks = Marks("s", before, deleting=False, kind=kind, source_host="h0" if kind else None)
    occurrence = find_occurrence(marks, change(after))
    assert (occurrence.kind if occurrence else None) == event
    if occurrence:
        assert (occurrence.reason, occurrence.funnel) == (FAILURE_SAID.message, FAILURE_SAID.funnel)
        assert occurrence.action == (kind.value if kind else "boot")


@pytest.mark.parametrize("after", [stage for stage in Stage if stage not in (Stage.FAIL, Stage.RESTORE)] + [None])
@pytest.mark.parametrize("before", [stage for stage in Stage if stage is not Stage.RETRY])
def test_a_boot_that_goes_well_is_none(before: Stage, after: Stage | None) -> None:
    assert find_occurrence(Marks("s", before, deleting=False), change(after, failure=None)) is None


@pytest.mark.parametrize(
    ("status", "failure", "fault", "reason"),
    [
        ("completed", None, None, "completed"),
        ("error", FAILURE_SAID, None, "error: no room"),
        ("error", None, Failure(message="its guest is gone"), "error: its guest is gone"),
    ],
)
def test_the_end_of_a_move_says_how_it_went(
    status: str, failure: Failure | None, fault: Failure | None, reason: str
) -> None:
    marks = Marks("s", Stage.SETTLE, deleting=False, kind=MoveKind.LIVE, source_host="h1")
    server = ServerChange(status="ACTIVE", host="h2", fault=fault)
    occurrence = find_occurrence(marks, change(None, failure, move=moving(status), server=server))
    assert occurrence == Occurrence(
        kind=MOVE, action="live-migration", server_id="s", host="h2", source_host="h1", reason=reason
    )


NIC = {"network_id": "n", "network": "net", "segment_id": "s1", "segment": "rack1"}


@pytest.mark.parametrize(
    ("kind", "action", "cause", "labels"),
    [
        (REFUSAL, "boot", Cause(requirement="cpu"), ("cpu", "", "")),
        (REFUSAL, "boot", Cause(requirement="addresses", is_common=True, **NIC), ("addresses", "net", "rack1")),
        (REFUSAL, "boot", Cause(requirement="addresses", **NIC), ("addresses", "other", "other")),
        (FAILURE, "boot", Cause(requirement="launch"), ("launch", "", "")),
        (REFUSAL, "resize", Cause(requirement="cpu"), None),
        (RETRY, "boot", Cause(requirement="launch"), None),
    ],
)
def test_refused_boots_are_counted_by_bounded_labels(
    kind: str, action: str, cause: Cause, labels: tuple[str, str, str] | None
) -> None:
    assert labels_of(Occurrence(kind=kind, action=action, server_id="s", cause=cause)) == labels


def test_what_is_alike_is_one_event_with_every_server_and_its_request() -> None:
    subjects = {
        name: (project, Subject(server_id=name, name=f"web-{name}", request_id=f"req-{name}"))
        for name, project in (("a", "p"), ("b", "p"), ("c", "q"))
    }
    refused = [Occurrence(kind=REFUSAL, server_id=name, reason="no room") for name in "abc"]
    other = Occurrence(kind=REFUSAL, server_id="a", reason="another reason")
    events = make_events([*refused, other], subjects)
    assert [(event.project_id, event.count, [each.request_id for each in event.subjects]) for event in events] == [
        ("p", 2, ["req-a", "req-b"]),
        ("q", 1, ["req-c"]),
        ("p", 1, ["req-a"]),
    ]


def test_hosts_have_an_event_each_and_no_server_unless_somebody_asked() -> None:
    by = Subject(request_id="req-1")
    first, second = make_events([*of_hosts("silent", ["h1"], "why"), *of_hosts("closed", ["h2"], "why", by=by)], {})
    assert (first.host, first.subjects) == ("h1", ())
    assert (second.host, second.subjects) == ("h2", (by,))


def test_a_server_that_is_not_there_any_more_is_named_all_the_same() -> None:
    (event,) = make_events(of_fenced([("s", "h1")]), {})
    assert event.subjects == (Subject(server_id="s"),)


KEY, OTHER_KEY = ("s1", "h1"), ("s2", "h2")


@pytest.mark.parametrize(
    ("occurrences", "told"),
    [
        (of_lost([KEY]), [("loss", "guest", "h1", lost_guest_sentence("h1"))]),
        (of_restored([KEY]), [("repair", "guest", "h1", "its host shows its guest")]),
        (of_fenced([KEY]), [("fence", "guest", "h1", "host h1 destroys it before")]),
        (
            of_own_states({KEY: "crashed", OTHER_KEY: None}, {KEY: "stopped"}, whole_hosts=["h2"]),
            [
                ("loss", "guest", "h1", "it stopped by itself: crashed"),
                ("loss", "host", "h2", "all guests of a host stopped at once"),
                ("repair", "guest", "h1", "it is not stopped, and is asked for that again"),
            ],
        ),
        (of_returned({"h2", "h1"}), [("host", "up", "h1", "its agent"), ("host", "up", "h2", "its agent")]),
        (of_waiting(["h1"]), [("host", "waiting", "h1", "nobody declared it")]),
        (of_promises_kept(["h1"]), [("fence", "host", "h1", "it is silent")]),
        (of_silent_cells({"h1": "c"}), [("host", "closed", "h1", "no conductor of cell c")]),
        (
            of_too_old({"h1": True, "h2": False}, version_min=3),
            [
                ("host", "closed", "h1", "its agent is of a service version below 3"),
                ("host", "open", "h2", "its agent"),
            ],
        ),
        (
            of_idle({"h1": False, "h2": True}),
            [("host", "closed", "h2", "its agent polls"), ("host", "open", "h1", "its agent begins")],
        ),
        (of_records("loss", "back in time"), [("loss", "records", None, "back in time")]),
    ],
)
def test_each_happening_says_what_is_so_now_and_why(
    occurrences: list[Occurrence], told: list[tuple[str, str, str | None, str]]
) -> None:
    assert [(each.kind, each.action, each.host) for each in occurrences] == [words[:3] for words in told]
    for occurrence, words in zip(occurrences, told, strict=True):
        assert occurrence.reason.startswith(words[3])


def host(*, disabled: bool, forced_down: bool, reason: str | None = None) -> Host:
    fields: dict[str, Any] = dict.fromkeys(Host.__struct_fields__)
    return Host(**fields | {"name": "h1", "disabled": disabled, "forced_down": forced_down, "disabled_reason": reason})


@pytest.mark.parametrize("before", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("after", [(False, False), (True, False), (False, True), (True, True)])
def test_an_operator_has_an_event_for_each_state_that_is_another_now(
    before: tuple[bool, bool], after: tuple[bool, bool]
) -> None:
    change = HostStateChange(
        host=host(disabled=after[0], forced_down=after[1], reason="dust"),
        was_disabled=before[0],
        was_forced_down=before[1],
    )
    words = {(0, True): "closed", (0, False): "open", (1, True): "down", (1, False): "up"}
    expected = [words[which, after[which]] for which in (0, 1) if before[which] != after[which]]
    by = Subject(request_id="req-1")
    occurrences = of_operator(change, by=by)
    assert [each.action for each in occurrences] == expected
    assert all(each.by is by for each in occurrences)
    assert all("dust" in each.reason for each in occurrences if each.action == "closed")
