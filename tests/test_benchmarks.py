"""The smallest row of each kind runs, and its result is right; how fast it was is nobody's business here."""

import pytest
from benchmarks.__main__ import run
from benchmarks.rows import ROWS, Kind, Row

SMALL = [row for row in ROWS if row.small]


def test_each_kind_of_workload_has_a_small_row_without_a_promise() -> None:
    assert sorted(row.kind for row in SMALL) == sorted(Kind)
    assert not any(row.promise for row in SMALL)


@pytest.mark.parametrize("row", SMALL, ids=lambda row: row.name)
def test_a_small_row_runs(row: Row) -> None:
    result = run(row)
    assert len(result.figures) == row.rounds
    assert all(figure > 0 for figure in result.figures)
    assert result.server.fsync == "on"
    assert result.holds


def test_a_promise_is_held_against_the_median() -> None:
    floor = Row(name="a", kind=Kind.BOOT, hosts=1, segments=1, unit="servers/s", floor=300)
    ceiling = Row(name="b", kind=Kind.INDEX_LOAD, hosts=1, segments=1, unit="s", ceiling=2)
    assert [floor.holds(299.0), floor.holds(300.0)] == [False, True]
    assert [ceiling.holds(1.99), ceiling.holds(2.0)] == [True, False]
    assert [floor.promise, ceiling.promise] == [">= 300", "< 2"]
