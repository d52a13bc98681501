"""Schemathesis, from its package, with all checks, on the OpenAPI documents that `roost serve` hands out.

It makes requests from the documents alone, and holds every answer against them. The findings that stay are listed in
placement.toml, network.toml and compute.toml, each with its reason. `ROOST_SCHEMATHESIS_EXAMPLES=100` for a long run
(minutes).
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.cluster import Cluster, cluster
from tests.platform.fake_keystone import FakeKeystone, Today

HERE = Path(__file__).parent
VERSIONS = {"placement": "placement 1.39", "compute": "compute 2.96"}
EXAMPLES = os.environ.get("ROOST_SCHEMATHESIS_EXAMPLES", "1")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[tuple[Cluster, str]]:
    """(The three APIs behind a Keystone, an administrator's token)."""
    keystone = FakeKeystone(world=Today())
    await keystone.start()
    options = {"AUTH_URL": keystone.url, "USERNAME": "roost", "PASSWORD": "secret"}
    environment = {f"ROOST_KEYSTONE_{name}": value for name, value in options.items()}
    with cluster() as made:
        await asyncio.to_thread(made.serve, "placement", "network", "compute", auth="keystone", environment=environment)
        yield made, keystone.token("admin", "service")
    await keystone.stop()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("api", ["placement", "network", "compute"])
async def test_no_finding_but_those_that_are_listed(served: tuple[Cluster, str], api: str) -> None:
    roost, token = served
    # Without the header the lowest microversion answers, and a document describes one of them.
    version = ("-H", f"OpenStack-API-Version: {VERSIONS[api]}") if api in VERSIONS else ()
    command = [
        *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
        *("--config-file", str(HERE / f"{api}.toml"), "run", f"{roost.url}/{api}/openapi.json"),
        *("-H", f"X-Auth-Token: {token}", *version),  # all checks, but those that the file spares an operation
        *("--max-examples", EXAMPLES, "--generation-deterministic", "--no-color"),
    ]
    # In a thread: Keystone answers from this one's loop.
    run = await asyncio.to_thread(
        subprocess.run, command, cwd=roost.directory, capture_output=True, text=True, timeout=1400
    )
    assert run.returncode == 0, (run.stdout + run.stderr)[-20_000:]
    assert "Tested:" in run.stdout
