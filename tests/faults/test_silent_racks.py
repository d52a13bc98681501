"""A rack whose agents fall silent, on real processes: it gets no servers, and nobody waits for it."""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import pytest
from tests.cluster import QUICK, Cluster, Process, boot, cluster, network_ids, settle, until

from roost.cli.asking.cloud_client import CloudClient

CLOUD = """
flavors: [{name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, segmentation_id: 101, subnets: [{cidr: 10.1.0.0/24}]}
      - {name: rack2, physical_network: rack2, segmentation_id: 102, subnets: [{cidr: 10.2.0.0/24}]}
hosts:
  - {name: 'r1-h[1-10]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
  - {name: 'r2-h[1-10]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack2]}
"""
RACKS = {rack: {f"{rack}-h{number}" for number in range(1, 11)} for rack in ("r1", "r2")}
SHORT = {**QUICK, "ROOST_COMPUTE_HOST_DOWN_AFTER_S": "3", "ROOST_CONDUCTOR_BEGIN_TIMEOUT_S": "3"}
by_hand = pytest.mark.skipif("ROOST_SILENT_RACKS" not in os.environ, reason="takes minutes: ROOST_SILENT_RACKS=1")

Agents = dict[str, Process]


@contextmanager
def two_racks(environment: Mapping[str, str]) -> Iterator[tuple[Cluster, Agents]]:
    """Two racks of ten hosts, each with an agent process of its own."""
    with cluster(environment) as made:
        made.serve()
        made.load(CLOUD)
        agents = {
            rack: made.agent(*(f"--host={host}" for host in sorted(hosts)), state=f"agent-{rack}")
            for rack, hosts in RACKS.items()
        }
        try:
            yield made, agents
        finally:
            for agent in agents.values():
                agent.send_signal(signal.SIGCONT)


@asynccontextmanager
async def client_of(made: Cluster) -> AsyncIterator[tuple[CloudClient, str]]:
    async with CloudClient.connect(made.url) as client:
        yield client, (await network_ids(client))["public"]


async def built(client: CloudClient, *, within_s: float) -> tuple[Counter[tuple[str, str]], float]:
    """(status, rack) -> how many servers, once none is BUILD, and after how many seconds that was."""
    began_s = time.monotonic()
    while True:
        servers = await client.list_servers()
        seconds = time.monotonic() - began_s
        if all(server["status"] != "BUILD" for server in servers):
            break
        assert seconds < within_s, Counter(server["status"] for server in servers)
        await asyncio.sleep(0.1)  # other processes are at work; nothing here can move their clocks
    hosts = [(server["status"], str(server["OS-EXT-SRV-ATTR:host"]).split("-")[0]) for server in servers]
    return Counter(hosts), seconds


async def until_up(made: Cluster, hosts: set[str]) -> float:
    """Seconds until these hosts are up, and no others."""
    began_s = time.monotonic()

    async def so() -> bool:
        return made.hosts_up() == hosts

    await until(so, what="hosts are not up, or not down, as they should be")
    return time.monotonic() - began_s


async def test_a_silent_rack_gets_no_servers_until_it_polls_again() -> None:
    with two_racks(SHORT) as (made, agents):
        agents["r1"].send_signal(signal.SIGSTOP)
        await until_up(made, RACKS["r2"])
        async with client_of(made) as (client, network):
            await boot(client, network, count=60)
            assert (await built(client, within_s=60))[0] == {("ACTIVE", "r2"): 60}
            agents["r1"].send_signal(signal.SIGCONT)
            await until_up(made, RACKS["r1"] | RACKS["r2"])
            await boot(client, network, count=60)
            counts, _ = await built(client, within_s=60)
            assert counts["ACTIVE", "r1"] > 0, "it is chosen again"
            assert sum(counts.values()) == counts["ACTIVE", "r1"] + counts["ACTIVE", "r2"] == 120
        await settle(made)


async def test_servers_that_were_sent_to_a_rack_as_it_fell_silent_run_elsewhere() -> None:
    with two_racks(SHORT) as (made, agents):
        async with client_of(made) as (client, network):
            agents["r1"].send_signal(signal.SIGSTOP)
            await boot(client, network, count=60)
            assert (await built(client, within_s=60))[0] == {("ACTIVE", "r2"): 60}
            agents["r1"].send_signal(signal.SIGCONT)
            await settle(made)
            assert {launch["host"].split("-")[0] for launch in made.launches()} == {"r2"}, "nothing was begun twice"


async def test_with_every_host_silent_a_server_ends_in_error_and_says_so() -> None:
    with two_racks(SHORT) as (made, agents):
        async with client_of(made) as (client, network):
            for agent in agents.values():
                agent.send_signal(signal.SIGSTOP)
            await boot(client, network, name="at-once")
            await built(client, within_s=3 * 3 + 20)
            await until_up(made, set())
            await boot(client, network, name="later")
            await built(client, within_s=20)
            faults = {server["name"]: server["fault"]["message"] for server in await client.list_servers()}
            assert "did not begin to launch the server within 3 s" in faults["at-once"]
            assert "20 hosts considered, 0 up and enabled (20 down)" in faults["later"]
            assert "20 hosts are down: start the agent of a host" in faults["later"]
        for agent in agents.values():
            agent.send_signal(signal.SIGCONT)
        await settle(made)


async def test_after_a_stop_of_the_whole_control_plane_no_host_is_taken_for_silent() -> None:
    """Agents were not heard of for longer than host_down_after_s, and nobody had listened."""
    with two_racks({**SHORT, "ROOST_COMPUTE_HOST_DOWN_AFTER_S": "8"}) as (made, agents):  # a busy start takes seconds
        made.stop(made.processes[0])
        for agent in agents.values():
            agent.send_signal(signal.SIGSTOP)
        await asyncio.sleep(9)  # the silence itself
        made.serve()
        assert made.hosts_up() == RACKS["r1"] | RACKS["r2"]
        await until_up(made, set())


@by_hand
async def test_with_default_settings_a_rack_silent_for_a_minute_costs_nobody_15_s(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """ROOST_SILENT_RACKS=1 .venv/bin/python -m pytest -s tests/faults/test_silent_racks.py -k default_settings"""
    with two_racks({}) as (made, agents):
        async with client_of(made) as (client, network):
            agents["r1"].send_signal(signal.SIGSTOP)
            out_s = await until_up(made, RACKS["r2"])
            await asyncio.sleep(60 - out_s)
            await boot(client, network, count=60)
            counts, seconds = await built(client, within_s=15)
            assert counts == {("ACTIVE", "r2"): 60}
            agents["r1"].send_signal(signal.SIGCONT)
            back_s = await until_up(made, RACKS["r1"] | RACKS["r2"])
            assert out_s <= 30
        await settle(made)
    with capsys.disabled():
        sys.stdout.write(
            f"\nout after {out_s:.1f} s, 60 boots ACTIVE after {seconds:.1f} s, back after {back_s:.1f} s\n"
        )


@by_hand
@pytest.mark.parametrize("seen_before_s", [0, 13])
async def test_with_default_settings_boots_of_the_second_a_rack_falls_silent_take_no_minute(
    capsys: pytest.CaptureFixture[str], seen_before_s: float
) -> None:
    """ROOST_SILENT_RACKS=1 .venv/bin/python -m pytest -s tests/faults/test_silent_racks.py -k default_settings"""
    with two_racks({}) as (made, agents):
        async with client_of(made) as (client, network):
            await asyncio.sleep(seen_before_s)
            agents["r1"].send_signal(signal.SIGSTOP)
            await boot(client, network, count=60)
            counts, seconds = await built(client, within_s=60)
            assert counts == {("ACTIVE", "r2"): 60}
            for agent in agents.values():
                agent.send_signal(signal.SIGSTOP)
            await boot(client, network, count=10, name="nowhere")
            nowhere, error_s = await built(client, within_s=60)
            assert nowhere["ERROR", "None"] == 10
        for agent in agents.values():
            agent.send_signal(signal.SIGCONT)
        await settle(made)
    with capsys.disabled():
        sys.stdout.write(
            f"\n60 boots ACTIVE after {seconds:.1f} s, 10 boots with every host silent in ERROR after {error_s:.1f} s\n"
        )
