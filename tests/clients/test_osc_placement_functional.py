"""osc-placement's own functional tests, over HTTP: all that upstream Placement passes, Roost passes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster import cluster

TESTS = 160
"""How many there are in the release that pyproject.toml allows, at least."""


@pytest.mark.timeout(600)
@pytest.mark.long
def test_all_that_upstream_passes_pass() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])  # one test runs `openstack`
    with cluster() as roost:
        roost.serve("placement", auth="noauth2")
        ran = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("osc_placement_functional.py")), roost.url],
            env={**environment, "COLUMNS": "200", "PATH": path}, capture_output=True, text=True, timeout=550,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    outcome = json.loads(ran.stdout)
    assert len(outcome) >= TESTS
    assert {name: reason for name, reason in outcome.items() if reason} == {}
