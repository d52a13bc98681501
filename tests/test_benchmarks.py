"""The smallest row of each kind runs, and its result is right; how fast it was is nobody's business here."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import costs, disk, processes
from benchmarks.__main__ import app, run
from benchmarks.beside import Compared, figures_of
from benchmarks.ledger import meter_of, private_database
from benchmarks.placement import claims, implied, rows, servers
from benchmarks.placement.alone import Size, World, measure_loaded
from benchmarks.placement.cloud import Cloud
from benchmarks.placement.side_by_side import Effort, Measured, Pair, compare, fill
from benchmarks.rows import ROWS, Kind, Row
from tests import launching
from tests.cluster import QUICK, _template
from tests.memory import MEMORY, roomy_memory
from tests.postgres_servers import PG_BIN
from typer.testing import CliRunner

SMALL = [row for row in ROWS if row.small]


@pytest.fixture(scope="module", autouse=True)
def cheap_surroundings() -> Iterator[None]:
    """Times that a test can wait for, and what costs no test its time: processes are forks, data lies in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "PLACE", disk.Place(roomy_memory() or disk.DIRECTORY, may_be_memory=True))
        patch.setattr(processes, "start", launching.start)
        patch.setattr(costs, "STILL_S", 0.0)
        for name, value in QUICK.items():
            patch.setenv(name, value)
        if PG_BIN is None:  # rows run on the wheel's PostgreSQL, whatever else runs on another
            patch.setenv("ROOST_PG_TEMPLATE", _template())
        yield


def test_each_kind_of_workload_has_a_small_row_without_a_promise() -> None:
    assert sorted(row.kind for row in SMALL) == sorted(Kind)
    assert not any(row.promise for row in SMALL)


@pytest.mark.parametrize("row", SMALL, ids=lambda row: row.name)
def test_a_small_row_runs(row: Row) -> None:
    result = run(row)
    assert len(result.figures) == row.rounds
    assert all(figure >= 0 if row.kind is Kind.POLL else figure > 0 for figure in result.figures)  # CPU is in ticks
    assert result.measured.server.fsync == "on"
    assert result.holds
    for stretch in result.measured.stretches:
        assert min(stretch.transactions, stretch.statements) > 0
        assert {"benchmark", "api"} & stretch.cpu.keys()
        assert "postgres" in stretch.cpu


def test_a_directory_in_memory_is_refused_unless_it_is_asked_for() -> None:
    refused = CliRunner().invoke(app, ["claims-small", "--directory", str(MEMORY)], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert "/dev/shm is held in memory (tmpfs)" in refused.output


def test_what_a_disk_is_called_is_what_the_kernel_says(tmp_path: Path) -> None:
    assert disk.disk_of(MEMORY / "no-such-file") == disk.Disk("tmpfs", disk.disk_of(MEMORY).device, str(MEMORY))
    assert not disk.disk_of(Path("/proc/self")).in_memory
    assert tmp_path.is_relative_to(disk.disk_of(tmp_path).mount)


async def test_a_stretch_counts_transactions_statements_and_flushes_of_the_log() -> None:
    async with private_database() as database:

        async def work(amount: int) -> costs.Stretch:
            async with meter_of(database).stretch(1, "whole") as stretch:
                for number in range(amount):
                    async with database.transaction() as tx:
                        await tx.execute("INSERT INTO placement.trait (name) VALUES ($1)", f"CUSTOM_{amount}_{number}")
                        await tx.fetchval("SELECT count(*) FROM placement.trait")
            return stretch

        await work(1)  # its sessions were there before
        few, many = await work(3), await work(13)
    grown = [many.statements_by_name[name] - few.statements_by_name[name] for name in few.statements_by_name]
    assert sorted(grown)[-4:] == [10] * len(("BEGIN", "INSERT", "SELECT", "COMMIT"))
    assert many.statements - few.statements == pytest.approx(40, abs=2)  # a session may be new
    assert many.transactions - few.transactions == pytest.approx(10, abs=2)
    assert many.fsyncs - few.fsyncs == pytest.approx(10, abs=3)
    assert many.wal_bytes > few.wal_bytes


def test_a_promise_is_held_against_the_median() -> None:
    floor = Row(name="a", kind=Kind.BOOT, hosts=1, segments=1, unit="servers/s", floor=300)
    ceiling = Row(name="b", kind=Kind.INDEX_LOAD, hosts=1, segments=1, unit="s", ceiling=2)
    assert [floor.holds(299.0), floor.holds(300.0)] == [False, True]
    assert [ceiling.holds(1.99), ceiling.holds(2.0)] == [True, False]
    assert [floor.promise, ceiling.promise] == [">= 300", "< 2"]


@pytest.mark.parametrize(
    ("unit", "here", "there", "ratio"),
    [
        pytest.param("servers/s", [300, 100, 200], [100, 100, 100], 2.0, id="more in a second is faster"),
        pytest.param("ms", [2.0], [1.0], 0.5, id="more milliseconds are slower"),
        pytest.param("times", [1.0], [2.0], 2.0, id="fewer times as long are faster"),
        pytest.param("fsyncs for each server", [0.0], [0.0], 1.0, id="nothing is as much as nothing"),
        pytest.param(
            "ms", [10.0, 2.0, 1.0], [10.0, 2.0, 0.1], 1.0, id="turn by turn, whatever the machine did meanwhile"
        ),
    ],
)
def test_versions_are_compared_by_their_medians(unit: str, here: list[float], there: list[float], ratio: float) -> None:
    compared = Compared("row", unit, there, here)
    assert (compared.ratio, compared.holds) == (ratio, ratio >= 0.95)


def test_versions_are_compared_by_what_each_thing_costs_as_well() -> None:
    cost = {"thing": "server", "cpu_ms": 2.0, "transactions": 1.0, "statements": 3.0, "wal_bytes": 5.0, "fsyncs": 0.5}
    row = {"unit": "servers/s", "figures": [300.0], "costs": [cost, cost | {"cpu_ms": 4.0}]}
    assert figures_of(row) == {
        "servers/s": 300.0, "cpu ms for each server": 3.0, "transactions for each server": 1.0,
        "statements for each server": 3.0, "wal bytes for each server": 5.0, "fsyncs for each server": 0.5,
    }  # fmt: skip
    assert figures_of({"unit": "ms", "figures": [1.0], "costs": []}) == {"ms": 1.0}


CLOUD, EFFORT = Cloud(40), Effort(rounds=2, seconds=0.05, claim_s=0.5, settle_s=0)


@pytest.fixture(scope="module")
def roost() -> Iterator[servers.Server]:
    with servers.roost() as server:
        fill(server, [*CLOUD.providers(), *CLOUD.device_host()], print)
        yield server


@pytest.mark.long
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


@pytest.mark.long
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
