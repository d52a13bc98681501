"""Which action begins in which state: every rule in every state, and what stands beside the states."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from roost.compute.model.cloud import Flavor, Host
from roost.compute.model.server import ActionFilter, Server, ServerAction, ServerFault
from roost.compute.model.work import MoveKind, ServerContext, Stage
from roost.compute.old_agents.rules.orders import LATE
from roost.compute.rules import actions as rules
from roost.compute.rules.actions import (
    ActionRule,
    destination_sentence,
    find_attribute_refusal,
    find_fence_refusal,
    find_refusal,
    find_reset_refusal,
    find_return_refusal,
    find_rule_in_place,
    is_listed,
    locked_sentence,
    not_ready_sentence,
    refuse_offload,
    state_sentence,
)
from roost.compute.rules.server_attributes import find_tag_problem
from roost.seams.compute import RequestSpec
from roost.seams.network import UnreachedPort

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SERVER = Server(
    id="s", name="web", project_id="p", user_id="u", image_ref="", metadata={}, description=None, reservation_id="",
    flavor=Flavor(id="f", name="f", vcpus=1, ram_mb=1, disk_gb=1), launch_index=0, status="ACTIVE", task_state=None,
    spec=RequestSpec(vcpus=1, memory_mb=1, disk_gb=1), ports=(), host="h1", host_down=False, fault=None,
    created_at=NOW, updated_at=NOW, launched_at=NOW, vm_state="active",
)  # fmt: skip
RUNNING = ServerContext(power_desired="running")
VM_STATES = (
    *("active", "building", "error", "paused", "resized", "shelved", "shelved_offloaded", "stopped", "suspended"),
)

ALLOWED: list[tuple[ActionRule, str, str, str]] = [
    (rules.STOP, "active error", "stopped", "powering-off"),
    (rules.START, "stopped", "running", "powering-on"),
    (rules.PAUSE, "active", "paused", "pausing"),
    (rules.UNPAUSE, "paused", "running", "unpausing"),
    (rules.SUSPEND, "active", "suspended", "suspending"),
    (rules.RESUME, "suspended", "running", "resuming"),
    (rules.REBOOT_SOFT, "active", "running", "rebooting"),
    (rules.REBOOT_HARD, "active error paused stopped suspended", "running", "rebooting_hard"),
    (rules.REBUILD, "active error stopped", "running", "rebuilding"),
    (rules.SHELVE_IN_PLACE, "active paused stopped suspended", "stopped", "shelving"),
    (rules.UNSHELVE_IN_PLACE, "shelved", "running", "unshelving"),
]


@pytest.mark.parametrize(("rule", "allowed", "desired", "task_state"), ALLOWED)
def test_an_action_begins_in_its_states_and_no_other(
    rule: ActionRule, allowed: str, desired: str, task_state: str
) -> None:
    assert (rule.desired, rule.task_state) == (desired, task_state)
    for vm_state in VM_STATES:
        refusal = find_refusal(rule, replace(SERVER, vm_state=vm_state), RUNNING, is_admin=True)
        expected = (
            None
            if vm_state in allowed.split()
            else f"Cannot '{rule.name}' instance s while it is in vm_state {vm_state}"
        )
        assert refusal == expected


@pytest.mark.parametrize(("rule", "allowed", "_desired", "_task_state"), ALLOWED)
def test_only_a_hard_reboot_begins_while_something_is_done(
    rule: ActionRule, allowed: str, _desired: str, _task_state: str
) -> None:
    for task_state in ("rebooting", "pausing", "powering-off", "rebuilding", "migrating", "deleting"):
        server = replace(SERVER, vm_state=allowed.split()[0], task_state=task_state)
        refusal = find_refusal(rule, server, RUNNING, is_admin=True)
        if rule is rules.REBOOT_HARD and task_state in ("rebooting", "pausing"):
            assert refusal is None
        else:
            assert refusal == f"Cannot '{rule.name}' instance s while it is in task_state {task_state}"


@pytest.mark.parametrize(
    ("server", "context", "is_admin", "refusal"),
    [
        (replace(SERVER, locked=True), RUNNING, False, "Instance s is locked"),
        (replace(SERVER, locked=True, vm_state="stopped"), RUNNING, False, "Instance s is locked"),
        (replace(SERVER, locked=True), RUNNING, True, None),
        (SERVER, replace(RUNNING, stage=Stage.SETTLE), True, None),
        (SERVER, replace(RUNNING, stage=Stage.PLACE), True, "Instance s is in an invalid state for 'stop'"),
        (SERVER, replace(RUNNING, moving=True), True, "Instance s is in an invalid state for 'stop'"),
        (replace(SERVER, launched_at=None), RUNNING, True, "Instance s is in an invalid state for 'stop'"),
        (replace(SERVER, host=None, vm_state="error"), ServerContext(), True, "Instance s is not ready"),
        (SERVER, ServerContext(), True, "Instance s is not ready"),
        (SERVER, ServerContext(power_desired="absent"), True, "Instance s is not ready"),
    ],
)
def test_what_stands_beside_the_state_decides_too(
    server: Server, context: ServerContext, is_admin: bool, refusal: str | None
) -> None:
    assert find_refusal(rules.STOP, server, context, is_admin=is_admin) == refusal


def test_a_guest_of_which_its_host_has_nothing_left_is_only_made_again() -> None:
    server = replace(SERVER, vm_state="error")
    refusals = {rule: find_refusal(rule, server, ServerContext(), is_admin=True) for rule in rules.POWER_RULES}
    assert {rule for rule, refusal in refusals.items() if refusal is None} == {rules.REBOOT_HARD, rules.REBUILD}


def test_a_guest_that_is_gone_is_only_made_again() -> None:
    lost = replace(RUNNING, guest_lost=True)
    server = replace(SERVER, vm_state="error")
    assert "a hard reboot makes it again" in str(find_refusal(rules.STOP, server, lost, is_admin=True))
    assert find_refusal(rules.REBOOT_HARD, server, lost, is_admin=True) is None
    assert find_refusal(rules.REBUILD, server, lost, is_admin=True) is None


def test_a_resized_server_whose_guest_is_gone_only_goes_back() -> None:
    lost, resized = replace(RUNNING, guest_lost=True, moving=True), replace(SERVER, vm_state="resized")
    assert "revertResize brings it back" in str(find_refusal(rules.CONFIRM, resized, lost, is_admin=True))
    assert find_refusal(rules.REVERT, resized, lost, is_admin=True) is None


def test_what_is_rebuilt_while_stopped_stays_so() -> None:
    assert rules.desired_power(rules.REBUILD, replace(SERVER, vm_state="stopped")) == "stopped"
    assert rules.desired_power(rules.REBUILD, replace(SERVER, vm_state="error")) == "running"
    assert rules.desired_power(rules.REBOOT_HARD, replace(SERVER, vm_state="stopped")) == "running"


def test_only_what_runs_somewhere_is_made_active_by_hand() -> None:
    stuck = replace(SERVER, task_state="powering-off", locked=True)
    assert find_reset_refusal(stuck, RUNNING, active=True) is None
    assert find_reset_refusal(stuck, ServerContext(), active=False) is None
    for context in (ServerContext(), replace(RUNNING, guest_lost=True), ServerContext(power_desired="absent")):
        assert "its host has no guest of it" in str(find_reset_refusal(stuck, context, active=True))
    for at_work in (replace(RUNNING, stage=Stage.SETTLE), replace(RUNNING, moving=True)):
        assert find_reset_refusal(stuck, at_work, active=False) is not None
    assert find_reset_refusal(replace(SERVER, task_state="deleting"), RUNNING, active=False) is not None


def test_the_creation_is_an_action_that_follows_from_the_server() -> None:
    assert rules.creation_of(SERVER) is None
    made = replace(SERVER, request_id="req-1")
    action = rules.creation_of(made)
    assert action is not None
    assert (action.name, action.message, action.events[0].result) == ("create", None, "Success")
    building = rules.creation_of(replace(made, launched_at=None, status="BUILD"))
    failed = rules.creation_of(replace(made, launched_at=None, status="ERROR"))
    assert building is not None
    assert failed is not None
    assert (building.events[0].finished_at, building.events[0].result) == (None, None)
    assert (failed.message, failed.events[0].result) == ("Error", "Error")


def test_a_creation_tells_its_order_before_its_end_and_what_went_wrong_at_that() -> None:
    order = replace(LATE, reason="1 live host has an agent", chosen_at=NOW)
    made = replace(SERVER, request_id="req-1", order=order)
    failed = replace(made, launched_at=None, status="ERROR", fault=ServerFault(message="No room.", details="rack1"))
    recovered = replace(made, fault=ServerFault(message="its guest is gone"))
    chosen = ("conductor_choose_order", "Success", "late: place -> launch, since 1 live host has an agent")
    build = "compute__do_build_and_run_instance"
    for server, end in ((made, ("Success", None)), (failed, ("Error", "No room.")), (recovered, ("Success", None))):
        action = rules.creation_of(server)
        assert action is not None
        assert [(e.name, e.result, e.details) for e in action.events] == [chosen, (build, *end)]
    unchosen = rules.creation_of(replace(made, order=LATE))
    assert unchosen is not None
    assert [event.name for event in unchosen.events] == [build]


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (rules.MIGRATE, "active shelved stopped"), (rules.RESIZE, "active stopped"),
        (rules.LIVE_MIGRATE, "active paused"), (rules.EVACUATE, "active error paused shelved stopped suspended"),
        (rules.SHELVE, "active paused stopped suspended"), (rules.ATTACH, "active paused stopped"),
        (rules.DETACH, "active paused stopped"),
    ],
    ids=lambda value: value.name if isinstance(value, ActionRule) else "",
)  # fmt: skip
def test_a_move_begins_in_its_states_and_never_beside_another(rule: ActionRule, allowed: str) -> None:
    for vm_state in VM_STATES:
        refusal = find_refusal(rule, replace(SERVER, vm_state=vm_state), RUNNING, is_admin=False)
        assert (refusal is None) == (vm_state in allowed.split()), (vm_state, refusal)
    assert find_refusal(rule, SERVER, replace(RUNNING, moving=True), is_admin=True)
    assert find_refusal(rule, SERVER, replace(RUNNING, stage=Stage.PLACE), is_admin=True)


def test_only_who_waits_for_its_user_is_confirmed_and_only_who_is_on_no_host_unshelved() -> None:
    resized = replace(SERVER, vm_state="resized")
    for rule in (rules.CONFIRM, rules.REVERT):
        assert find_refusal(rule, resized, replace(RUNNING, moving=True), is_admin=False) is None
        assert find_refusal(rule, SERVER, RUNNING, is_admin=False)
    shelved = replace(SERVER, vm_state="shelved_offloaded", host=None)
    assert find_refusal(rules.UNSHELVE, shelved, ServerContext(), is_admin=False) is None


@pytest.mark.parametrize("kind", MoveKind)
@pytest.mark.parametrize("vm_state", ["active", "stopped", "shelved", "shelved_offloaded"])
@pytest.mark.parametrize(("keeps_disks", "disk_gb"), [(True, 1), (True, 0), (False, 1)])
def test_who_has_a_disk_on_its_host_is_shelved_there_and_whoever_is_shelved_there_starts_there(
    kind: MoveKind, vm_state: str, keeps_disks: bool, disk_gb: int
) -> None:
    spec = replace(SERVER.spec, disk_gb=disk_gb)
    server = replace(SERVER, spec=spec, vm_state=vm_state, host=None if vm_state == "shelved_offloaded" else "h1")
    expected = None
    if kind is MoveKind.SHELVE and keeps_disks and disk_gb:
        expected = rules.SHELVE_IN_PLACE
    elif kind is MoveKind.UNSHELVE and vm_state == "shelved":
        expected = rules.UNSHELVE_IN_PLACE
    assert find_rule_in_place(kind, server, replace(RUNNING, keeps_disks=keeps_disks)) is expected


def test_a_server_that_would_lose_its_disk_is_not_taken_off_its_host_and_its_user_hears_what_to_do() -> None:
    shelved = replace(SERVER, vm_state="shelved")
    assert refuse_offload(shelved) == (
        "Instance s is shelved on host h1, which has its root disk: off its host it would lose the disk. Migrate it, "
        "and the disk leaves the host with it; or delete it, if the disk is worth nothing."
    )
    assert refuse_offload(SERVER) == state_sentence("s", "shelveOffload", vm_state="active")
    assert destination_sentence(shelved) == (
        'Specifying an availability zone or a host when unshelving server "s" with status "shelved" is not supported, '
        "server status must be SHELVED_OFFLOADED. Host h1 has its root disk: unshelve it there, and migrate it then."
    )


def test_refusals_are_in_novas_words() -> None:
    assert state_sentence("s", "stop", vm_state="paused") == "Cannot 'stop' instance s while it is in vm_state paused"
    assert locked_sentence("s") == "Instance s is locked"
    assert not_ready_sentence("s") == "Instance s is not ready"


@pytest.mark.parametrize(
    ("changes", "may_be_locked", "refused"),
    [
        ({}, False, False), ({"vm_state": "stopped"}, False, False), ({"vm_state": "error"}, False, True),
        ({"vm_state": "building"}, True, True), ({"locked": True}, False, True), ({"locked": True}, True, False),
    ],
)  # fmt: skip
def test_metadata_changes_of_what_is_there_and_not_locked(
    changes: dict[str, object], may_be_locked: bool, refused: bool
) -> None:
    refusal = find_attribute_refusal(replace(SERVER, **changes), "update metadata", may_be_locked=may_be_locked)
    assert (refusal is not None) == refused


@pytest.mark.parametrize(
    ("since", "before", "listed"),
    [(None, None, True), (0, None, True), (1, None, False), (None, 0, True), (None, -1, False), (-1, 1, True)],
)
def test_actions_are_listed_by_when_they_changed(since: int | None, before: int | None, listed: bool) -> None:
    times = [None if hours is None else NOW + timedelta(hours=hours) for hours in (since, before)]
    action = ServerAction(request_id="r", name="stop", project_id="p", user_id="u", started_at=NOW, updated_at=NOW)
    assert is_listed(action, ActionFilter(changed_since=times[0], changed_before=times[1])) == listed


@pytest.mark.parametrize(
    ("tag", "valid"),
    [("red", True), ("x" * 60, True), ("x" * 61, False), ("", False), ("a,b", False), ("a/b", False), ("ü\n", True)],
)
def test_a_tag_is_a_word_without_separators(tag: str, valid: bool) -> None:
    assert (find_tag_problem(tag) is None) == valid


SOURCE = Host(
    id=1, name="h1", provider_uuid="p", vcpus=1, ram_mb=1, disk_gb=1, physical_networks=(), cell="cell1",
    declared=False, disabled=False, disabled_reason=None, forced_down=False, service_version=4, seen_at=NOW,
)  # fmt: skip
UNREACHED = UnreachedPort(id="p", addresses=("10.1.0.2", "2001:db8::2"), place="segment rack1 of network public")
CANNOT = "Instance s cannot go back: host h1"


@pytest.mark.parametrize(
    ("down", "unreached", "refusal"),
    [
        (False, (), None),
        (True, (), f"{CANNOT}, from which it came, is down."),
        (True, (UNREACHED,), f"{CANNOT}, from which it came, is down."),
        (False, (UNREACHED,), f"{CANNOT} does not reach all its addresses. The port with address 10.1.0.2 and "
         "2001:db8::2 holds the server to segment rack1 of network public."),
    ],
)  # fmt: skip
def test_a_server_goes_back_to_a_host_that_is_up_and_reaches_its_addresses(
    down: bool, unreached: tuple[UnreachedPort, ...], refusal: str | None
) -> None:
    assert find_return_refusal("s", replace(SOURCE, down=down), unreached) == refusal


@pytest.mark.parametrize(
    ("facts", "former", "words"),
    [
        ({"forced_down": True}, True, None),
        ({"promise_kept": True, "fence_after_s": 120.0}, False, None),
        ({"promise_kept": True, "fence_after_s": 120.0}, True, ("only silent", "force the host's service down")),
        (
            {},
            False,
            ("may still run on host h1, which is only silent", "force the host's service down", "--fence-after"),
        ),
        (
            {"fence_after_s": 120.0},
            False,
            ("only silent", "NICs are down 120 s after its last lease", "Ask again then"),
        ),
    ],
    ids=["forced down", "promise kept", "another agent's promise", "silent", "promise not due"],
)
def test_silence_alone_lets_nobody_make_the_server_elsewhere(
    facts: dict[str, object], former: bool, words: tuple[str, ...] | None
) -> None:
    refusal = find_fence_refusal("s", replace(SOURCE, down=True, **facts), of_former_agent=former)
    assert (refusal is None) == (words is None)
    assert all(word in str(refusal) for word in words or ())


@pytest.mark.parametrize("task_state", ["powering-off", "rebooting_hard", "rebuilding", "suspending", None])
def test_an_evacuation_looks_at_the_host_and_not_at_what_it_was_asked_for(task_state: str | None) -> None:
    at_it = replace(SERVER, task_state=task_state)
    assert find_refusal(rules.EVACUATE, at_it, RUNNING, is_admin=False) is None
    assert find_refusal(rules.EVACUATE, replace(SERVER, task_state="deleting"), RUNNING, is_admin=True)


def test_a_wait_for_a_cell_names_it_with_what_to_do() -> None:
    since = datetime(2026, 1, 2, tzinfo=UTC)
    event = rules.wait_for_cell("cell2", since)
    assert (event.started_at, event.finished_at, event.result) == (since, None, None)
    assert event.details == (
        "no conductor of cell cell2 is there; one is started by `roost serve conductor --cell cell2`"
    )
