"""What a run's tests cost, by folder, as a table at its end. Figures depend on the machine: they fail no run.

Processes are counted by a control group, with all that they start. Where none can be had, those that are nobody's
child are missing: every PostgreSQL that goes on when the process that started it has ended.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.processes import children_of
from tests.sampling import EACH

TOP, OTHER, ALL = "tests/*.py", "start and end", "all"
"""Rows of the table: the files outside of folders, what is spent around the tests, and the sum."""
BUDGET_CPU_S: Mapping[str, float] = {
    "tests/agent": 160,
    "tests/cli": 165,
    "tests/clients": 60,
    "tests/compute": 120,
    "tests/conductor": 270,
    "tests/faults": 390,
    "tests/howto": 230,
    "tests/interop": 5,
    "tests/network": 170,
    "tests/placement": 120,
    "tests/platform": 60,
    "tests/scheduling": 12,
    "tests/schemathesis": 80,
    "tests/seams": 5,
    "tests/seeing": 55,
    "tests/simulation": 80,
    "tests/upgrade": 250,
    TOP: 110,
    OTHER: 90,
    ALL: 1400,
}
"""What `make test` may spend on two cores: figures that only fall.

No part of the long series is the dearest in each folder, so that the sum is less than what is above it.
"""
GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
"""Where control groups of version 2 are."""
TICKS = os.sysconf("SC_CLK_TCK")

Spent = list[float]
"""Tests, CPU seconds of all processes, seconds of a worker's clock."""


def folder_of(nodeid: str) -> str:
    """Return the row of a test."""
    parts = nodeid.split("::")[0].split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else TOP


def table_of(spent_by_row: Mapping[str, Spent], budget_by_row: Mapping[str, float]) -> Iterator[str]:
    """Yield the table's lines, the dearest row first, then the sum; what is above its budget is marked."""
    yield f"{'':<20}{'tests':>8}{'CPU s':>8}{'allowed':>9}{'clock s':>9}"
    rows = sorted(spent_by_row.items(), key=lambda row: -row[1][1])
    sums = [sum(column) for column in zip(*spent_by_row.values(), strict=True)]
    for name, (tests, cpu_s, clock_s) in [*rows, (ALL, sums)]:
        budget = budget_by_row.get(name)
        allowed = "" if budget is None else f"{budget:.0f}"
        mark = "  above its budget" if budget is not None and cpu_s > budget else ""
        yield f"{name:<20}{tests:>8.0f}{cpu_s:>8.1f}{allowed:>9}{clock_s:>9.1f}{mark}"


class Meter:
    """Counts the CPU of this process and of all that it starts. exact: also of what has left it."""

    def __init__(self) -> None:
        self._home = self._group = None
        with contextlib.suppress(OSError, StopIteration):
            place = Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
            self._home = next(root for root in GROUPS if (root / "cgroup.procs").exists()) / place
            group = self._home / f"roost-tests-{os.getpid()}"
            group.mkdir()
            (group / "cgroup.procs").write_text(str(os.getpid()))
            self._group = group

    @property
    def exact(self) -> bool:
        return self._group is not None

    def cpu_s(self) -> float:
        """Return the seconds so far."""
        if self._group is not None:
            return int((self._group / "cpu.stat").read_text().split()[1]) / 1e6
        return sum(os.times()[:4]) + sum(map(_ticks_of, _descendants_of(os.getpid()))) / TICKS

    def close(self) -> None:
        """Leave the control group, which goes unless others are in it still."""
        if self._group is not None and self._home is not None:
            with contextlib.suppress(OSError):
                (self._home / "cgroup.procs").write_text(str(os.getpid()))
                self._group.rmdir()


def _descendants_of(pid: int) -> Iterator[int]:
    for child in children_of(pid):
        yield child
        yield from _descendants_of(child)


def _ticks_of(pid: int) -> int:
    """Return what a process and its children that have ended took. Source: proc_pid_stat(5), fields 14 to 17."""
    with contextlib.suppress(OSError):
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return 0


class Costs:
    """Sums up what tests cost, in each worker; who started the workers adds up their sums and prints them."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._exact = self._meter.exact
        self._spent_by_row: dict[str, Spent] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count a test with its fixtures, and the first of a file with what the file's tests share."""
        cpu_s, at = self._meter.cpu_s(), time.monotonic()
        answer = yield
        self._add(folder_of(item.nodeid), [1, max(0.0, self._meter.cpu_s() - cpu_s), time.monotonic() - at])
        return answer

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over to who started this worker; who is none has counted all workers, and what they did besides."""
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["costs"] = (self._exact, self._spent_by_row)
        else:
            of_tests_s = sum(cpu_s for _, cpu_s, _ in self._spent_by_row.values())
            self._add(OTHER, [0, max(0.0, self._meter.cpu_s() - of_tests_s), 0])
        self._meter.close()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a worker has handed over; one that died has handed over nothing."""
        exact, spent_by_row = getattr(node, "workeroutput", {}).get("costs", (False, {}))
        self._exact = self._exact and exact
        for name, spent in spent_by_row.items():
            self._add(name, spent)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table. What tests named by hand cost is no part of what a whole run may cost."""
        terminalreporter.section("CPU of all processes" + ("" if self._exact else ", but for PostgreSQL's"))
        for line in table_of(self._spent_by_row, BUDGET_CPU_S if EACH > 1 else {}):
            terminalreporter.write_line(line)

    def _add(self, name: str, spent: Spent) -> None:
        self._spent_by_row[name] = [a + b for a, b in zip(self._spent_by_row.get(name, [0, 0, 0]), spent, strict=True)]


def pytest_configure(config: pytest.Config) -> None:
    """Have this run counted."""
    config.pluginmanager.register(Costs())
