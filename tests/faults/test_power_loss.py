"""A conductor's machine loses its power inside a claim: PostgreSQL hears nothing any more over TCP, and nobody waits.

The conductor runs in a network namespace of its own, which is another machine to PostgreSQL; its link goes down.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator

import asyncpg
import pytest
from tests.cluster import boot, cluster, network_ids, settle, until
from tests.faults.test_stopped import CLAIMING, CLOUD, GATE, HAVE_GATE, LEASE, others_go_on

from roost.cli.asking.cloud_client import CloudClient
from roost.platform.database import Database
from roost.platform.postgres import PrivatePostgres

HERE, THERE = "10.213.97.1", "10.213.97.2"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def machine() -> Iterator[str]:
    """A namespace with a link to this one; its name, which is the name of the link's end here too."""
    name = f"roost{os.getpid() % 100_000}"
    if shutil.which("ip") is None:
        pytest.skip("no program `ip` (Debian's iproute2)")
    try:
        ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace can be made here: {error.stderr.decode().strip()}")
    try:
        ip("link", "add", name, "type", "veth", "peer", "name", "there", "netns", name)
        ip("address", "add", f"{HERE}/30", "dev", name)
        ip("link", "set", name, "up")
        ip("-n", name, "address", "add", f"{THERE}/30", "dev", "there")
        ip("-n", name, "link", "set", "there", "up")
        yield name
    finally:
        ip("netns", "del", name)  # and the link with it


async def test_a_machine_that_loses_its_power_in_a_claim_holds_up_nobody_for_long(machine: str) -> None:
    with cluster() as made:
        postgres = PrivatePostgres(made.data_dir, settings={"listen_addresses": HERE})
        await asyncio.to_thread(postgres.start)
        try:
            with (postgres.cluster / "pg_hba.conf").open("a") as access:
                access.write(f"host roost roost {THERE}/32 trust\n")
            await asyncio.to_thread(made.serve, "placement", "network", "compute", environment=LEASE)
            made.load(CLOUD)
            made.agent()
            database = await Database.open(made.dsn, size=3)
            try:
                async with database.connection() as gate, database.connection() as looking:
                    await gate.execute("SELECT pg_reload_conf()")
                    await gate.execute(HAVE_GATE)
                    await gate.execute(f"SELECT pg_advisory_lock({GATE})")
                    there = f"postgresql://roost@{HERE}/roost"
                    made.spawn("serve", "conductor", "--database", there, environment=LEASE, on_machine=machine)
                    async with CloudClient.connect(made.url) as client:
                        network = (await network_ids(client))["public"]
                        await boot(client, network, name="cut")
                        backend: int | None = None

                        async def claiming() -> bool:
                            nonlocal backend
                            backend = await looking.fetchval(CLAIMING)
                            return backend is not None

                        await until(claiming)
                        address = "SELECT host(client_addr) FROM pg_stat_activity WHERE pid = $1"
                        assert await looking.fetchval(address, backend) == THERE
                        ip("link", "set", machine, "down")
                        await gate.execute(f"SELECT pg_advisory_unlock({GATE})")
                        await asyncio.to_thread(made.serve, "conductor", environment=LEASE)
                        await boot(client, network, name="other")
                        await others_go_on(made, client, "other", "cut")
                        gone = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
                        assert await looking.fetchval(gone, backend) == 0
                        await settle(made)
            except asyncpg.PostgresError as error:
                raise AssertionError(made.logs()) from error
            finally:
                await database.close()
        finally:
            await asyncio.to_thread(postgres.stop)
