"""What is held for a move, beside what its server claims: enough to go on, and to go back."""

from typing import Any

import pytest

from roost.compute.model.cloud import Flavor
from roost.compute.model.work import Move, MoveKind, Plan, ServerChange, Stage, Work
from roost.conductor.context import end_of
from roost.conductor.holdings import address_part, held_by_move, host_part, moved_server
from roost.seams.compute import RequestSpec

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


@pytest.mark.parametrize(("moving", "stage"), [(None, Stage.FAIL), (move(), Stage.RESTORE)])
def test_a_build_that_comes_to_its_end_fails_and_a_move_is_taken_back(moving: Move | None, stage: Stage) -> None:
    work = Work(
        server_id="s", stage=Stage.RETRY, attempt=1, failures=3, excluded_hosts=(), placed=None, failure=None,
        deleting=False, name="web", project_id="p", user_id="u", spec=SPEC, active=True, move=moving,
    )  # fmt: skip
    assert end_of(work) is stage
