"""SIGKILL at every crash point that a moving server comes by: it is on one host, with its addresses, and never on two.

Two agents have the hosts, so that what both did to one server can be compared, by the times in their journals.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from tests.cluster import Cluster, boot, cluster, network_ids, settle
from tests.faults.crashing import MOVES, crashed, points, without_conductor
from tests.faults.moving import (
    act,
    all_are,
    assert_moved,
    conductor,
    evacuate_all,
    force_down,
    list_gaps_s,
    list_overlaps,
    move_all,
    servers_by_id,
)
from tests.world import cut_power

from roost.agent.drivers.fake import GuestLine
from roost.cli.asking.cloud_client import CloudClient

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
  - {name: large, vcpus: 2, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 101,
         subnets: [{cidr: 203.0.113.0/29}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 102,
         subnets: [{cidr: 203.0.113.16/28}]}
  - name: legacy
    kind: flat
    subnets: [{cidr: 192.0.2.0/27, cell: cell1}]
hosts:
  - {name: 'r1-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
  - {name: 'r2-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack2]}
"""
HOSTS_OF_AGENTS = {"agent-1": ("r1-h1", "r2-h1"), "agent-2": ("r1-h2", "r2-h2")}
SERVERS = 3


class Case(NamedTuple):
    """A move that comes by the point. end: how its user ends it, if a user does."""

    point: str
    kind: str
    end: str | None = None


CASES = (
    *(Case(point, "live") for point in points("copy")),
    *(Case(point, "migrate", "revertResize") for point in points("place", "stop", "restore")),
    *(Case(point, "resize", "confirmResize") for point in points("bind", "confirm")),
    *(Case(point, "live") for point in points("launch", "settle")),
    *(Case(point, "shelve") for point in points("offload")),
)
AGENT_CASES = (
    Case("agent.after-begin", "migrate", "confirmResize"),
    Case("agent.after-change", "live"),
    Case("agent.before-report", "live"),
    Case("agent.after-report", "resize", "confirmResize"),
)


def test_every_crash_point_of_moves_is_tried() -> None:
    assert set(MOVES) <= {case.point for case in CASES}
    assert set(points("agent")) == {case.point for case in AGENT_CASES}


@pytest.fixture(scope="module")
def services() -> Iterator[Cluster]:
    """Two agents, and servers that every test moves on, whose segments may be full of them."""
    with without_conductor(CLOUD) as made:
        for state in HOSTS_OF_AGENTS:
            start_agent(made, state)
        asyncio.run(boot_servers(made))
        yield made


def start_agent(made: Cluster, state: str, point: str | None = None, *, wait: bool = True) -> None:
    options = [f"--host={host}" for host in HOSTS_OF_AGENTS[state]]
    made.agent(*options, state=state, environment={"ROOST_CRASH_AT": point} if point else None, wait=wait)


def stop_agent(made: Cluster, state: str, number: int = signal.SIGTERM) -> None:
    directory = str(made.directory / state)
    made.stop(next(process for process in made.processes if directory in list(map(str, process.args))), number)


async def boot_servers(made: Cluster) -> None:
    async with conductor(made) as client:
        ids = await network_ids(client)
        for number, segment in enumerate(await client.list_all("/network/v2.0/segments", "segments")):
            body = {"network_id": ids["public"], "segment_id": segment["id"], "ip_version": 6}
            if segment["network_id"] == ids["public"]:
                subnet = {**body, "cidr": f"2001:db8:{number + 1}::/64"}
                await client.call("POST", "/network/v2.0/subnets", {"subnet": subnet})
        await boot(client, [{"uuid": ids["public"]}, {"uuid": ids["legacy"]}], count=SERVERS)
        await all_are(client, "ACTIVE")
        await settle(made)  # the next conductor may come later than a move would wait for the last of a boot


async def carry_out(client: CloudClient, case: Case, server_ids: list[str]) -> None:
    """Have the servers moved, until nothing is being done to them any more."""
    flavors = {flavor["name"]: flavor["id"] for flavor in await client.list_flavors()}
    await move_all(client, case.kind, server_ids, flavors)
    if case.kind == "shelve":
        await all_are(client, "SHELVED_OFFLOADED")
        await move_all(client, "unshelve", server_ids, flavors)
    if case.end is not None:
        await all_are(client, "VERIFY_RESIZE")
        for server_id in server_ids:
            await act(client, server_id, case.end)
    await all_are(client, "ACTIVE")


def moved(case: Case) -> bool | None:
    """Return whether a server is elsewhere afterwards; None if it may be or not."""
    return None if case.kind == "shelve" else case.end != "revertResize"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.point}-{case.kind}")
async def test_a_conductor_killed_there_leaves_moves_that_come_to_their_end(services: Cluster, case: Case) -> None:
    async with conductor(services, ROOST_CRASH_AT=case.point) as client:
        before = await servers_by_id(client)
        await carry_out(client, case, list(before))
        await crashed(services, case.point)
        await settle(services)
        await assert_moved(services, client, before, moved=moved(case))


@pytest.mark.parametrize("point", ["stop.before-stop", "stop.after-stop", "settle.after-release-move"])
async def test_a_conductor_killed_there_evacuates_a_host_without_power(services: Cluster, point: str) -> None:
    """What the host had is destroyed when it is back."""
    async with conductor(services, ROOST_CRASH_AT=point) as client:
        before = await servers_by_id(client)
        host = next(iter(before.values()))["OS-EXT-SRV-ATTR:host"]
        state = next(state for state, hosts in HOSTS_OF_AGENTS.items() if host in hosts)
        stop_agent(services, state, signal.SIGKILL)
        server_ids = []
        for one in HOSTS_OF_AGENTS[state]:
            cut_power(services.directory, one)
            server_ids += await evacuate_all(client, one)
        await all_are(client, "ACTIVE")
        await crashed(services, point)
        assert list_overlaps(services.directory) == []
        start_agent(services, state, wait=False)
        for one in HOSTS_OF_AGENTS[state]:
            await force_down(client, one, False)
        await settle(services)
        await assert_moved(services, client, {one: before[one] for one in server_ids}, moved=True)


@pytest.mark.parametrize("case", AGENT_CASES, ids=lambda case: f"{case.point}-{case.kind}")
async def test_an_agent_killed_there_goes_on_with_moves_where_it_was(services: Cluster, case: Case) -> None:
    """Who has none of the destinations is a source then, and has destinations the next time."""
    state = next(iter(HOSTS_OF_AGENTS))
    stop_agent(services, state)
    start_agent(services, state, case.point)
    agent = services.processes[-1]
    async with conductor(services) as client:
        before = await servers_by_id(client)

        async def move() -> None:
            while agent.poll() is None:
                await carry_out(client, case, list(before))

        moving = asyncio.create_task(move())
        assert await asyncio.to_thread(agent.wait, 30) == -9, f"nothing came by {case.point}"
        services.stop(agent)
        start_agent(services, state)
        await moving
        await settle(services)
        await assert_moved(services, client, before, moved=None)


async def test_what_is_between_the_two_guests_of_a_live_migration_is_said(services: Cluster) -> None:
    """Roost's own part of the pause: from the source's report to the destination's order. See it with `-s`."""
    began_ns = time.time_ns()
    async with conductor(services) as client:
        server_ids = list(await servers_by_id(client))
        await carry_out(client, Case("", "live"), server_ids)
        await settle(services)
    gaps = sorted(list_gaps_s(services.directory, since_ns=began_ns))
    assert len(gaps) == len(server_ids)
    sys.stderr.write(f"live migration: from report to order {', '.join(f'{gap:.3f}' for gap in gaps)} s\n")


async def test_a_full_segment_is_moved_in_and_a_shelved_server_keeps_its_last_address() -> None:
    with cluster() as made:
        made.serve()
        made.load(CLOUD.replace("203.0.113.0/29", "203.0.113.0/30").replace("203.0.113.16/28", "203.0.113.16/30"))
        for state in HOSTS_OF_AGENTS:
            start_agent(made, state)
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            await boot(client, network, count=2)  # an address in each segment
            await all_are(client, "ACTIVE")
            before = await servers_by_id(client)
            for kind, end in (("migrate", "confirmResize"), ("live", None), ("resize", "revertResize")):
                await carry_out(client, Case("", kind, end), list(before))
            await assert_moved(made, client, before, moved=False)  # there, back, and nowhere
            await move_all(client, "shelve", list(before), {})
            await all_are(client, "SHELVED_OFFLOADED")
            await boot(client, network, name="other")
            await settle(made)
            (other,) = (await servers_by_id(client)).keys() - before.keys()
            refused = (await servers_by_id(client))[other]
            assert refused["status"] == "ERROR"
            assert "address" in refused["fault"]["message"]
            await client.call("DELETE", f"/compute/v2.1/servers/{other}")
            await settle(made)
            await move_all(client, "unshelve", list(before), {})
            await all_are(client, "ACTIVE")
            await settle(made)
            await assert_moved(made, client, before, moved=None)


def test_two_hosts_that_run_one_server_are_found(tmp_path: Path) -> None:
    """The check itself: no overlap is missed, and what was stopped, or lost its power, is none."""
    journals = {"a": "running 1 stopped 5 running 9", "b": "incoming 2 running 6 gone 9"}
    for host, story in journals.items():
        words = story.split()
        lines = [
            GuestLine(
                server_id="s",
                host=host,
                attempt=1,
                at_ns=int(at_ns),
                **({"gone": True} if state == "gone" else {"state": state}),
            )
            for state, at_ns in zip(words[::2], words[1::2], strict=True)
        ]
        journal = tmp_path / f"agent-{host}" / "guests.journal"
        journal.parent.mkdir()
        journal.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert list_overlaps(tmp_path) == []
    (tmp_path / "agent-a" / "guests.journal").write_bytes(
        msgspec.json.encode(GuestLine(server_id="s", host="a", attempt=1, at_ns=1)) + b"\n"
    )
    assert [(before.host, after.host) for before, after in list_overlaps(tmp_path)] == [("a", "b")]
    (tmp_path / "power-cuts").write_text("a 4\n")
    assert list_overlaps(tmp_path) == []
