"""`roost-manage sync_placement_aggregates` and `set_allocation_ratio`, as an operator runs them."""

import subprocess

import msgspec
import pytest
from tests.conductor.world import World
from tests.launching import run_manage

from roost.compute.service import aggregates as listing
from roost.compute.service import hosts as hosts_service
from roost.compute.service import operator_aggregates as aggregates
from roost.platform.database import Database
from roost.seams.placement import ProviderState


def run(dsn: str, *words: str) -> subprocess.CompletedProcess[str]:
    return run_manage(*words, "--database", dsn)


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("h1", "h2")
    return made


async def test_the_mirror_is_made_and_told(world: World, dsn: str) -> None:
    compute = world.compute
    made = await aggregates.create_aggregate(compute, "gpu", None)
    for host in ("h1", "h2"):
        await aggregates.add_host(compute, made.id, host)
    h1 = hosts_service.provider_uuid_of("h1")
    await compute.placement.ensure_providers([ProviderState(uuid=h1, name="h1", placement_aggregates=frozenset())])
    dry = run(dsn, "sync_placement_aggregates", "--dry-run")
    assert (dry.returncode, dry.stdout.splitlines()[1:]) == (7, ["h1    gpu", "1 host would be written."])
    done = run(dsn, "placement", "sync_aggregates", "--json")
    report = msgspec.json.decode(done.stdout)
    assert (done.returncode, report["exit_status"], report["changes"][0]["host"]) == (0, 0, "h1")
    again = run(dsn, "sync_placement_aggregates", "--prune", "--verbose")
    assert (again.returncode, again.stdout) == (0, "No host written.\n")
    wrong = run(dsn, "sync_placement_aggregates", "--host", "h9")
    assert (wrong.returncode, wrong.stderr) == (127, "roost-manage: --host h9: there is no such host\n")


async def test_a_ratio_is_set_and_unset(world: World, dsn: str) -> None:
    made = await aggregates.create_aggregate(world.compute, "dense", None)
    await aggregates.add_host(world.compute, made.id, "h1")
    words = ("set_allocation_ratio", "--aggregate", "dense", "--resource-class", "VCPU")
    done = run(dsn, *words, "--allocation-ratio", "4.5")
    assert (done.returncode, done.stdout) == (0, "VCPU of aggregate dense: 4.5, on 1 host.\n")
    (aggregate,) = await listing.list_host_aggregates(world.compute)
    assert aggregate.metadata == {"cpu_allocation_ratio": "4.5"}
    h1 = hosts_service.provider_uuid_of("h1")
    state = (await world.compute.placement.get_providers([h1]))[h1]
    assert (state.inventories or {})["VCPU"].allocation_ratio == 4.5
    assert run(dsn, *words, "--unset").returncode == 0
    assert run(dsn, *words).returncode == 2
    assert run(dsn, "set_allocation_ratio", "--aggregate", "x", "--resource-class", "VCPU", "--unset").returncode == 1
