"""What becomes of a build when a client deletes a port of it, and which ports an agent is told of at a delete."""

import pytest

from roost.compute.model.work import Stage, WorkState
from roost.compute.rules.nics import end_builds, without_doubtful_ports
from roost.seams.agent import Desired, GuestOrder
from roost.seams.compute import ServerPort
from roost.seams.network import Nic

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


SERVER = "5b5c0e4e-2fa1-4a57-9d53-0016d3cca427"
NICS = (Nic(tag="0", network_id="a network"), Nic(tag="1", port_id="a user's port"))
MADE = NICS[0].port_id_of(SERVER)


@pytest.mark.parametrize(
    ("desired", "port_id", "preserve", "told"),
    [
        ("absent", MADE, False, True),
        ("absent", MADE, True, True),
        ("absent", "a user's port", True, True),
        ("absent", "a user's port", False, False),  # the info is wrong
        ("absent", "attached later", True, True),
        ("absent", "attached later", False, False),  # Roost's, or the info is wrong
        ("absent", None, False, False),  # on a flat network
        ("running", "a user's port", False, True),
    ],
)
def test_an_agent_is_told_to_delete_only_ports_that_were_made_for_a_nic(
    desired: Desired, port_id: str | None, preserve: bool, told: bool
) -> None:
    port = ServerPort(
        port_id=port_id, tag="", network_id="n", network_name="", mac_address="", addresses=(),
        preserve_on_delete=preserve,
    )  # fmt: skip
    order = GuestOrder(server_id=SERVER, host="h", attempt=1, desired=desired, ports=(port,))
    assert without_doubtful_ports(order, NICS) == (
        order if told else GuestOrder(server_id=SERVER, host="h", attempt=1, desired=desired)
    )
