"""A database that went back in time under running agents: no guest is destroyed or doubled, no address used twice."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import Cluster, boot, cluster, network_ids, settle, until
from tests.faults.replication import start_primary, start_standby
from tests.faults.test_host_leases import manage, servers, status_is

from roost.agent.drivers.fake import GuestLine, list_launches, list_present
from roost.cli.asking.cloud_client import CloudClient
from roost.platform.postgres import PrivatePostgres

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/28}]}
hosts:
  - {name: r1-h1, vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
  - {name: r1-h2, vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
"""
"""13 addresses."""
SILENCE = {"ROOST_COMPUTE_HOST_DOWN_AFTER_S": "6"}
KEPT, LOST, NEW = 2, 3, 5
STATE = "agent-1"
AGENTS = {"r1-h1": "agent-1", "r1-h2": "agent-2"}
IN_FLIGHT = 4


async def boot_all(client: CloudClient, name: str, count: int) -> None:
    """Boot so many servers; they run when this returns."""
    network = (await network_ids(client))["public"]
    for number in range(count):
        await boot(client, network, name=f"{name}-{number}")
    for number in range(count):
        await until(status_is(client, f"{name}-{number}", "ACTIVE"), what=f"{name}-{number} does not run")


def list_all(made: Cluster) -> dict[tuple[str, str], GuestLine]:
    """The guests of all agents."""
    return {
        key: line
        for state in AGENTS.values()
        if (made.directory / state).exists()
        for key, line in list_present(made.directory / state).items()
    }


def assert_each_is_alone(made: Cluster, before: set[tuple[str, str]]) -> None:
    """Every guest that was there is there, no server has two, and no address is used twice."""
    present = list_all(made)
    assert before <= present.keys()
    assert len({server_id for server_id, _ in present}) == len(present)
    addresses = [address for line in present.values() for address in line.addresses]
    assert len(set(addresses)) == len(addresses) == len(present)


def count_launches(made: Cluster, keys: set[tuple[str, str]]) -> int:
    launched = list_launches(made.directory / STATE)
    return sum((line.server_id, line.host) in keys for line in launched)


async def assert_the_records_follow(made: Cluster, client: CloudClient, before: set[tuple[str, str]]) -> None:
    """The records have recovered; new servers run; nothing of before was launched again or has gone."""

    async def has_recovered() -> bool:
        return made.said("the records follow the hosts again")

    await until(has_recovered, what="the records do not recover")
    launches = count_launches(made, before)
    await boot_all(client, "new", NEW)
    assert_each_is_alone(made, before)
    assert count_launches(made, before) == launches == len(before)
    assert len(await servers(client)) == KEPT + NEW


async def test_a_backup_that_is_restored_under_running_agents_doubles_and_destroys_nothing() -> None:
    with cluster() as made:
        made.serve(environment=SILENCE)
        made.load(CLOUD)
        made.agent("--fleet=all", state=STATE)
        listen = made.url.removeprefix("http://")
        async with CloudClient.connect(made.url) as client:
            await boot_all(client, "kept", KEPT)
        await asyncio.to_thread(made.stop, made.processes[0])
        backup = ["cp", "-a", str(made.data_dir), str(made.directory / "backup")]
        await asyncio.to_thread(subprocess.run, backup, check=True, timeout=60)
        made.serve(environment=SILENCE, listen=listen)
        async with CloudClient.connect(made.url) as client:
            await boot_all(client, "lost", LOST)
        before = set(list_present(made.directory / STATE))
        await asyncio.to_thread(made.stop, made.processes[-1])
        shutil.rmtree(made.data_dir)
        (made.directory / "backup").rename(made.data_dir)
        made.serve(environment=SILENCE, listen=listen)
        async with CloudClient.connect(made.url) as client:
            await assert_the_records_follow(made, client, before)
        for server_id, host in before - await known(made):
            manage(made, "destroy-guest", server_id, "--host", host, "--yes")
        await settle(made)


async def known(made: Cluster) -> set[tuple[str, str]]:
    """The guests of the servers that the API shows."""
    async with CloudClient.connect(made.url) as client:
        ids = {server["id"] for server in (await servers(client)).values()}
    return {key for key in list_present(made.directory / STATE) if key[0] in ids}


@pytest.fixture
def primary(data_dir: Path) -> Iterator[PrivatePostgres]:
    server = start_primary(data_dir)
    yield server
    server.stop()


@pytest.fixture
def standby(primary: PrivatePostgres, data_dir: Path) -> Iterator[PrivatePostgres]:
    server = start_standby(primary, data_dir)
    yield server
    server.stop()


def is_level(primary: PrivatePostgres, standby: PrivatePostgres) -> bool:
    position = primary._query("SELECT pg_current_wal_lsn()")
    return standby._query(f"SELECT pg_last_wal_replay_lsn() >= '{position}'") == "t"


async def test_a_failover_to_a_standby_that_lagged_doubles_and_destroys_nothing(
    primary: PrivatePostgres, standby: PrivatePostgres
) -> None:
    sockets = f"{primary.socket_dir},{standby.socket_dir}"
    database = f"postgresql://roost@/roost?host={sockets}&target_session_attrs=primary"
    with cluster() as made:
        await asyncio.to_thread(made.serve, database=database, environment=SILENCE)
        await asyncio.to_thread(made.load, CLOUD)
        await asyncio.to_thread(made.agent, "--fleet=all", state=STATE)
        async with CloudClient.connect(made.url) as client:
            await boot_all(client, "kept", KEPT)
            deadline_s = time.monotonic() + 30
            while not await asyncio.to_thread(is_level, primary, standby):
                assert time.monotonic() < deadline_s
            await asyncio.to_thread(standby._query, "ALTER SYSTEM SET primary_conninfo = ''")
            await asyncio.to_thread(standby._query, "SELECT pg_reload_conf()")
            await boot_all(client, "lost", LOST)
            before = set(list_present(made.directory / STATE))
            postmaster = primary.postmaster_pid()
            assert postmaster is not None
            os.kill(postmaster, signal.SIGQUIT)  # at once, without a checkpoint
            while primary.is_running():
                await asyncio.sleep(0.01)
            await asyncio.to_thread(standby._query, "SELECT pg_promote()")
            await assert_the_records_follow(made, client, before)


async def test_what_is_booted_in_the_moment_of_a_failover_runs_once(
    primary: PrivatePostgres, standby: PrivatePostgres
) -> None:
    """Each host has an agent of its own: one of them may have been told nothing in what was lost."""
    sockets = f"{primary.socket_dir},{standby.socket_dir}"
    database = f"postgresql://roost@/roost?host={sockets}&target_session_attrs=primary"
    with cluster() as made:
        await asyncio.to_thread(made.serve, database=database, environment=SILENCE)
        await asyncio.to_thread(made.load, CLOUD)
        for host, state in AGENTS.items():
            await asyncio.to_thread(made.agent, f"--host={host}", "--fake-delay=0.3", state=state, wait=False)
        await asyncio.to_thread(made.wait_for_hosts, set(AGENTS))
        async with CloudClient.connect(made.url) as client:
            await boot_all(client, "kept", KEPT)
            network = (await network_ids(client))["public"]
            for number in range(IN_FLIGHT):
                await boot(client, network, name=f"flight-{number}")
            while not await asyncio.to_thread(is_level, primary, standby):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(standby._query, "ALTER SYSTEM SET primary_conninfo = ''")
            await asyncio.to_thread(standby._query, "SELECT pg_reload_conf()")
            for number in range(IN_FLIGHT):
                await until(status_is(client, f"flight-{number}", "ACTIVE"), what=f"flight-{number} does not run")
            before = set(list_all(made))
            postmaster = primary.postmaster_pid()
            assert postmaster is not None
            os.kill(postmaster, signal.SIGQUIT)  # at once, without a checkpoint
            while primary.is_running():
                await asyncio.sleep(0.01)
            await asyncio.to_thread(standby._query, "SELECT pg_promote()")

            async def is_settled() -> bool:
                states = [server["status"] for server in (await servers(client)).values()]
                return made.said("the records follow the hosts again") and "BUILD" not in states

            await until(is_settled, what="the records do not recover")
            await boot_all(client, "new", 1)
            assert_each_is_alone(made, before)
