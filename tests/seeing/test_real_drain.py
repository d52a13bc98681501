"""A drain of six real guests on hosts that are namespaces: the conductor and two agents are killed in the middle.

tests/seeing/test_drain_processes.py shows the same of hosts that pretend.
"""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest
from tests.agent.qemu.site import prepare_whole_roost
from tests.cluster import until
from tests.faults.moving import act, all_are, servers_by_id
from tests.processes import names_of

from roost.agent.drivers.qemu.check import choose_accel
from roost.agent.drivers.qemu.image import CACHE
from roost.cli.asking.cloud_client import CloudClient, Json
from roost.cli.asking.cloudfile import parse_cloud
from roost.cli.asking.loading import load
from roost.cli.asking.local_cloud import running_cloud
from roost.cli.asking.real_hosts import RealHosts, agent_command, running_hosts
from roost.cli.asking.real_probes import answers, echo_client

CLOUD = """
flavors: [{name: tiny, vcpus: 1, ram_mb: 96, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: flat, subnets: [{cidr: 203.0.113.0/28}]}
hosts: [{name: 'r1-h[1-4]', vcpus: 8, ram_mb: 2048, disk_gb: 20, physical_networks: [rack1]}]
"""
DRAINED, OTHERS = ("r1-h1", "r1-h2"), ("r1-h3", "r1-h4")
GUESTS = 6
TIMEOUT_S = 240.0

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def works_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip with the name of what lacks. Where continuous integration could have had it, that is a failure."""
    prepare_whole_roost(monkeypatch)
    monkeypatch.setenv("ROOST_CONDUCTOR_LEASE_S", "5")
    monkeypatch.setenv("ROOST_CONDUCTOR_RECHECK_S", "1")


async def test_six_real_guests_leave_while_a_conductor_and_two_agents_are_killed(data_dir: Path) -> None:
    cloud = parse_cloud(CLOUD, name="one real rack")[0]
    async with contextlib.AsyncExitStack() as stack:
        local = running_cloud(data_dir, listen="127.0.0.1:0", log_file=data_dir / "test.log", pretends=False)
        roost = await stack.enter_async_context(local)
        loaded = await load(roost.client, cloud, servers=False, progress=lambda *_: None)
        hosts = await stack.enter_async_context(running_hosts(cloud, roost, data_dir, temporary=False))
        client = roost.client

        async def are_up() -> bool:
            return await client.list_hosts_up() == {*DRAINED, *OTHERS}

        await until(are_up)
        before = await fill(client, loaded.flavors["tiny"], loaded.networks["public"])
        running = [server for server in before.values() if server["status"] == "ACTIVE"]
        fabric = hosts.network.fabric
        await until_all_answer(fabric, running)
        body = {"hosts": list(DRAINED), "parallel": 2}
        drain = (await client.call("POST", "/roost/v1/drains", body))["drain"]
        async with echo_client(fabric, address_of(running[0])) as count:
            await progressed(client, drain["id"])
            kill_conductor(roost.processes["roost serve"].pid)
            for name in DRAINED:
                hosts.local.processes[f"roost agent of {name}"].kill()
            for name in DRAINED:
                await start_agent(stack, hosts, name)
            drain = await over(client, drain["id"])
            rounds = count.rounds
            await asyncio.sleep(1)
        assert count.lost is None
        assert count.rounds > rounds
        assert (drain["state"], drain["staying"]) == ("done", [])
        after = await servers_by_id(client)
        assert {key: (one["status"], one["addresses"]) for key, one in after.items()} == {
            key: (one["status"], one["addresses"]) for key, one in before.items()
        }
        assert {one["OS-EXT-SRV-ATTR:host"] for one in after.values()} <= set(OTHERS)
        await until_all_answer(fabric, running)
        guests = {path.name for host in DRAINED for path in (hosts.directory / host / "guests").glob("*")}
        assert guests == set()


async def fill(client: CloudClient, flavor_id: str, network_id: str) -> dict[str, Json]:
    """Boot all guests on the hosts that are to be drained, and stop two; return them."""
    for host in OTHERS:
        await set_status(client, host, "disable")
    for number in range(GUESTS):
        await client.boot(f"web-{number}", flavor_id, [{"uuid": network_id}])
    await all_are(client, "ACTIVE")
    for host in OTHERS:
        await set_status(client, host, "enable")
    stopped = sorted(await servers_by_id(client))[:2]
    for server_id in stopped:
        await act(client, server_id, "os-stop")

    async def are_stopped() -> bool:
        servers = await servers_by_id(client)
        return all(servers[server_id]["status"] == "SHUTOFF" for server_id in stopped)

    await until(are_stopped, timeout_s=TIMEOUT_S)
    return await servers_by_id(client)


async def set_status(client: CloudClient, host: str, action: str) -> None:
    await client.call("PUT", f"/compute/v2.1/os-services/{action}", {"host": host, "binary": "nova-compute"})


def address_of(server: Json) -> str:
    ((address,),) = server["addresses"].values()
    return str(address["addr"])


async def until_all_answer(fabric: str, servers: list[Json]) -> None:
    async def answer() -> bool:
        return all(await asyncio.gather(*(answers(fabric, address_of(server)) for server in servers)))

    await until(answer, timeout_s=TIMEOUT_S)


async def show(client: CloudClient, drain_id: int) -> Json:
    drain: Json = (await client.call("GET", f"/roost/v1/drains/{drain_id}"))["drain"]
    return drain


async def progressed(client: CloudClient, drain_id: int) -> None:
    """Until a server has left, so that others are in the middle."""

    async def has() -> bool:
        return bool((await show(client, drain_id))["gone"])

    await until(has, timeout_s=TIMEOUT_S)


async def over(client: CloudClient, drain_id: int) -> Json:
    async def ended() -> bool:
        return bool((await show(client, drain_id))["ended_at"])

    await until(ended, timeout_s=TIMEOUT_S)
    return await show(client, drain_id)


def kill_conductor(supervisor: int) -> None:
    (pid,) = (pid for pid, name in names_of(supervisor).items() if name.startswith("conductor"))
    os.kill(pid, signal.SIGKILL)


async def start_agent(stack: contextlib.AsyncExitStack, hosts: RealHosts, name: str) -> None:
    """Start the host's agent again, which finds what runs there."""
    host = next(host for host in hosts.network.hosts if host.name == name)
    port = int(hosts.local.url.rpartition(":")[2])
    command = agent_command(host, hosts.directory, port, await choose_accel(CACHE))
    await stack.enter_async_context(hosts.local.running_agent(*command, namespace=host.namespace))
