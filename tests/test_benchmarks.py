"""The smallest row of each kind runs, and its result is right; how fast it was is nobody's business here."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from benchmarks.__main__ import run
from benchmarks.beside import Compared
from benchmarks.placement import claims, implied, rows, servers
from benchmarks.placement.alone import Size, World, measure_loaded
from benchmarks.placement.cloud import Cloud
from benchmarks.placement.side_by_side import Effort, Measured, Pair, compare, fill
from benchmarks.rows import ROWS, Kind, Row
from tests.cluster import _template
from tests.memory import roomy_memory
from tests.postgres_servers import PG_BIN

SMALL = [row for row in ROWS if row.small]


def test_each_kind_of_workload_has_a_small_row_without_a_promise() -> None:
    assert sorted(row.kind for row in SMALL) == sorted(Kind)
    assert not any(row.promise for row in SMALL)


@pytest.mark.parametrize("row", SMALL, ids=lambda row: row.name)
def test_a_small_row_runs(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", roomy_memory())
    if PG_BIN is None:  # rows run on the wheel's PostgreSQL, whatever else runs on another
        monkeypatch.setenv("ROOST_PG_TEMPLATE", _template())
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


@pytest.mark.parametrize(
    ("unit", "here", "there", "speed"),
    [
        pytest.param("servers/s", [300, 100, 200], [100, 100, 900], 2.0, id="more in a second is faster"),
        pytest.param("ms", [2.0], [1.0], 0.5, id="more milliseconds are slower"),
        pytest.param("times", [1.0], [2.0], 2.0, id="fewer times as long are faster"),
    ],
)
def test_versions_are_compared_by_their_medians(unit: str, here: list[float], there: list[float], speed: float) -> None:
    assert Compared("row", unit, here, there).speed == speed


CLOUD, EFFORT = Cloud(40), Effort(rounds=2, seconds=0.05, claim_s=0.5, settle_s=0)


@pytest.fixture(scope="module")
def roost() -> Iterator[servers.Server]:
    with servers.roost() as server:
        fill(server, [*CLOUD.providers(), *CLOUD.device_host()], print)
        yield server


def test_every_row_beside_upstream_runs(roost: servers.Server) -> None:
    pairs = compare(replace(roost, name="upstream"), roost, CLOUD, rows.COMPARED, EFFORT, print)
    assert [pair.row for pair in pairs] == list(rows.COMPARED)
    assert all(pair.kept and pair.required is None for pair in pairs), [pair.problems for pair in pairs]
    candidates = {pair.row.name: pair.roost.candidates for pair in pairs}
    claimed = candidates.pop("claims")
    assert claimed is None
    assert candidates == {
        **dict.fromkeys(("flat-1000", "flat-all"), 41), **dict.fromkeys(("flat-10", "shared-10"), 10),
        **dict.fromkeys(("shared-1000", "granular-1000"), 40), "traits-1000": 20,
    }  # fmt: skip
    assert all((pair.roost.per_s or 0) > 0 for pair in pairs if pair.row is rows.CLAIMS)


def test_every_row_of_roost_alone_runs(roost: servers.Server) -> None:
    world = World(roost, CLOUD)
    figures = measure_loaded(world, world, Size(hosts=40, bulk_requests=2, bulk_size=5), EFFORT, print)
    promised = {(figure.row, figure.unit) for figure in figures if figure.promise}
    assert promised == {
        *((row, unit) for row in ("flat-10", "shared-10") for unit in ("ms", "times")), ("flat-all", "ms"),
        ("devices-isolate", "ms"), ("devices-none", "ms"), ("bulk-1", "consumers/s"), ("bulk-2", "consumers/s"),
        ("worker", "MiB"),
    }  # fmt: skip
    assert all(figure.value > 0 for figure in figures if figure.unit != "ms")


def test_the_row_of_implied_addresses_runs(roost: servers.Server) -> None:
    with servers.roost(workers=1, database_of=roost, implied_addresses=True) as implying:
        figure = implied.compare(roost, implying, CLOUD, 1, print)
    assert figure.promise == "< 1.5"
    assert figure.value > 0


def test_claims_that_are_not_in_the_ledger_are_noticed(roost: servers.Server) -> None:
    held = {CLOUD.host(0).uuid: {"resources": {"VCPU": 1}}, CLOUD.host(1).uuid: {"resources": {"VCPU": 500}}}
    before = claims.usages(roost.url, CLOUD)
    assert claims.check(roost.url, CLOUD, before, {}) == []
    problems = claims.check(roost.url, CLOUD, before, {CLOUD.uuid("nobody", 0): held})
    assert {problem.partition(": ")[0] for problem in problems} == {
        *held, CLOUD.uuid("nobody", 0), "the project uses {}, 1 were placed",
    }  # fmt: skip
    assert "is above its capacity" not in " ".join(problems)


def test_a_factor_is_held_against_the_promise_of_its_size() -> None:
    def measured(cpu_ms: float, per_s: float | None = None, problems: tuple[str, ...] = ()) -> Measured:
        return Measured(1, cpu_ms, cpu_ms, 0, 0, 0, per_s=per_s, problems=problems)

    row = rows.COMPARED[0]
    kept = [
        Pair(row, 1000, measured(60), measured(2)).kept,
        Pair(row, 1000, measured(59), measured(2)).kept,
        Pair(row, 5000, measured(60), measured(2)).kept,
        Pair(row, 1000, measured(60), measured(2, problems=("one",))).kept,
        Pair(rows.CLAIMS, 1000, measured(1, per_s=10), measured(1, per_s=300)).kept,
        Pair(rows.CLAIMS, 1000, measured(1, per_s=10), measured(1, per_s=299)).kept,
    ]
    assert kept == [True, False, False, False, True, False]
    figures = [rows.Figure("a", "", value, "", floor=5) for value in (5.0, 4.9)]
    figures += [rows.Figure("a", "", value, "", ceiling=5) for value in (4.9, 5.0)]
    assert [figure.kept for figure in figures] == [True, False, True, False]
