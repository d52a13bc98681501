"""Which part of the long series a run takes: a third after each commit, so that a few commits take all.

A series holds guarantees at many places, after each transaction and at each crash point, or walks a long page. `make
test` takes a third of each, which the commit chooses; `make test-long`, and who names tests by hand, takes all.
"""

import os
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SERIES = (
    "tests/cli/test_audit.py",
    "tests/cli/test_export.py",
    "tests/cli/test_import.py",
    "tests/cli/test_supervisor.py",
    "tests/clients/test_openstacksdk.py",
    "tests/compute/test_action_bodies.py",
    "tests/compute/test_actions.py",
    "tests/compute/test_microversions.py",
    "tests/conductor/test_adoptions.py",
    "tests/conductor/test_flat.py",
    "tests/conductor/test_lock_order.py",
    "tests/conductor/test_moves.py",
    "tests/conductor/test_ports_in_use.py",
    "tests/conductor/test_readdress.py",
    "tests/faults/",
    "tests/howto/",
    "tests/network/test_crashes.py",
    "tests/network/test_fuzz.py",
    "tests/network/test_ip_allocation.py",
    "tests/placement/test_fuzz.py",
    "tests/placement/test_neutron_notifier.py",
    "tests/placement/test_neutron_rounds.py",
    "tests/platform/test_postgres.py",
    "tests/platform/test_rabbitmq.py",
    "tests/schemathesis/",
    "tests/simulation/test_simulation.py::test_stories_end_well",
    "tests/test_benchmarks.py",
    "tests/test_postgres_versions.py",
    "tests/upgrade/test_release.py",
)
"""What has cost most CPU, by file or folder; tests that go on from point to point ask `sampled_from` besides."""
ALWAYS = (
    "tests/faults/test_agent_identity.py",
    "tests/faults/test_fences.py",
    "tests/faults/test_move_storm.py",
    "tests/faults/test_went_back.py",
)
"""Of those, what every run takes."""
EACH = int(os.environ.get("SERIES_EACH", "1"))
"""One of so many is taken."""


def _choose_phase() -> int:
    """Return what the commit chooses, 0 outside of a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return int(printed or "0", 16) % EACH


PHASE = int(os.environ["SERIES_PHASE"]) if "SERIES_PHASE" in os.environ else _choose_phase()


def sampled_from(first: int) -> Iterator[int]:
    """Yield `first`, and of the numbers after it those of this run, without end."""
    yield first
    number = first + 1
    while True:
        if number % EACH == PHASE:
            yield number
        number += 1


def deselect(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of series that this run leaves out."""
    return [
        item
        for item in items
        if item.nodeid.startswith(SERIES) and not item.nodeid.startswith(ALWAYS) and _number_of(item) != PHASE
    ]


def _number_of(item: pytest.Item) -> int:
    return zlib.crc32(item.nodeid.encode()) % EACH
