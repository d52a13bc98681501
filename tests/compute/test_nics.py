"""What becomes of a build when a client deletes a port of it."""

import pytest

from roost.compute.model.work import Stage, WorkState
from roost.compute.rules.nics import end_builds

NOW = {Stage.LAUNCH}
"""It waits for a host, and nobody works on it: it ends at once."""
MARKED = {Stage.CREATE_PORTS, Stage.PLACE, Stage.ALLOCATE, Stage.BIND, Stage.ASK, Stage.RETRY}
"""A conductor carries it on, and ends it."""


def a_work(stage: Stage, server_id: str = "s", *, deleting: bool = False) -> WorkState:
    return WorkState(server_id=server_id, stage=stage, attempt=1, deleting=deleting)


@pytest.mark.parametrize("stage", Stage, ids=lambda stage: stage.name)
def test_a_build_that_lost_a_port_ends_where_it_stands(stage: Stage) -> None:
    endings = end_builds([a_work(stage)], {"s": ["p1"]})
    assert (set(endings.now) == {"s"}) is (stage in NOW)
    assert (set(endings.marked) == {"s"}) is (stage in MARKED)
    assert all(
        failure.message == "Port p1 was deleted while the server was being built."
        for failure in (*endings.now.values(), *endings.marked.values())
    )


@pytest.mark.parametrize("stage", Stage, ids=lambda stage: stage.name)
@pytest.mark.parametrize("lost", [{}, {"s": []}, {"another": ["p1"]}], ids=["nobody", "none of it", "another"])
def test_a_build_that_lost_none_goes_on(stage: Stage, lost: dict[str, list[str]]) -> None:
    endings = end_builds([a_work(stage)], lost)
    assert (endings.now, endings.marked) == ({}, {})


@pytest.mark.parametrize("stage", Stage, ids=lambda stage: stage.name)
def test_a_server_that_is_deleted_ends_anyway(stage: Stage) -> None:
    endings = end_builds([a_work(stage, deleting=True)], {"s": ["p1"]})
    assert (endings.now, endings.marked) == ({}, {})


def test_every_server_is_judged_by_itself_and_all_its_ports_are_named() -> None:
    works = [a_work(Stage.LAUNCH, "a"), a_work(Stage.PLACE, "b"), a_work(Stage.PLACE, "c")]
    endings = end_builds(works, {"a": ["p1", "p2"], "b": ["p3"]})
    assert {key: failure.message for key, failure in endings.now.items()} == {
        "a": "Port p1, p2 was deleted while the server was being built."
    }
    assert set(endings.marked) == {"b"}
