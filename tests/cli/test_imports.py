"""What a process imports before it does anything: starting takes most of its time there."""

import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
SLOW = {"aiohttp", "alembic", "granian", "numpy", "prometheus_client", "sqlalchemy", "starlette"}
"""0.05 s and more each, in the process that others wait for."""
BEYOND_PLACEMENT = {
    "roost.network.service",
    "roost.compute.service",
    "roost.conductor.pipeline",
    "roost.clients",
    "aiohttp",
    "oslo_policy",
}


def imported_by(modules: str) -> set[str]:
    program = f"import sys, {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=SRC)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("modules", "forbidden"),
    [
        ("roost.cli.main", SLOW | {"asyncpg", "rich.progress", "yaml"}),
        ("roost.cli.main, roost.cli.serving.supervisor", SLOW),
        ("roost.cli.serving.process", BEYOND_PLACEMENT),
    ],
    ids=["the command line", "the supervisor", "a placement process"],
)
def test_a_process_imports_no_more_than_it_needs(modules: str, forbidden: set[str]) -> None:
    imported = imported_by(modules)
    assert "roost.cli" in imported
    assert imported & forbidden == set()
