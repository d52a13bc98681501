"""Hosts that poll and begin nothing: what counts against them, when they are closed, and when they are tried again."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from roost.compute.model.cloud import LaunchRecord
from roost.compute.rules.idle_hosts import count_unbegun, judge_idle

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("unbegun", "unbegun_s", "begun_s", "asked_s", "counted"),
    [
        (0, None, None, 36, 1),
        (1, 40, None, 36, 2),
        (1, 36, None, 36, 2),
        (1, 35, None, 36, 1),  # the waits overlap
        (1, 0, None, 36, 1),
        (2, 3600, None, 36, 3),
        (2, 3601, None, 36, 1),  # long ago
        (2, 100, 90, 36, 1),  # it began a launch since the last
        (2, 100, 110, 36, 3),
        (2, 100, 36, 36, 2),  # it began a launch in this very wait
        (0, None, 10, 36, 0),
    ],
)
def test_a_launch_that_is_given_up_counts_unless_its_wait_overlaps_or_the_host_began_another(
    unbegun: int, unbegun_s: float | None, begun_s: float | None, asked_s: float, counted: int
) -> None:
    record = LaunchRecord(
        host="h1",
        unbegun=unbegun,
        unbegun_at=None if unbegun_s is None else ago(unbegun_s),
        begun_at=None if begun_s is None else ago(begun_s),
    )
    after = count_unbegun(record, asked_s=asked_s, now=NOW)
    assert after.unbegun == counted
    assert after == record or after.unbegun_at == NOW


OPEN = LaunchRecord(host="h1", unbegun=3, unbegun_at=ago(10), networks=("rack1",))
CLOSED = replace(OPEN, idle=True, probe_at=NOW, probe_after_s=60)
PROBED = replace(CLOSED, idle=False, probe_at=ago(5))
ROOM = {"rack1": (6, 1), "rack2": (6, 2), "": (3, 0)}
SERVED = LaunchRecord(host="h1", networks=("rack1",))


def closed_for(record: LaunchRecord, seconds: float) -> LaunchRecord:
    return replace(record, idle=True, probe_at=NOW + timedelta(seconds=seconds), probe_after_s=seconds)


@pytest.mark.parametrize(
    ("record", "judged"),
    [
        (OPEN, closed_for(OPEN, 60)),
        (replace(OPEN, unbegun=2), None),
        (replace(OPEN, begun_at=ago(11)), closed_for(replace(OPEN, begun_at=ago(11)), 60)),
        (replace(OPEN, begun_at=ago(9)), replace(SERVED, begun_at=ago(9))),
        (replace(OPEN, networks=("rack2",)), None),
        (replace(OPEN, networks=("rack1", "rack2")), None),
        (replace(OPEN, networks=("",)), closed_for(replace(OPEN, networks=("",)), 60)),
        (CLOSED, replace(CLOSED, idle=False)),
        (replace(CLOSED, probe_at=NOW + timedelta(seconds=1)), None),
        (replace(CLOSED, begun_at=ago(1)), replace(SERVED, begun_at=ago(1))),
        (PROBED, None),
        (replace(PROBED, asked_at=ago(6)), None),
        (replace(PROBED, asked_at=ago(5)), closed_for(replace(PROBED, asked_at=ago(5)), 120)),
        (replace(PROBED, unbegun_at=ago(5)), closed_for(replace(PROBED, unbegun_at=ago(5)), 120)),
        (replace(PROBED, asked_at=ago(1), probe_after_s=480), closed_for(replace(PROBED, asked_at=ago(1)), 900)),
        (replace(PROBED, asked_at=ago(1), probe_after_s=900), closed_for(replace(PROBED, asked_at=ago(1)), 900)),
        (replace(PROBED, begun_at=ago(1)), replace(SERVED, begun_at=ago(1))),
    ],
)
def test_a_host_is_closed_after_three_launches_and_opened_for_one(
    record: LaunchRecord, judged: LaunchRecord | None
) -> None:
    assert judge_idle([record], ROOM, NOW) == ([] if judged is None else [judged])


@pytest.mark.parametrize(("hosts", "closed", "expected"), [(2, 0, 0), (3, 0, 1), (6, 0, 2), (6, 1, 1), (9, 0, 3)])
def test_at_most_a_third_of_a_networks_hosts_are_closed_so(hosts: int, closed: int, expected: int) -> None:
    records = [replace(OPEN, host=f"h{number}") for number in range(5)]
    changed = judge_idle(records, {"rack1": (hosts, closed)}, NOW)
    assert [record.host for record in changed] == [f"h{number}" for number in range(expected)]
