"""Servers that are shelved on a host with disks while its agent is killed at each point on the way."""

import asyncio

from tests.cluster import Cluster, boot, cluster, network_ids, settle, until
from tests.faults.moving import act, all_are, servers_by_id

from roost.agent.drivers.fake import list_launches, list_present
from roost.cli.asking.cloud_client import CloudClient

CLOUD = """
flavors: [{name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/29}]}
hosts: [{name: h1, vcpus: 8, ram_mb: 8192, disk_gb: 100, physical_networks: [rack1]}]
"""
POINTS = ("agent.after-change", "agent.before-report", "agent.after-report")


async def start_agent(made: Cluster, *, crash_at: str = "") -> None:
    environment = {"ROOST_CRASH_AT": crash_at} if crash_at else None
    await asyncio.to_thread(lambda: made.agent("--fake-disks", state="agent-h1", environment=environment))


async def act_on_dying_agent(made: Cluster, client: CloudClient, server_id: str, action: str, *, crash_at: str) -> None:
    """Ask it of an agent that dies at that point, and start the agent again."""
    await asyncio.to_thread(made.stop, made.processes[-1], 9)
    await start_agent(made, crash_at=crash_at)
    dying = made.processes[-1]
    await act(client, server_id, action)

    async def is_dead() -> bool:
        return dying.poll() is not None

    await until(is_dead, what=f"the agent does not come by {crash_at}")
    await start_agent(made)


async def test_an_agent_killed_there_goes_on_where_it_was_with_a_server_that_is_shelved() -> None:
    with cluster() as made:
        made.serve()
        made.load(CLOUD)
        await start_agent(made)
        async with CloudClient.connect(made.url) as client:
            await boot(client, (await network_ids(client))["public"])
            await all_are(client, "ACTIVE")
            (server_id,) = before = await servers_by_id(client)
            for point in POINTS:
                await act_on_dying_agent(made, client, server_id, "shelve", crash_at=point)
                await all_are(client, "SHELVED")
                assert list_present(made.directory / "agent-h1")[server_id, "h1"].state == "stopped"
                await settle(made)
                await act_on_dying_agent(made, client, server_id, "unshelve", crash_at=point)
                await all_are(client, "ACTIVE")
            after = await servers_by_id(client)
            assert after[server_id]["addresses"] == before[server_id]["addresses"]
            assert len(list_launches(made.directory / "agent-h1")) == 1, "its guest was never made anew"
            await settle(made)
