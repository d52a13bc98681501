"""Hosts that are cut off while their guests run, with real agents: silence gives nothing away, a kept promise does."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.agent_proxy import AgentProxy
from tests.cluster import PATH, QUICK, Cluster, boot, cluster, network_ids, settle, until
from tests.faults.moving import act, all_are, force_down, list_overlaps, servers_by_id
from tests.world import cut_power

from roost.agent.drivers.fake import list_guests, read_nics_end
from roost.cli.asking.cloud_client import CloudClient
from roost.platform.errors import RoostError

CLOUD = """
flavors: [{name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/29}]}
"""
SOURCE, OTHER = "h1", "h2"
DOWN_AFTER_S, FENCE_AFTER_S = 3.0, 3.0
SHORT = {**QUICK, "ROOST_COMPUTE_HOST_DOWN_AFTER_S": str(DOWN_AFTER_S)}
PROMISING_AGENT = f"""
import asyncio, sys
from pathlib import Path
from roost.agent.agent import run
from roost.agent.drivers.fake import FakeDriver
from roost.seams.agent import HostReport
host = HostReport(name={SOURCE!r}, vcpus=64, ram_mb=65536, disk_gb=100, physical_networks=("rack1",))
asyncio.run(run(api_url=sys.argv[1], hosts=[host], driver=FakeDriver(Path(sys.argv[2])), fence_after_s={FENCE_AFTER_S}))
"""


@pytest.fixture
def made() -> Iterator[Cluster]:
    with cluster(SHORT) as made:
        made.serve()
        made.load(CLOUD)
        yield made


def agent(made: Cluster, host: str, url: str) -> None:
    directory = made.directory / f"agent-{host}"
    words = ("--api", url, f"--host={host}", "--physical-network=rack1", "--state", str(directory))
    made.spawn("agent", *words)
    made.wait_for_hosts({host})


@contextmanager
def promising_agent(made: Cluster) -> Iterator[subprocess.Popen[bytes]]:
    """An agent of SOURCE that promises less than the command line lets it."""
    words = [sys.executable, "-c", PROMISING_AGENT, made.url, str(made.directory / f"agent-{SOURCE}")]
    with (made.directory / "promising.log").open("ab") as log:
        process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": PATH}, stdout=log, stderr=log)
    try:
        made.wait_for_hosts({SOURCE})
        yield process
    finally:
        process.kill()
        process.wait()


async def boots(client: CloudClient, count: int) -> list[str]:
    await boot(client, (await network_ids(client))["public"], count=count)
    await all_are(client, "ACTIVE")
    return sorted(await servers_by_id(client))


async def evacuate(client: CloudClient, server_id: str) -> str:
    """Ask for it; return why not, or ''."""
    try:
        await act(client, server_id, "evacuate", {})
    except RoostError as error:
        return str(error)
    return ""


async def test_a_host_that_is_cut_off_keeps_its_servers_and_their_addresses(made: Cluster) -> None:
    async with CloudClient.connect(made.url) as client, AgentProxy.listening(client) as proxy:
        await asyncio.to_thread(agent, made, SOURCE, proxy.url)
        first, second = await boots(client, 2)
        await asyncio.to_thread(agent, made, OTHER, made.url)
        before = await servers_by_id(client)
        proxy.cut()

        async def is_down() -> bool:
            return SOURCE not in await asyncio.to_thread(made.hosts_up)

        await until(is_down, what="the host is not noted as silent")
        refusal = await evacuate(client, first)
        assert "409" in refusal
        assert f"may still run on host {SOURCE}, which is only silent" in refusal
        await client.call("DELETE", f"/compute/v2.1/servers/{second}")
        await asyncio.sleep(2)  # several rounds of conductors and reconcilers
        assert len(await client.list_all("/network/v2.0/ports", "ports")) == 2
        assert set(list_guests(made.directory / f"agent-{SOURCE}")) == {(first, SOURCE), (second, SOURCE)}

        cut_power(made.directory, SOURCE)
        await force_down(client, SOURCE, True)
        assert await evacuate(client, first) == ""

        async def is_moved() -> bool:
            server = (await servers_by_id(client)).get(first, {})
            return (server.get("status"), server.get("OS-EXT-SRV-ATTR:host")) == ("ACTIVE", OTHER)

        await until(is_moved, what="the server is not evacuated")
        assert (await servers_by_id(client))[first]["addresses"] == before[first]["addresses"]
        proxy.heal()
        await force_down(client, SOURCE, False)
        await settle(made)
        assert not list_guests(made.directory / f"agent-{SOURCE}")
        assert list_overlaps(made.directory) == []


async def test_a_promise_lets_a_dead_agents_servers_be_evacuated_and_the_rest_come_up_again(made: Cluster) -> None:
    state = made.directory / f"agent-{SOURCE}"
    async with CloudClient.connect(made.url) as client:
        with promising_agent(made) as process:
            evacuated, kept = await boots(client, 2)
            await asyncio.to_thread(agent, made, OTHER, made.url)
            process.kill()
        nics_end_ns = read_nics_end(state).of(SOURCE)
        assert nics_end_ns is not None

        async def is_accepted() -> bool:
            refusal = await evacuate(client, evacuated)
            assert not refusal or "NICs are down" in refusal or "still in use" in refusal, refusal
            return not refusal

        await until(is_accepted, what="the promise is not believed")
        assert time.time_ns() > nics_end_ns, "its NICs may still be up"
        with promising_agent(made):

            async def are_up() -> bool:
                return (read_nics_end(state).of(SOURCE) or 0) > time.time_ns()

            await until(are_up, what="NICs do not come up again")
            assert evacuated not in {server_id for server_id, _ in list_guests(state)}
            await settle(made)
            assert set(list_guests(state)) == {(kept, SOURCE)}
            assert set(list_guests(made.directory / f"agent-{OTHER}")) == {(evacuated, OTHER)}


async def test_an_agent_waits_for_the_lease_of_one_that_died_and_says_until_when(made: Cluster) -> None:
    async with CloudClient.connect(made.url):
        await asyncio.to_thread(agent, made, SOURCE, made.url)
        made.stop(made.processes[-1], 9)
        words = ("--api", made.url, f"--host={SOURCE}", "--state")
        hasty = made.spawn("agent", *words, str(made.directory / "hasty"), "--no-wait")
        assert await asyncio.to_thread(hasty.wait, 30) == 1
        assert "whose lease ends in" in made.log_of(hasty)
        heir = made.spawn("agent", *words, str(made.directory / "agent-heir"))

        async def has_waited() -> bool:
            return "waiting for the lease of another agent to end" in made.log_of(heir)

        await until(has_waited, what="it does not say that it waits")
        await until(lambda: _is_up(made), what="it does not get the host")
        assert heir.poll() is None


async def _is_up(made: Cluster) -> bool:
    return SOURCE in await asyncio.to_thread(made.hosts_up)
