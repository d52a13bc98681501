"""What is held for a move, beside what its server claims: enough to go on, and to go back."""

from typing import Any

import pytest

from roost.compute.model.cloud import Flavor
from roost.compute.model.work import Failure, Move, MoveKind, Plan, ServerChange, Stage, Work
from roost.conductor.context import end_of, given_up, sent_elsewhere
from roost.conductor.holdings import address_part, claim_of, held_by_move, host_part, moved_server
from roost.seams.compute import RequestSpec
from roost.seams.placement import ConsumerClaim, ConsumerState, ConsumerType

SPEC, LARGER = RequestSpec(vcpus=1, memory_mb=1, disk_gb=1), RequestSpec(vcpus=2, memory_mb=2, disk_gb=2)
FLAVOR = Flavor(id="1", name="small", vcpus=1, ram_mb=1, disk_gb=1)
HERE: dict[str, Any] = {"here": {"VCPU": 2, "DISK_GB": 5}}


def move(kind: MoveKind = MoveKind.MIGRATE, **plan: Any) -> Move:
    whole = Plan(spec=LARGER, flavor=FLAVOR, old_spec=SPEC, old_flavor=FLAVOR, **plan)
    return Move(uuid="m", kind=kind, status="preparing", source_host="h1", plan=whole)


@pytest.mark.parametrize(
    ("wanted", "held"),
    [
        ({"there": {"VCPU": 2, "DISK_GB": 5}}, HERE),
        ({}, HERE),
        (HERE, {}),
        ({"here": {"VCPU": 4, "DISK_GB": 5}}, {}),
        ({"here": {"VCPU": 1, "DISK_GB": 9}}, {"here": {"VCPU": 1}}),
        ({"here": {"VCPU": 2}}, {"here": {"DISK_GB": 5}}),
    ],
)
def test_a_move_holds_what_the_server_had_there_and_does_not_claim_any_more(wanted: Any, held: Any) -> None:
    assert held_by_move(move(held=HERE), wanted) == held


def test_addresses_of_flat_networks_stay_the_servers() -> None:
    pool: dict[str, Any] = {"pool": {"IPV4_ADDRESS": 2}}
    assert (host_part(HERE | pool), address_part(HERE | pool)) == (HERE, pool)


@pytest.mark.parametrize("kind", [kind for kind in MoveKind if kind is not MoveKind.SHELVE])
def test_a_server_whose_ports_moved_is_not_a_build(kind: MoveKind) -> None:
    built = ServerChange(status="BUILD", task_state="spawning", host="h2")
    moved = moved_server(move(kind), built)
    assert moved.status == ("SHELVED_OFFLOADED" if kind is MoveKind.UNSHELVE else "ACTIVE")
    assert (moved.host, moved.spec, moved.flavor) == ("h2", LARGER, FLAVOR)
    assert moved.task_state


def work(moving: Move | None = None) -> Work:
    return Work(
        server_id="s", stage=Stage.RETRY, attempt=1, failures=3, excluded_hosts=("h0",), placed=None, failure=None,
        deleting=False, name="web", project_id="p", user_id="u", spec=SPEC, active=True, move=moving,
    )  # fmt: skip


@pytest.mark.parametrize(("moving", "stage"), [(None, Stage.FAIL), (move(), Stage.RESTORE)])
def test_a_build_that_comes_to_its_end_fails_and_a_move_is_taken_back(moving: Move | None, stage: Stage) -> None:
    assert end_of(work(moving)) is stage
    change = given_up(work(moving), "it is down", host="h1")
    assert (change.stage, change.failure, change.keep) == (stage, Failure(message="it is down", host="h1"), True)
    assert (change.attempt, change.failures, change.excluded_hosts) == (1, 3, ("h0",))


def test_a_host_that_failed_is_left_out_and_counts_as_an_attempt() -> None:
    change = sent_elsewhere(work(), "it is full", host="h1")
    assert (change.stage, change.failure, change.keep) == (Stage.RETRY, Failure(message="it is full", host="h1"), True)
    assert (change.attempt, change.failures, change.excluded_hosts) == (1, 4, ("h0", "h1"))


@pytest.mark.parametrize("generation", [None, 7])
def test_a_claim_is_refused_once_its_consumer_has_changed(generation: int | None) -> None:
    known = generation and ConsumerState(
        consumer_uuid="c", generation=generation, consumer_type="PORT", project_id="p", user_id="u", allocations={}
    )
    claim = claim_of(work(), "c", ConsumerType.PORT, known or None, HERE)
    assert claim == ConsumerClaim(
        consumer_uuid="c", generation=generation, consumer_type="PORT", project_id="p", user_id="u", allocations=HERE
    )
