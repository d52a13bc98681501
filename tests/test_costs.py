"""The table of what tests cost: whose CPU is in it, how workers' sums come together, and what is marked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.costs import ALL, BUDGET_CPU_S, OTHER, TOP, Meter, folder_of, table_of

TESTS = Path(__file__).parent
BURN = "import time\nwhile time.process_time() < 0.2: pass\n"
TEST = f"""
import subprocess, sys
def test_it():
    subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
def test_nothing():
    pass
"""


@pytest.mark.parametrize(
    ("nodeid", "row"),
    [
        ("tests/network/test_a.py::test_b[x/y]", "tests/network"),
        ("tests/cli/deep/test_a.py::test_b", "tests/cli"),
        ("tests/test_a.py::test_b", TOP),
    ],
)
def test_a_test_is_in_the_row_of_its_folder(nodeid: str, row: str) -> None:
    assert folder_of(nodeid) == row


def test_every_row_has_a_budget_and_no_budget_is_without_tests() -> None:
    rows = {folder_of(str(path.relative_to(TESTS.parent))) for path in TESTS.rglob("test_*.py")}
    assert set(BUDGET_CPU_S) == rows | {OTHER, ALL}


def test_the_dearest_comes_first_the_sum_last_and_what_is_above_its_budget_is_marked() -> None:
    spent_by_row = {"tests/a": [3.0, 10.0, 20.0], "tests/b": [1.0, 30.0, 40.0], OTHER: [0.0, 5.0, 0.0]}
    lines = [line.split() for line in table_of(spent_by_row, {"tests/a": 10, "tests/b": 29, ALL: 40})]
    mark = ["above", "its", "budget"]
    assert lines[1:] == [
        ["tests/b", "1", "30.0", "29", "40.0", *mark],
        ["tests/a", "3", "10.0", "10", "20.0"],
        [*OTHER.split(), "0", "5.0", "0.0"],
        ["all", "4", "45.0", "40", "60.0", *mark],
    ]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_ends_with_what_processes_of_its_tests_took_on_all_workers(tmp_path: Path, workers: int) -> None:
    for folder in ("a", "b"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-p", "tests.costs", "-n", str(workers)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS.parent)]),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    for name, tests, cpu_s in (("tests/a", "2", 0.2), ("tests/b", "2", 0.2), ("all", "4", 0.4)):
        (row,) = [line for line in lines if line[:1] == [name]]
        assert row[1] == tests
        assert float(row[2]) >= cpu_s


def test_what_a_process_left_behind_takes_is_counted_where_there_are_control_groups() -> None:
    meter = Meter()
    try:
        if not meter.exact:
            pytest.skip("needs a control group that this user may write: as root, or one delegated to the user")
        before_s = meter.cpu_s()
        subprocess.run(["sh", "-c", f'"{sys.executable}" -c "$0" & exec 1>&-', BURN + "print()"], capture_output=True)
        assert meter.cpu_s() - before_s >= 0.2
    finally:
        meter.close()
