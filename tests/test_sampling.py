"""Parts of the long series: together they are all, and what guards most is in each."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests import sampling

EACH = 5
SAMPLED = [f"tests/faults/test_crash_points.py::test_it[{number}]" for number in range(50)]
KEPT = [*(f"{name}::test_it" for name in sampling.ALWAYS), *sampling.RACES, "tests/network/test_ports.py::test_it"]


def test_every_series_is_there() -> None:
    named = {name.split("::")[0] for name in (*sampling.SERIES, *sampling.ALWAYS)}
    assert [name for name in sorted(named) if not (sampling.ROOT / name).exists()] == []
    assert [name for name in sampling.ALWAYS if not name.startswith(sampling.SERIES)] == []


def test_each_part_has_what_is_always_taken_and_all_parts_have_each_other_test_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items: Any = [SimpleNamespace(nodeid=name) for name in SAMPLED + KEPT]
    monkeypatch.setattr(sampling, "EACH", EACH)
    taken: list[str] = []
    for phase in range(EACH):
        monkeypatch.setattr(sampling, "PHASE", phase)
        left_out = [item.nodeid for item in sampling.deselect(items)]
        assert set(left_out) < set(SAMPLED)
        taken += set(SAMPLED) - set(left_out)
    assert sorted(taken) == sorted(SAMPLED)


def test_a_walk_takes_the_first_point_and_those_of_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "EACH", EACH)
    monkeypatch.setattr(sampling, "PHASE", 3)
    points = sampling.sampled_from(1)
    assert [next(points) for _ in range(4)] == [1, 3, 8, 13]
