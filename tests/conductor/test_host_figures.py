"""What operators are told of hosts: promises, waiting and unknown ones, and what records that went back wait for."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT
from tests.conductor.test_recovery import HOSTS, become_another
from tests.conductor.test_unknown_guests import guests_with, send
from tests.conductor.world import World
from typer.testing import CliRunner

from roost.cli.manage import app
from roost.cli.serving.host_metrics import read_host_metrics
from roost.compute.rules.agent_tokens import HostPatterns
from roost.compute.service import hosts as host_service
from roost.compute.service import recovery
from roost.compute.service.guests import Polls
from roost.platform.database import Database
from roost.seams.agent import SERVICE_VERSION, HostReport, ListedGuest

NOBODY = "5b5c0e4e-6f0c-4a5e-9d0b-0d4b1f0a7c11"
NOTHING = {
    "roost_hosts": {"fence": 0, "none": 2}, "roost_hosts_closed": {"idle": 0, "waiting": 0},
    "roost_recovery": {"": 0}, "roost_recovery_hosts": {"missing": 0, "silent": 0},
    "roost_unknown_guests": {"held": 0, "over_bound": 0, "unsaid": 0},
}  # fmt: skip


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts(*HOSTS, reach=["rack1"])
    for host in HOSTS:
        await made.set_version(host, SERVICE_VERSION)
    return made


async def promise(world: World, host: str) -> None:
    agent = replace(AGENT, service_version=SERVICE_VERSION, fence_after_s=120.0)
    await Polls(world.compute).poll([host], agent=agent, busy=[], wait_s=0)


async def figures(world: World) -> dict[str, dict[str, float]]:
    """Metric -> label -> value."""
    return {
        family.name: {"".join(sample.labels.values()): sample.value for sample in family.samples}
        for family in await read_host_metrics(world.compute)
        if family.name in NOTHING
    }


async def test_metrics_say_what_is_so_of_hosts(world: World) -> None:
    assert await figures(world) == NOTHING
    network = await world.routed(rack1="10.1.0.0/29")
    await promise(world, "h1")
    unsaid = ListedGuest(server_id=NOBODY, host="h1", attempt=1)
    await send(world, [*guests_with(network, ["10.1.0.2", "10.1.0.3"]), unsaid])
    waiting = HostReport(name="h3", vcpus=1, ram_mb=1, disk_gb=1)
    await host_service.register_hosts(world.compute, [waiting], agent=AGENT, covered=HostPatterns(("*",)))
    await become_another(world)
    assert await recovery.look(world.compute) is not None
    assert await figures(world) == {
        "roost_hosts": {"fence": 1, "none": 2}, "roost_hosts_closed": {"idle": 0, "waiting": 1},
        "roost_recovery": {"": 1}, "roost_recovery_hosts": {"missing": 2, "silent": 0},
        "roost_unknown_guests": {"held": 2, "over_bound": 0, "unsaid": 1},
    }  # fmt: skip


async def test_commands_say_who_promises_and_show_and_end_a_recovery(
    world: World, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("manage", "managing.manage_options"):
        monkeypatch.setattr(f"roost.cli.{module}.configure_logging", lambda _program: None)

    async def run(*words: str) -> tuple[int, str]:
        done = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--database", dsn])
        return done.exit_code, done.output

    def last(output: str) -> Any:
        return msgspec.json.decode(output.splitlines()[-1])

    await promise(world, "h1")
    report = last((await run("audit", "--json"))[1])
    assert (report["hosts_promising"], report["hosts"]) == (1, 2)
    assert "1 of 2 hosts promise to fence their guests" in (await run("audit"))[1]
    await become_another(world)
    await recovery.look(world.compute)
    status, output = await run("recovery", "show", "--json")
    assert (status, last(output)["recovery"]["hosts_missing"]) == (3, list(HOSTS))
    assert (await run("recovery", "end", "--yes"))[0] == 0
    assert [(await run("recovery", word, *more))[0] for word, *more in (("show",), ("end", "--yes"))] == [0, 1]
    assert (await figures(world))["roost_recovery"] == {"": 0}
