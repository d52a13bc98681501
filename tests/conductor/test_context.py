"""What stages hand to each other."""

import pytest

from roost.compute.model.work import Failure, Placed, Stage, Work
from roost.conductor.context import Build, staged
from roost.seams.compute import RequestSpec
from roost.seams.network import Nic, ServerNics

NIC = Nic(tag="0", network_id="n")
WORK = Work(
    server_id="s", stage=Stage.BIND, attempt=2, failures=1, excluded_hosts=("h1",),
    placed=Placed(host="h2", providers_by_port={}, generations={}), failure=Failure(message="It burns."),
    deleting=False, name="web", project_id="p", user_id="u",
    spec=RequestSpec(vcpus=1, memory_mb=1, disk_gb=0, nics=(NIC,)), active=False,
)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [{}, {"attempt": 3}, {"failures": 2, "excluded_hosts": ("h1", "h2")}, {"placed": None}, {"failure": None},
     {"keep": True, "delay_s": 4.0}],
    ids=lambda changes: " ".join(changes) or "nothing",
)  # fmt: skip
@pytest.mark.parametrize("stage", [Stage.LAUNCH, None], ids=["on", "done"])
def test_a_move_keeps_all_but_the_changes(stage: Stage | None, changes: dict[str, object]) -> None:
    change = staged(WORK, stage, **changes)
    kept = {
        "attempt": 2, "failures": 1, "excluded_hosts": ("h1",), "placed": WORK.placed, "failure": WORK.failure,
        "keep": False, "delay_s": 0.0, "gone": False, "guest_host": None, "server": None, **changes,
    }  # fmt: skip
    assert {name: getattr(change, name) for name in kept} == kept
    assert (change.server_id, change.stage) == ("s", stage)


def test_a_build_asks_the_network_for_all_nics_of_its_server() -> None:
    assert Build(WORK).nics == ServerNics(server_id="s", project_id="p", nics=(NIC,))
