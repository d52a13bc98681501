"""A conductor is stopped, or its connection cut, inside a transaction: nobody waits longer than its lease and 5 s."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.cluster import Cluster, boot, cluster, network_ids, settle, until
from tests.database_proxy import DatabaseProxy
from tests.placement_client import PlacementClient, a_uuid, claim
from tests.processes import names_of

from roost.cli.asking.cloud_client import CloudClient
from roost.platform.database import Database

LEASE_S = 6.0
WAIT_MAX_S = LEASE_S + 5
LEASE = {"ROOST_CONDUCTOR_LEASE_S": str(LEASE_S)}
CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/28}]}
hosts:
  - {name: only, vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
"""
"""One host, so that everybody needs the rows of its provider."""

GATE = 4711
HAVE_GATE = f"""
CREATE FUNCTION pass_gate() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NULL; END $$;
CREATE TRIGGER gate BEFORE INSERT ON placement.allocation FOR EACH STATEMENT EXECUTE FUNCTION pass_gate();
"""
"""Whoever claims waits here with the provider's row locked, as long as the test holds the gate."""

CLAIMING = """
SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory' AND state = 'active'
"""


def conductor_of(supervisor: int) -> int:
    """The process id of a supervisor's conductor."""
    [pid] = [pid for pid, name in names_of(supervisor).items() if name == "conductor-1"]
    return pid


async def status_of(client: CloudClient, name: str) -> str:
    return next(server["status"] for server in await client.list_servers() if server["name"] == name)


async def claim_of_another(made: Cluster) -> None:
    """Claim on the host's provider for a consumer that no conductor knows of."""
    async with PlacementClient.connect(made.url) as client:
        answer = await client.call("GET", "/resource_providers?name=only")
        host = answer.body["resource_providers"][0]["uuid"]
        answer = await client.call("PUT", f"/allocations/{a_uuid()}", claim({host: {"VCPU": 1}}))
        assert answer.status == 204, answer


async def others_go_on(made: Cluster, client: CloudClient, *names: str) -> None:
    """Unrelated claims are answered, and other conductors' servers are ACTIVE, within what the issue allows."""

    async def active() -> bool:
        return all([await status_of(client, name) == "ACTIVE" for name in names])

    started_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(claim_of_another(made))
        group.create_task(until(active, timeout_s=WAIT_MAX_S, what=f"{names} are not ACTIVE\n{made.logs()}"))
    assert time.monotonic() - started_s < WAIT_MAX_S


@asynccontextmanager
async def cloud() -> AsyncIterator[tuple[Cluster, CloudClient, Database, str]]:
    """Everything but conductors; the last one is the network's id."""
    with cluster() as made:
        made.serve("placement", "network", "compute", environment=LEASE)
        made.load(CLOUD)
        made.agent()
        database = await Database.open(made.dsn, size=3)
        try:
            async with CloudClient.connect(made.url) as client:
                yield made, client, database, (await network_ids(client))["public"]
        finally:
            await database.close()


async def test_a_conductor_that_is_stopped_in_a_claim_holds_up_nobody_for_long_and_goes_on_when_it_wakes() -> None:
    async with cloud() as (made, client, database, network):
        made.serve("conductor", environment=LEASE)
        second = made.processes[-1]
        other = conductor_of(second.pid)
        made.serve("conductor", environment=LEASE)
        stopped = conductor_of(made.processes[-1].pid)
        os.kill(other, signal.SIGSTOP)  # not yet: the first server is for the one that will be stopped
        async with database.connection() as gate, database.connection() as looking:
            await gate.execute(HAVE_GATE)
            await gate.execute(f"SELECT pg_advisory_lock({GATE})")
            await boot(client, network, name="stopped")
            backend: int | None = None

            async def claiming() -> bool:
                nonlocal backend
                backend = await looking.fetchval(CLAIMING)
                return backend is not None

            async def idle() -> bool:
                state = "SELECT state FROM pg_stat_activity WHERE pid = $1"
                return await looking.fetchval(state, backend) == "idle in transaction"

            try:
                await until(claiming)
                os.kill(stopped, signal.SIGSTOP)
                await gate.execute(f"SELECT pg_advisory_unlock({GATE})")
                await until(idle)
                os.kill(other, signal.SIGCONT)
                await boot(client, network, name="other")
                await others_go_on(made, client, "other", "stopped")
            finally:
                os.kill(other, signal.SIGCONT)
                os.kill(stopped, signal.SIGCONT)
        made.stop(second)
        await boot(client, network, name="after")
        await settle(made)
        assert {server["status"] for server in await client.list_servers()} == {"ACTIVE"}
        assert "Traceback" not in made.logs()


async def test_a_connection_that_is_cut_at_the_commit_of_a_claim_holds_up_nobody_for_long() -> None:
    async with cloud() as (made, client, _database, network), DatabaseProxy.listening(made.dsn) as proxy:
        proxy.cut_at_commit_after = b"-- placement.write_claims"
        await asyncio.to_thread(made.serve, "conductor", environment=LEASE)
        other = conductor_of(made.processes[-1].pid)
        await asyncio.to_thread(made.serve, "conductor", environment=LEASE, database=proxy.dsn)
        os.kill(other, signal.SIGSTOP)  # not yet: the first server is for the one whose connection is cut
        try:
            await boot(client, network, name="cut")
            await asyncio.wait_for(proxy.cut.wait(), 60)
        finally:
            os.kill(other, signal.SIGCONT)
        await boot(client, network, name="other")
        await others_go_on(made, client, "other", "cut")
        await settle(made)
        assert "Traceback" not in made.logs()
