"""A host that dies with servers in every state, and with every action under way: all are evacuated, by real agents."""

import signal
from collections.abc import Iterator

import pytest
from tests.cluster import QUICK, Cluster, boot, cluster, network_ids, settle, until
from tests.faults.moving import act, all_are, force_down, list_overlaps, servers_by_id
from tests.world import cut_power

from roost.cli.asking.cloud_client import CloudClient

CLOUD = """
flavors: [{name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/26}]}
"""
SOURCE, OTHER = "h1", "h2"
BODIES: dict[str, object] = {
    "os-stop": None, "os-start": None, "pause": None, "unpause": None, "suspend": None, "resume": None,
    "reboot": {"type": "SOFT"}, "hard": {"type": "HARD"}, "os-resetState": {"state": "error"},
    "rebuild": {"imageRef": "1a9e0000-0000-4000-8000-000000000001"},
}  # fmt: skip
EARLIER = {"os-start": "os-stop", "unpause": "pause", "resume": "suspend"}
STATES = {"running": None, "stopped": "os-stop", "paused": "pause", "suspended": "suspend", "error": "os-resetState"}
ACTIONS = [name for name in BODIES if name != "os-resetState"]


@pytest.fixture
def made() -> Iterator[Cluster]:
    with cluster({**QUICK, "ROOST_COMPUTE_HOST_DOWN_AFTER_S": "3"}) as made:
        made.serve()
        made.load(CLOUD)
        yield made


async def ask(client: CloudClient, server_id: str, name: str) -> None:
    await act(client, server_id, "reboot" if name == "hard" else name, BODIES[name])


async def quiet(client: CloudClient) -> None:
    async def is_quiet() -> bool:
        return all(server["OS-EXT-STS:task_state"] is None for server in (await servers_by_id(client)).values())

    await until(is_quiet, what="something is still being done")


async def test_all_servers_of_a_host_that_died_are_evacuated(made: Cluster) -> None:
    source = made.agent(f"--host={SOURCE}", "--physical-network=rack1", state=f"agent-{SOURCE}")
    async with CloudClient.connect(made.url) as client:
        await boot(client, (await network_ids(client))["public"], count=len(STATES) + len(ACTIONS))
        await all_are(client, "ACTIVE")
        before = await servers_by_id(client)
        names = dict(zip(before, [*STATES, *ACTIONS], strict=True))
        for server_id, name in names.items():
            if earlier := STATES.get(name) or EARLIER.get(name):
                await ask(client, server_id, earlier)
        await quiet(client)
        source.send_signal(signal.SIGSTOP)
        for server_id, name in names.items():
            if name in ACTIONS:
                await ask(client, server_id, name)
        busy = {s["id"] for s in (await servers_by_id(client)).values() if s["OS-EXT-STS:task_state"]}
        assert {names[server_id] for server_id in busy} == set(ACTIONS)
        made.stop(source, signal.SIGKILL)
        cut_power(made.directory, SOURCE)
        made.agent(f"--host={OTHER}", "--physical-network=rack1", state=f"agent-{OTHER}")
        await force_down(client, SOURCE, True)
        for server_id in names:
            await act(client, server_id, "evacuate", {})
        await quiet(client)
        after = await servers_by_id(client)
        for server_id, name in names.items():
            server = after[server_id]
            assert server["OS-EXT-SRV-ATTR:host"] == OTHER, (name, server)
            assert server["status"] in ("ACTIVE", "SHUTOFF"), (name, server)
            assert server["addresses"] == before[server_id]["addresses"]
        for name in ("paused", "suspended"):
            (server_id,) = [one for one, its in names.items() if its == name]
            assert after[server_id]["status"] == "SHUTOFF"
        made.agent(f"--host={SOURCE}", "--physical-network=rack1", state=f"agent-{SOURCE}", wait=False)
        await force_down(client, SOURCE, False)
        await settle(made)
        assert list_overlaps(made.directory) == []
