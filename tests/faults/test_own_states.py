"""What guests do by themselves, with real agents: they stop, crash, run, are paused; their hosts are started anew."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import Cluster, boot, cluster, network_ids, settle, until
from tests.faults.moving import act, all_are, servers_by_id

from roost.agent.drivers.fake import list_present
from roost.cli.asking.cloud_client import CloudClient, Json

CLOUD = """
flavors: [{name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/29}]}
hosts: [{name: h1, vcpus: 8, ram_mb: 8192, disk_gb: 100, physical_networks: [rack1]}]
"""
REPORTED_S = 5.0
"""From when the driver sees it."""


@pytest.fixture
def made() -> Iterator[Cluster]:
    with cluster() as made:
        made.serve()
        made.load(CLOUD)
        yield made


def die_file(made: Cluster) -> Path:
    return made.directory / "die"


def state_of(made: Cluster) -> Path:
    return made.directory / "agent-h1"


def meet(made: Cluster, fates: str) -> None:
    """Have guests do that by themselves."""
    new = die_file(made).with_suffix(".new")
    new.write_text(fates)
    new.rename(die_file(made))


async def start_agent(made: Cluster, *options: str, crash_at: str = "") -> None:
    environment = {"ROOST_CRASH_AT": crash_at} if crash_at else None
    words = (f"--fake-die={die_file(made)}", *options)
    await asyncio.to_thread(lambda: made.agent(*words, state="agent-h1", environment=environment))


async def boots(made: Cluster, client: CloudClient, count: int) -> list[str]:
    await boot(client, (await network_ids(client))["public"], count=count)
    await all_are(client, "ACTIVE")
    await settle(made)
    return sorted(await servers_by_id(client))


async def until_is(client: CloudClient, server_id: str, status: str, power_state: int) -> Json:
    """Wait until the server is that, and nothing is done to it; return it."""
    wanted = (status, power_state, None)

    async def is_so() -> bool:
        server = (await servers_by_id(client))[server_id]
        return tuple(server[name] for name in NAMES) == wanted

    await until(is_so, what=f"the server is not {wanted}")
    return (await servers_by_id(client))[server_id]


NAMES = ("status", "OS-EXT-STS:power_state", "OS-EXT-STS:task_state")


async def events_of(client: CloudClient, server_id: str) -> list[str]:
    """Return the events of the server's actions, the last first."""
    path = f"/compute/v2.1/servers/{server_id}/os-instance-actions"
    actions = (await client.call("GET", path))["instanceActions"]
    shown = [(await client.call("GET", f"{path}/{action['request_id']}"))["instanceAction"] for action in actions]
    return [event["event"] for action in shown for event in action["events"]]


async def test_what_guests_do_by_themselves_is_seen_soon_and_undone_or_shown(made: Cluster) -> None:
    await start_agent(made)
    async with CloudClient.connect(made.url) as client:
        first, second = await boots(made, client, 2)
        for fate, power_state, event in (
            ("shutdown", 4, "compute_stop_by_itself"),
            ("crashed", 6, "compute_crash"),
        ):
            meet(made, f"{fate} {first}\n")
            await until_is(client, first, "SHUTOFF", power_state)
            told_s = time.time()
            assert told_s - list_present(state_of(made))[first, "h1"].at_ns / 1e9 < REPORTED_S
            assert (await events_of(client, first))[0] == event
            await act(client, first, "os-start")
            await until_is(client, first, "ACTIVE", 1)
        await act(client, first, "os-stop")
        await until_is(client, first, "SHUTOFF", 4)
        assert (await events_of(client, first))[0] == "compute_stop_instance", "which was ordered"

        meet(made, f"running {first}\npaused {second}\n")

        async def are_undone() -> bool:
            lines = list_present(state_of(made))
            return (lines[first, "h1"].state, lines[second, "h1"].state) == ("stopped", "running")

        await until(lambda: has_event(client, first, "compute_stop_again"), what="it is not stopped again")
        await until(lambda: has_event(client, second, "compute_start_again"), what="it is not started again")
        await until(are_undone, what="guests are not what they were")
        await until_is(client, first, "SHUTOFF", 4)
        await until_is(client, second, "ACTIVE", 1)
        await settle(made)


async def has_event(client: CloudClient, server_id: str, event: str) -> bool:
    return event in await events_of(client, server_id)


@pytest.mark.parametrize("resumes", [False, True])
async def test_guests_of_a_host_that_was_started_anew_are_stopped_or_resumed_as_its_agent_says(
    made: Cluster, resumes: bool
) -> None:
    state_of(made).mkdir()
    kernel = state_of(made) / "kernel-now"
    kernel.write_text("before")
    options = ("--resume-guests",) if resumes else ()
    await start_agent(made, *options)
    async with CloudClient.connect(made.url) as client:
        first, second, stopped = await boots(made, client, 3)
        await act(client, stopped, "os-stop")
        await until_is(client, stopped, "SHUTOFF", 4)
        await asyncio.to_thread(made.stop, made.processes[-1], 9)
        kernel.write_text("after")
        await start_agent(made, *options)
        for server_id in (first, second):
            event = "compute_start_again" if resumes else "compute_stop_by_itself"
            await until(lambda server_id=server_id, event=event: has_event(client, server_id, event))
            await until_is(client, server_id, *(("ACTIVE", 1) if resumes else ("SHUTOFF", 4)))
            line = list_present(state_of(made))[server_id, "h1"]
            assert line.state == ("running" if resumes else "stopped")
        await until_is(client, stopped, "SHUTOFF", 4)
        assert made.said("all guests of a host stopped at once") is not resumes
        assert not made.said("a guest stopped by itself")
        await settle(made)


async def test_a_report_that_was_lost_with_its_agent_is_healed_by_the_next_list(made: Cluster) -> None:
    await start_agent(made)
    async with CloudClient.connect(made.url) as client:
        (server_id,) = await boots(made, client, 1)
        await asyncio.to_thread(made.stop, made.processes[-1])
        await start_agent(made, crash_at="agent.before-report")
        meet(made, "crashed all\n")
        dying = made.processes[-1]
        assert await asyncio.to_thread(dying.wait, 30) == -9
        assert (await servers_by_id(client))[server_id]["status"] == "ACTIVE"
        await start_agent(made)
        await until_is(client, server_id, "SHUTOFF", 6)
        await settle(made)
