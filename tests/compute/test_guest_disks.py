"""Which disk a guest that is made goes on with."""

import pytest

from roost.compute.model.cloud import Flavor
from roost.compute.model.work import MoveKind, Plan
from roost.compute.rules.guest_disks import find_disk_kept
from roost.seams.compute import RequestSpec
from roost.seams.guests import DiskKept

HERE, SOURCE = "h1", "h0"


@pytest.mark.parametrize(
    ("begins_anew", "size_gb", "expected"),
    [(True, 10, None), (False, 0, None), (False, 10, DiskKept(host=HERE))],
)
def test_only_a_server_that_ran_and_is_not_rebuilt_goes_on(
    begins_anew: bool, size_gb: int, expected: DiskKept | None
) -> None:
    assert find_disk_kept(HERE, begins_anew=begins_anew, size_gb=size_gb) == expected


@pytest.mark.parametrize(
    ("kind", "source_host", "old_gb", "expected"),
    [
        (MoveKind.MIGRATE, SOURCE, 10, DiskKept(host=SOURCE)),
        (MoveKind.RESIZE, SOURCE, 10, DiskKept(host=SOURCE)),
        (MoveKind.RESIZE, HERE, 10, DiskKept(host=HERE)),
        (MoveKind.RESIZE, SOURCE, 0, None),
        (MoveKind.LIVE, SOURCE, 10, DiskKept(host=SOURCE)),
        (MoveKind.EVACUATE, SOURCE, 10, DiskKept(host=SOURCE, needed=False)),
        (MoveKind.UNSHELVE, None, 10, None),
        (MoveKind.UNSHELVE, SOURCE, 10, None),
    ],
)
def test_a_server_that_moves_goes_on_with_the_disk_of_its_source(
    kind: MoveKind, source_host: str | None, old_gb: int, expected: DiskKept | None
) -> None:
    flavor = Flavor(id="f", name="f", vcpus=1, ram_mb=1, disk_gb=old_gb)
    spec = RequestSpec(vcpus=1, memory_mb=1, disk_gb=old_gb)
    plan = Plan(spec=spec, flavor=flavor, old_spec=spec, old_flavor=flavor)
    found = find_disk_kept(HERE, begins_anew=False, size_gb=20, kind=kind, source_host=source_host, plan=plan)
    assert found == expected
