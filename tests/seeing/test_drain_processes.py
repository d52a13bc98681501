"""Drains on real processes of which some are killed: every server is elsewhere, or listed with its reason.

The figures of the large one: `pytest -s -n 0 --timeout 1800 -m long tests/seeing/test_drain_processes.py`.
"""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from functools import partial

import pytest
from msgspec import Struct
from tests.cluster import QUICK, Cluster, Process, boot, cluster, network_ids, settle, until
from tests.faults.moving import act, all_are, list_overlaps, servers_by_id
from tests.processes import names_of

from roost.cli.asking.cloud_client import CloudClient, Json

CLOUD = """
flavors: [{{name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}}]
networks:
  - name: public
    segments:
      - {{name: rack1, physical_network: rack1, segmentation_id: 101, subnets: [{{cidr: 10.1.0.0/20}}]}}
hosts:
  - {{name: 'full-[1-{hosts}]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}}
  - {{name: 'free-[1-{others}]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}}
"""
QUICKLY_SILENT = {**QUICK, "ROOST_COMPUTE_HOST_DOWN_AFTER_S": "5"}
BOOTS_AT_ONCE = 100


class Size(Struct, frozen=True, kw_only=True):
    """hosts: to be drained; others: where servers may go. agents: of each kind; agents_killed: of those drained."""

    hosts: int
    others: int
    servers: int
    parallel: int
    agents: int
    agents_killed: int = 0

    def names(self, kind: str) -> list[str]:
        return [f"{kind}-{number}" for number in range(1, (self.hosts if kind == "full" else self.others) + 1)]


SMALL = Size(hosts=1, others=2, servers=12, parallel=4, agents=1)
LARGE = Size(hosts=40, others=40, servers=800, parallel=40, agents=4, agents_killed=2)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("size", [SMALL, pytest.param(LARGE, marks=pytest.mark.long)], ids=["small", "large"])
async def test_every_server_leaves_or_is_listed_whoever_is_killed(size: Size) -> None:
    with cluster(QUICKLY_SILENT if size.agents_killed else QUICK) as made:
        made.serve(workers=1, conductors=2)
        made.load(CLOUD.format(hosts=size.hosts, others=size.others))
        agents = start_agents(made, size)
        async with CloudClient.connect(made.url) as client:
            before = await fill(client, size)
            began_s = time.monotonic()
            drain = await begin(client, size)
            await gone(client, drain["id"], size.servers // 4)
            kill_conductor(made)
            victims = [f"full-{number}" for number in range(size.agents_killed)]
            for state in victims:
                made.stop(agents[state], signal.SIGKILL)
            await asyncio.sleep(0)
            for state in victims[1:]:  # one comes back, the other does not
                agents[state] = start_agent(made, size, state)
            if victims:  # the servers of a host that does not come back are waited for, to a deadline
                await at_rest(client, drain["id"])
                await begin(client, size, deadline_s=1)
            drain = await over(client, drain["id"])
            drained_s = time.monotonic() - began_s
            await check_listed(client, drain, size, before)
            staying = sorted({one["reason"] for one in drain["staying"]})
            figures = f"{drain['gone']} of {drain['servers']} servers gone after {drained_s:.0f} s, stay: {staying}"
            print(figures)  # noqa: T201 - the figures
            if victims:
                start_agent(made, size, victims[0])
                made.wait_for_hosts({*size.names("full"), *size.names("free")})
                await until(partial(none_in_error, client))
                drain = await over(client, (await begin(client, size))["id"])
            assert (drain["state"], drain["staying"]) == ("done", [])
            await check_listed(client, drain, size, before)
            await settle(made, timeout_s=300)
            assert list_overlaps(made.directory) == []
            disabled = {
                service["host"]: service["disabled_reason"]
                for service in await client.list_all("/compute/v2.1/os-services", "services")
                if service["status"] == "disabled"
            }
            assert disabled.keys() == set(size.names("full"))
            assert all(reason.startswith("roost drain ") for reason in disabled.values())


def hosts_of(size: Size, state: str) -> list[str]:
    """The hosts of an agent: every so manieth of its kind."""
    kind, _, number = state.partition("-")
    return size.names(kind)[int(number) :: size.agents]


def start_agents(made: Cluster, size: Size) -> dict[str, Process]:
    states = [f"{kind}-{number}" for kind in ("full", "free") for number in range(size.agents)]
    agents = {state: start_agent(made, size, state) for state in states}
    made.wait_for_hosts({*size.names("full"), *size.names("free")})
    return agents


def start_agent(made: Cluster, size: Size, state: str) -> Process:
    words = [f"--host={host}" for host in hosts_of(size, state)]
    return made.agent(*words, "--physical-network=rack1", state=f"agent-{state}", wait=False)


async def fill(client: CloudClient, size: Size) -> dict[str, Json]:
    """Boot all servers on the hosts that are to be drained, and stop every fourth; return them."""
    await set_status(client, size.names("free"), "disable")
    network = (await network_ids(client))["public"]
    for first in range(0, size.servers, BOOTS_AT_ONCE):
        await boot(client, network, count=min(BOOTS_AT_ONCE, size.servers - first), name=f"web{first}")
    await all_are(client, "ACTIVE")
    await set_status(client, size.names("free"), "enable")
    server_ids = sorted(await servers_by_id(client))
    for server_id in server_ids[::4]:
        await act(client, server_id, "os-stop")

    async def stopped() -> bool:
        servers = await client.list_servers()
        return sum(server["status"] == "SHUTOFF" for server in servers) == len(server_ids[::4])

    await until(stopped)
    return await servers_by_id(client)


async def set_status(client: CloudClient, hosts: Sequence[str], action: str) -> None:
    for host in hosts:
        await client.call("PUT", f"/compute/v2.1/os-services/{action}", {"host": host, "binary": "nova-compute"})


async def begin(client: CloudClient, size: Size, *, deadline_s: float | None = None) -> Json:
    """Begin the drain, or find it again and give it a deadline."""
    body = {"hosts": size.names("full"), "parallel": size.parallel, "deadline_s": deadline_s}
    begun = await client.call("POST", "/roost/v1/drains", body)
    assert deadline_s is not None or begun["plan"]["staying"] == []
    drain: Json = begun["drain"]
    return drain


async def show(client: CloudClient, drain_id: int) -> Json:
    drain: Json = (await client.call("GET", f"/roost/v1/drains/{drain_id}"))["drain"]
    return drain


async def gone(client: CloudClient, drain_id: int, count: int) -> None:
    """Until so many servers have left."""

    async def have() -> bool:
        return int((await show(client, drain_id))["gone"]) >= count

    await until(have, timeout_s=300)


async def at_rest(client: CloudClient, drain_id: int) -> None:
    """Until nothing moves and nothing is to begin: what is left waits for its host, or stays."""

    async def waits() -> bool:
        drain = await show(client, drain_id)
        return (
            not drain["moving"]
            and not drain["ready"]
            and all("down" in one["reason"] or one["final"] for one in drain["staying"])
        )

    await until(waits, timeout_s=900)


async def none_in_error(client: CloudClient) -> bool:
    """Whether hosts that came back have shown that their servers are there."""
    return not any(server["status"] == "ERROR" for server in await client.list_servers())


async def over(client: CloudClient, drain_id: int) -> Json:
    """Until nothing is done any more; return the drain."""

    async def ended() -> bool:
        return bool((await show(client, drain_id))["ended_at"])

    await until(ended, timeout_s=900)
    return await show(client, drain_id)


def kill_conductor(made: Cluster) -> None:
    """Kill the conductor that works on the drain; its supervisor starts another."""
    pids = sorted(pid for pid, name in names_of(made.processes[0].pid).items() if name.startswith("conductor"))
    os.kill(pids[0], signal.SIGKILL)


async def check_listed(client: CloudClient, drain: Json, size: Size, before: dict[str, Json]) -> None:
    """Each server is there, as it was, and has nothing on a drained host unless the drain lists it with a reason."""
    after = await servers_by_id(client)
    assert after.keys() == before.keys()
    full = set(size.names("full"))
    on_full = {server_id for server_id, server in after.items() if server["OS-EXT-SRV-ATTR:host"] in full}
    reasons = {one["server_id"]: one["reason"] for one in drain["staying"]}
    assert on_full <= reasons.keys()
    assert all(reasons.values())
    assert all("its move waits for host" in reasons[server_id] for server_id in reasons.keys() - on_full)
    for server_id, server in after.items():
        assert server["addresses"] == before[server_id]["addresses"]
        if server_id not in reasons:
            assert server["status"] == before[server_id]["status"], server
