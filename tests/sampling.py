"""Which part of the long series a run takes: an eighth after each commit, so that some commits take all.

A series holds guarantees at many places, after each transaction and at each crash point, walks a long page, or starts a
whole cloud. `make test` takes an eighth of each, which the commit chooses; `make test-long`, and who names tests by
hand, takes all.
"""

import os
import re
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SERIES = (
    "tests/agent/test_agent.py",
    "tests/agent/test_authentication.py",
    "tests/cli/test_access.py",
    "tests/cli/test_agents_howto.py",
    "tests/cli/test_audit.py",
    "tests/cli/test_convert_config.py",
    "tests/cli/test_db.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_dev.py",
    "tests/cli/test_export.py",
    "tests/cli/test_fork_server.py",
    "tests/cli/test_import.py",
    "tests/cli/test_metrics.py",
    "tests/cli/test_neutron.py",
    "tests/cli/test_reload.py",
    "tests/cli/test_supervisor.py",
    "tests/cli/test_tls.py",
    "tests/cli/test_upgrade_check.py",
    "tests/cli/test_upstream_commands.py",
    "tests/clients/",
    "tests/compute/test_action_bodies.py",
    "tests/compute/test_action_log.py",
    "tests/compute/test_actions.py",
    "tests/compute/test_history.py",
    "tests/compute/test_images.py",
    "tests/compute/test_microversions.py",
    "tests/compute/test_operator_aggregates.py",
    "tests/compute/test_readdress.py",
    "tests/compute/test_refusals.py",
    "tests/conductor/test_adoptions.py",
    "tests/conductor/test_aggregates.py",
    "tests/conductor/test_bind.py",
    "tests/conductor/test_cells.py",
    "tests/conductor/test_credentials.py",
    "tests/conductor/test_destinations.py",
    "tests/conductor/test_dual_stack.py",
    "tests/conductor/test_evacuations.py",
    "tests/conductor/test_flat.py",
    "tests/conductor/test_host_removal.py",
    "tests/conductor/test_hosts_first.py",
    "tests/conductor/test_images.py",
    "tests/conductor/test_lock_order.py",
    "tests/conductor/test_moves.py",
    "tests/conductor/test_network_info.py",
    "tests/conductor/test_notifications.py",
    "tests/conductor/test_orders.py",
    "tests/conductor/test_placement_elsewhere.py",
    "tests/conductor/test_ports_in_use.py",
    "tests/conductor/test_readdress.py",
    "tests/conductor/test_returns.py",
    "tests/conductor/test_silent_hosts.py",
    "tests/faults/",
    "tests/howto/",
    "tests/network/test_api_listing.py",
    "tests/network/test_api_networks.py",
    "tests/network/test_changes_in_progress.py",
    "tests/network/test_crashes.py",
    "tests/network/test_creation.py",
    "tests/network/test_flat.py",
    "tests/network/test_fuzz.py",
    "tests/network/test_hosts.py",
    "tests/network/test_ip_allocation.py",
    "tests/network/test_ipv6.py",
    "tests/network/test_subnet_updates.py",
    "tests/network/test_unknown_guests.py",
    "tests/placement/test_candidates.py",
    "tests/placement/test_exporting.py",
    "tests/placement/test_fuzz.py",
    "tests/placement/test_implied.py",
    "tests/placement/test_importing.py",
    "tests/placement/test_neutron_notifier.py",
    "tests/placement/test_neutron_rounds.py",
    "tests/placement/test_neutron_sight.py",
    "tests/placement/test_outages.py",
    "tests/placement/test_service_import.py",
    "tests/platform/test_migrate.py",
    "tests/platform/test_postgres.py",
    "tests/platform/test_rabbitmq.py",
    "tests/schemathesis/",
    "tests/seeing/test_capacity_draws.py",
    "tests/seeing/test_remedies.py",
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
    "tests/faults/test_storm.py",
    "tests/faults/test_went_back.py",
)
"""Of those, what every run takes."""
RACES = tuple(
    test
    for test in re.findall(r"^`(tests/[\w/]+\.py::\w+)`$", (ROOT / "docs" / "races.md").read_text(), re.MULTILINE)
    if not test.startswith("tests/faults/")
)
"""The test of each race, which every run takes too, unless it starts a whole cloud."""
EACH = int(os.environ.get("SERIES_EACH", "1"))
"""One of so many is taken."""
EVEN = 17_470
"""Where checksums begin: it spreads the dearest tests, so that each part of eight costs about the same."""


def _choose_phase() -> int:
    """Return what the commit chooses, 0 outside of a checkout."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
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
        if item.nodeid.startswith(SERIES)
        and not item.nodeid.startswith((*ALWAYS, *RACES))
        and _number_of(item) != PHASE
    ]


def _number_of(item: pytest.Item) -> int:
    return zlib.crc32(item.nodeid.encode(), EVEN) % EACH
