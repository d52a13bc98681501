"""What breaks around the pipeline: the database, the supervisor, agents. Nothing is lost or leaked."""

import asyncio
import os
import signal
from collections import Counter

from tests.cluster import Cluster, boot, cluster, network_ids, settle, until

from roost.cli.asking.cloud_client import CloudClient, CloudRefused
from roost.platform.postgres import PrivatePostgres

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/28}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 2, subnets: [{cidr: 10.2.0.0/28}]}
hosts:
  - {name: 'r1-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
  - {name: 'r2-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack2]}
"""
ADDRESSES = 26


async def statuses(client: CloudClient) -> Counter[str]:
    return Counter(server["status"] for server in await client.list_servers())


async def delete_all(made: Cluster, client: CloudClient) -> None:
    for server in await client.list_servers():
        await client.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    await settle(made)
    assert not await client.list_servers()


async def test_postgresql_killed_under_load_is_started_again_and_every_accepted_server_comes_to_its_end() -> None:
    with cluster() as made:
        made.serve(conductors=2)
        made.load(CLOUD)
        made.agent("--fake-delay=0.2")
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            refused = 0
            for number in range(ADDRESSES):
                if number in (5, 15):
                    pid = PrivatePostgres(made.data_dir).postmaster_pid()
                    assert pid is not None
                    os.kill(pid, signal.SIGKILL)
                while True:
                    try:
                        await boot(client, network, name=f"s{number}")
                        break
                    except CloudRefused as error:
                        if error.status != 503:
                            raise
                        refused += 1
                        await asyncio.sleep(0.05)  # a client that was told to try again
            assert refused > 0
            await settle(made)
            # A boot whose answer was lost may have been accepted all the same: it then has no address left to take.
            found = await statuses(client)
            assert found["ACTIVE"] == ADDRESSES
            assert set(found) <= {"ACTIVE", "ERROR"}
            await delete_all(made, client)


async def test_everything_killed_at_once_goes_on_after_a_restart() -> None:
    with cluster() as made:
        made.serve()
        made.load(CLOUD)
        made.agent("--fake-delay=0.3", state="agent-1")
        async with CloudClient.connect(made.url) as client:
            await boot(client, (await network_ids(client))["public"], count=ADDRESSES)
            pid = PrivatePostgres(made.data_dir).postmaster_pid()
            for process in list(made.processes):
                made.stop(process, signal.SIGKILL)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        made.serve()
        made.agent(state="agent-1")
        async with CloudClient.connect(made.url) as client:
            await settle(made)
            assert await statuses(client) == {"ACTIVE": ADDRESSES}
            await delete_all(made, client)


async def test_launches_that_fail_on_every_host_end_in_error_and_leave_nothing() -> None:
    with cluster() as made:
        made.serve()
        made.load(CLOUD)
        made.agent("--fake-fail=always")
        async with CloudClient.connect(made.url) as client:
            await boot(client, (await network_ids(client))["public"], count=6)
            await settle(made)
            servers = await client.list_servers()
            assert await statuses(client) == {"ERROR": 6}
            assert all("Exceeded maximum number of retries" in server["fault"]["message"] for server in servers)
            tried = Counter(launch["server_id"] for launch in made.launches())
            assert set(tried.values()) == {3}
            assert not await client.list_all("/network/v2.0/ports", "ports")
            await delete_all(made, client)


async def test_an_agent_that_vanishes_in_a_launch_holds_its_servers_until_it_is_back() -> None:
    with cluster() as made:
        made.serve()
        made.load(CLOUD)
        made.agent("--fake-fail=vanish", state="agent-1")
        async with CloudClient.connect(made.url) as client:
            await boot(client, (await network_ids(client))["public"], count=4)

            async def all_begun() -> bool:
                return len(made.launches()) == 4

            await until(all_begun)
            assert await statuses(client) == {"BUILD": 4}
            made.stop(made.processes[-1], signal.SIGKILL)
            made.agent(state="agent-1")
            await settle(made)
            assert await statuses(client) == {"ACTIVE": 4}
            assert len({launch["server_id"] for launch in made.launches()}) == 4
            await delete_all(made, client)


async def test_deletes_at_random_moments_of_builds_leave_nothing() -> None:
    with cluster() as made:
        made.serve(conductors=2)
        made.load(CLOUD)
        made.agent("--fake-delay=0.1")
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            for moment in range(12):
                await boot(client, network, count=3, name=f"s{moment}")
                await asyncio.sleep(moment * 0.02)  # another moment of the build each time
                for server in await client.list_servers():
                    if server["name"].startswith(f"s{moment}-") or server["name"] == f"s{moment}":
                        await client.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
            await settle(made)
            assert not await client.list_servers()
            assert not await client.list_all("/network/v2.0/ports", "ports")
            await boot(client, network, count=ADDRESSES)
            await settle(made)
            assert await statuses(client) == {"ACTIVE": ADDRESSES}
