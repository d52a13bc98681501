import asyncio
import os
import signal

import pytest
from tests import launching
from tests.invariants import SETTLED
from tests.network.cloud import Cloud, assert_sound

from roost.cli.serving.crash_points import CRASH_POINTS
from roost.network.service.reconciler import Reconciled, reconcile_once

POINTS = [name for name in CRASH_POINTS if name.startswith(("port.", "publish.", "reconcile.", "subnet."))]
LEFT = (
    "compute has not been told of a port",
    "an intent is left", "a release is left", "a claim of addresses is not its port's addresses",
)  # fmt: skip


LATER = (
    "publish.before-inventory:2", "publish.after-inventory:2",
    # A change of fixed_ips: around the claim for those that come, and before the claim for what went is returned.
    "port.before-claim:2", "port.after-claim:2", "port.after-assign:2",
    "port.after-unassign:2", "port.after-unassign:3", "port.before-tell:2", "port.after-tell:3",
    # Ports of one request.
    "port.before-claim:3", "port.after-claim:3", "port.after-assign:3",
    "reconcile.before-release:2", "reconcile.after-release:2",
    # The pools drop an address first, then they take it in; the third change is told three times, then taken back.
    *(f"subnet.after-begin:{passes}" for passes in (2, 3)),
    *(f"subnet.{when}-agreement:{passes}" for passes in (2, 3) for when in ("before", "after")),
    *(f"subnet.after-finish:{passes}" for passes in (2, 3)),
)  # fmt: skip


CRASHING = "tests.network.crashing:main"


@pytest.mark.parametrize("point", [*POINTS, *LATER])
async def test_a_process_killed_here_leaves_nothing_hanging(cloud: Cloud, point: str) -> None:
    database = cloud.networks.database
    environment = {**os.environ, "ROOST_CRASH_AT": point}
    done = await asyncio.to_thread(launching.run, database.dsn, environment=environment, program=CRASHING)
    assert done.returncode == -signal.SIGKILL, done.stderr
    async with database.transaction() as tx:
        await tx.execute("UPDATE network.intent SET expires_at = now() - interval '1 s'")
        await tx.execute("UPDATE network.publication SET lease_until = now() - interval '1 s'")
    await reconcile_once(cloud.networks)
    assert await reconcile_once(cloud.networks) == Reconciled()
    await assert_sound(cloud)
    async with database.transaction() as tx:
        assert await tx.fetch("SELECT FROM network.publication WHERE wanted > published") == []
        for what in LEFT:
            assert await tx.fetch(SETTLED[what]) == [], what
        whole = await tx.fetchval("SELECT count(*) FROM network.port WHERE name = 'whole'")
        assert whole == (3 if point == "port.after-assign:3" else 0)
