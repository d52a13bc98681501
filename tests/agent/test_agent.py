import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.agent.cloud import (
    AGENT,
    compute_of,
    declare_hosts,
    delete_servers,
    order_guests,
    serving,
    until,
    until_true,
)
from tests.ports import free_port

from roost.agent import agent as module
from roost.agent.agent import run
from roost.agent.drivers.fake import ALWAYS, FakeDriver, Faults, list_guests, list_launches
from roost.agent.identity import fleet
from roost.agent.predecessor import ServedElsewhere
from roost.compute.service import Compute
from roost.platform.database import Database
from roost.seams.agent import GuestKey, GuestOrder, GuestState, HostReport, ReportAnswer

HOSTS = [f"h{number}" for number in range(10)]
STAGE_COUNT = "SELECT count(*) FROM compute.work WHERE stage = $1"

PROGRAM = """
import asyncio, sys
from pathlib import Path
from roost.agent import agent as module
from roost.agent.agent import run
from roost.agent.identity import fleet
from roost.seams.agent import HostReport
from roost.agent.drivers.fake import FakeDriver
asyncio.run(run(api_url=sys.argv[1], hosts=None, driver=FakeDriver(Path(sys.argv[2]))))
"""


@pytest.fixture
async def compute(database: Database) -> Compute:
    await declare_hosts(database, HOSTS)
    return compute_of(database)


@pytest.fixture
async def api_url(compute: Compute) -> AsyncIterator[str]:
    async with serving(compute, free_port()) as url:
        yield url


@asynccontextmanager
async def agent(
    api_url: str, state: Path, faults: Faults | None = None, hosts: list[HostReport] | None = None
) -> AsyncIterator[None]:
    """An agent in this process that is stopped as by SIGTERM."""
    stop = asyncio.Event()
    driver = FakeDriver(state, faults or Faults())
    task = asyncio.create_task(run(api_url=api_url, hosts=hosts, driver=driver, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await task


def start_process(api_url: str, state: Path, *, crash_at: str = "") -> subprocess.Popen[bytes]:
    """An agent in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": "src", "ROOST_CRASH_AT": crash_at}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, api_url, str(state)], env=environment)


async def test_an_agent_says_that_it_found_the_api(api_url: str, tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with agent(api_url, tmp_path):
            await until_true(lambda: "connected to the API" in [line["event"] for line in logs])


async def test_fifty_guests_run_on_ten_hosts_and_their_servers_are_active(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    servers = await order_guests(compute, HOSTS * 5)
    async with agent(api_url, tmp_path):
        await until(compute, STAGE_COUNT, "settle", gives=50)
    async with compute.database.connection() as connection:
        rows = await connection.fetch("SELECT id, host, status, task_state, launched_at FROM compute.server")
        assert {row["id"]: row["host"] for row in rows} == dict(zip(servers, HOSTS * 5, strict=True))
        assert {(row["status"], row["task_state"]) for row in rows} == {("ACTIVE", None)}
        assert all(row["launched_at"] for row in rows)
        assert await connection.fetchval("SELECT count(*) FROM compute.guest WHERE reported = 'running'") == 50
        assert await connection.fetchval("SELECT count(*) FROM compute.host WHERE seen_at IS NULL") == 0
    assert set(list_guests(tmp_path)) == set(zip(servers, HOSTS * 5, strict=True))


async def test_a_restarted_agent_launches_nothing_twice_and_finishes_the_rest(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    await order_guests(compute, HOSTS * 2)
    async with agent(api_url, tmp_path):
        await until(compute, STAGE_COUNT, "settle", gives=20)
    await order_guests(compute, HOSTS * 3)
    async with agent(api_url, tmp_path):
        await until(compute, STAGE_COUNT, "settle", gives=50)
    assert max(Counter((line.server_id, line.host) for line in list_launches(tmp_path)).values()) == 1


@pytest.mark.parametrize("point", ["agent.after-begin", "agent.before-report", "agent.after-report"])
async def test_an_agent_killed_at_any_point_loses_nothing(
    compute: Compute, api_url: str, tmp_path: Path, point: str
) -> None:
    servers = await order_guests(compute, HOSTS * 2)
    process = start_process(api_url, tmp_path, crash_at=point)
    assert await asyncio.to_thread(process.wait, 20) == -signal.SIGKILL
    async with agent(api_url, tmp_path):
        await until(compute, STAGE_COUNT, "settle", gives=20)
    assert set(list_guests(tmp_path)) == set(zip(servers, HOSTS * 2, strict=True))


async def test_sigterm_ends_the_agent_cleanly(compute: Compute, api_url: str, tmp_path: Path) -> None:
    await order_guests(compute, HOSTS)
    process = start_process(api_url, tmp_path)
    await until(compute, STAGE_COUNT, "settle", gives=10)
    process.terminate()
    assert await asyncio.to_thread(process.wait, 20) == 0


async def test_the_first_launches_fail_and_their_work_is_retried_without_those_hosts(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    await order_guests(compute, HOSTS)
    async with agent(api_url, tmp_path, Faults(fail_first=3)):
        await until(compute, STAGE_COUNT, "settle", gives=7)
        await until(compute, STAGE_COUNT, "retry", gives=3)
    async with compute.database.connection() as connection:
        rows = await connection.fetch("SELECT * FROM compute.work WHERE stage = 'retry'")
        assert await connection.fetchval("SELECT count(*) FROM compute.guest") == 7
    for row in rows:
        assert (row["failures"], row["lease_owner"], len(row["excluded_hosts"])) == (1, None, 1)
        assert "fake driver: told to fail" in row["failure"]
        assert row["excluded_hosts"][0] in row["failure"]


async def test_only_the_named_hosts_fail(compute: Compute, api_url: str, tmp_path: Path) -> None:
    await order_guests(compute, HOSTS)
    async with agent(api_url, tmp_path, Faults(fail_first=ALWAYS, hosts=frozenset(["h3"]))):
        await until(compute, STAGE_COUNT, "retry", gives=1)
        await until(compute, STAGE_COUNT, "settle", gives=9)
    async with compute.database.connection() as connection:
        assert await connection.fetchval("SELECT excluded_hosts FROM compute.work WHERE stage = 'retry'") == ["h3"]


async def test_a_guest_that_vanishes_after_begin_is_gone_once_it_is_to_be_absent(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    servers = await order_guests(compute, ["h0"])
    async with agent(api_url, tmp_path, Faults(vanish_first=1)):
        await until(compute, "SELECT count(*) FROM compute.guest WHERE begun_at IS NOT NULL", gives=1)
        others = await order_guests(compute, ["h1"])
        await until(compute, STAGE_COUNT, "settle", gives=1)
        await delete_servers(compute, servers)
        await until(compute, "SELECT count(*) FROM compute.work WHERE stage = 'delete' AND run_at <= now()", gives=1)
    assert list(list_guests(tmp_path)) == [(others[0], "h1")]


@pytest.mark.parametrize(("state", "asks"), [("paused", True), ("stopped", False)])
async def test_what_brings_nics_up_is_asked_for_first(
    compute: Compute, api_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, asks: bool
) -> None:
    asked: list[str] = []
    begin = module.Agent._begin

    async def noted(itself: module.Agent, order: GuestOrder) -> bool:
        asked.append(order.desired)
        return await begin(itself, order)

    await order_guests(compute, ["h0"])
    async with agent(api_url, tmp_path):
        await until(compute, STAGE_COUNT, "settle", gives=1)
        monkeypatch.setattr(module.Agent, "_begin", noted)
        async with compute.database.transaction() as tx:  # as a guest that takes over another's memory
            await tx.execute("UPDATE compute.guest SET desired = $1, reported = 'incoming'", state)
        await until(compute, "SELECT count(*) FROM compute.guest WHERE reported = $1", state, gives=1)
    assert asked == ([state] if asks else [])


@pytest.mark.parametrize(("present", "told"), [("running", "unchanged"), ("incoming", "failed")])
async def test_what_a_host_cannot_change_it_tells_and_what_was_on_its_way_goes(
    compute: Compute, api_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: str, told: str
) -> None:
    said: list[tuple[str, str]] = []
    report = module.Agent._report

    async def noted(
        itself: module.Agent, order: GuestOrder, state: GuestState, message: str = "", **other: Any
    ) -> ReportAnswer:
        said.append((state, message))
        return await report(itself, order, state, message, **other)

    await order_guests(compute, ["h0"])
    async with agent(api_url, tmp_path, Faults(states_refused=frozenset({"paused"}))):
        await until(compute, STAGE_COUNT, "settle", gives=1)
        monkeypatch.setattr(module.Agent, "_report", noted)
        async with compute.database.transaction() as tx:
            await tx.execute("UPDATE compute.guest SET desired = $1", present)
        await until(compute, "SELECT count(*) FROM compute.guest WHERE reported = $1", present, gives=1)
        async with compute.database.transaction() as tx:
            await tx.execute("UPDATE compute.guest SET desired = 'paused'")
        await until_true(lambda: (told, "fake driver: told to refuse paused") in said)


async def test_a_server_deleted_before_begin_is_never_launched(compute: Compute, api_url: str, tmp_path: Path) -> None:
    servers = await order_guests(compute, HOSTS)
    await delete_servers(compute, servers)
    async with agent(api_url, tmp_path):
        await until(compute, "SELECT count(*) FROM compute.guest", gives=0)
    assert list_launches(tmp_path) == []


async def test_a_server_deleted_while_it_is_launched_leaves_nothing(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    servers = await order_guests(compute, HOSTS)
    async with agent(api_url, tmp_path, Faults(delay_s=60)):
        await until_true(lambda: len(list_launches(tmp_path)) == 10)
        await delete_servers(compute, servers)
        await until(compute, "SELECT count(*) FROM compute.guest", gives=0)
    assert list_guests(tmp_path) == {}


async def test_running_guests_are_destroyed_and_the_delete_goes_on(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    servers = await order_guests(compute, HOSTS)
    async with agent(api_url, tmp_path):
        await until(compute, STAGE_COUNT, "settle", gives=10)
        await delete_servers(compute, servers)
        await until(compute, "SELECT count(*) FROM compute.work WHERE stage = 'delete' AND run_at <= now()", gives=10)
    assert list_guests(tmp_path) == {}


async def test_a_guest_whose_host_was_forced_down_is_destroyed_at_the_start(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    servers = await order_guests(compute, ["h0", "h1"])
    async with agent(api_url, tmp_path):
        await until(compute, STAGE_COUNT, "settle", gives=2)
    async with compute.database.transaction() as tx:  # h0 was forced down and its server deleted
        await tx.execute("UPDATE compute.guest SET desired = 'absent', fenced = true WHERE host = 'h0'")
    async with agent(api_url, tmp_path):
        await until_true(lambda: list(list_guests(tmp_path)) == [(servers[1], "h1")])


async def test_a_guest_whose_server_was_made_anew_is_destroyed_at_the_start(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    servers = await order_guests(compute, ["h0", "h1"])
    async with agent(api_url, tmp_path):
        await until(compute, STAGE_COUNT, "settle", gives=2)
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.guest SET attempt = 2, host = 'h2' WHERE host = 'h0'")
    async with agent(api_url, tmp_path):
        await until_true(lambda: (servers[0], "h0") not in list_guests(tmp_path))
    assert (servers[1], "h1") in list_guests(tmp_path)


async def test_guests_that_an_older_database_does_not_know_are_left_alone(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    servers = await order_guests(compute, ["h0", "h1"])
    async with agent(api_url, tmp_path):
        await until(compute, STAGE_COUNT, "settle", gives=2)
    async with compute.database.transaction() as tx:  # as a backup from before these servers
        await tx.execute("DELETE FROM compute.guest; DELETE FROM compute.work; DELETE FROM compute.server")
    async with agent(api_url, tmp_path):
        await until(compute, "SELECT count(*) FROM compute.unknown_guest", gives=2)
    assert set(list_guests(tmp_path)) == {(servers[0], "h0"), (servers[1], "h1")}


async def test_a_guest_that_was_made_while_an_older_database_came_is_listed_at_once(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    await order_guests(compute, ["h0"])
    async with agent(api_url, tmp_path, Faults(delay_s=0.5)):
        await until(compute, "SELECT count(*) FROM compute.guest WHERE begun_at IS NOT NULL", gives=1)
        async with compute.database.transaction() as tx:
            await tx.execute("DELETE FROM compute.guest; DELETE FROM compute.work; DELETE FROM compute.server")
        await until(compute, "SELECT count(*) FROM compute.unknown_guest", gives=1)
    assert len(list_guests(tmp_path)) == 1


async def test_a_second_agent_of_a_host_is_refused_and_ends(compute: Compute, api_url: str, tmp_path: Path) -> None:
    hosts = fleet(2, like=HostReport(name="", vcpus=4, ram_mb=4096, disk_gb=40))
    async with agent(api_url, tmp_path / "one", hosts=hosts[:1]):
        await until(compute, "SELECT count(*) FROM compute.host WHERE agent_id IS NOT NULL", gives=1)
        with pytest.raises(
            ServedElsewhere, match=f"host fleet-0001 is served by agent .*process {os.getpid()} on .*stop that agent"
        ):
            await run(waits=False, api_url=api_url, hosts=hosts, driver=FakeDriver(tmp_path / "two"))
    async with agent(api_url, tmp_path / "fleet"):
        await until(compute, "SELECT count(*) FROM compute.host WHERE agent_id IS NOT NULL AND declared", gives=10)
        with pytest.raises(
            ServedElsewhere, match=r"host h0 is served by agent .*, and 9 more by others: stop that agent"
        ):
            await run(waits=False, api_url=api_url, hosts=None, driver=FakeDriver(tmp_path / "fleet two"))


async def test_without_a_lease_nothing_is_begun_and_nothing_is_reported(
    compute: Compute, api_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_WAIT_FLEET_S", 0.1)
    monkeypatch.setattr(module, "LEASE_RETRY_S", 0.1)
    servers = await order_guests(compute, ["h0"])
    async with agent(api_url, tmp_path, Faults(delay_s=0.5)):
        await until_true(lambda: len(list_launches(tmp_path)) == 1)
        async with compute.database.transaction() as tx:  # while it was stopped another agent took the host
            await tx.execute("UPDATE compute.host SET agent_id = $1 WHERE name = 'h0'", AGENT.id)
        (late,) = await order_guests(compute, ["h0"])
        await until_true(lambda: list(list_guests(tmp_path)) == [(servers[0], "h0")])
        (elsewhere,) = await order_guests(compute, ["h1"])
        await until(compute, STAGE_COUNT, "settle", gives=1)  # h1's: h0's may not be reported
        assert (late, "h0") not in {(line.server_id, line.host) for line in list_launches(tmp_path)}
        async with compute.database.transaction() as tx:
            await tx.execute("UPDATE compute.host SET silent = true WHERE name = 'h0'")
        await until(compute, STAGE_COUNT, "settle", gives=3)  # it has the host again, and its guest still ran
    assert set(list_guests(tmp_path)) == {(servers[0], "h0"), (late, "h0"), (elsewhere, "h1")}


async def test_an_api_that_goes_away_and_comes_back_loses_nothing(
    compute: Compute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_WAIT_FLEET_S", 0.2)  # a listener stops when no poll is held
    port = free_port()
    await order_guests(compute, HOSTS)
    async with agent(f"http://127.0.0.1:{port}", tmp_path, Faults(delay_s=0.3)):
        async with serving(compute, port):
            await until_true(lambda: len(list_launches(tmp_path)) == 10)
        await until_true(lambda: len(list_guests(tmp_path)) == 10)  # made while nobody could be told
        async with serving(compute, port):
            await until(compute, STAGE_COUNT, "settle", gives=10)


async def test_a_guest_that_was_given_up_while_it_was_made_is_destroyed(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    await order_guests(compute, ["h0"])
    async with agent(api_url, tmp_path, Faults(delay_s=0.2)):
        await until_true(lambda: len(list_launches(tmp_path)) == 1)
        async with compute.database.transaction() as tx:  # forced down: its server was made anew, and deleted, since
            await tx.execute("UPDATE compute.guest SET attempt = 2, desired = 'absent', reported = 'absent'")
        await until_true(lambda: b'"gone":true' in (tmp_path / "guests.journal").read_bytes())
    assert list_guests(tmp_path) == {}
    async with compute.database.connection() as connection:
        assert await connection.fetchval("SELECT status FROM compute.server") == "BUILD"


async def test_a_fleet_of_its_own_registers_its_hosts_and_serves_only_them(
    compute: Compute, api_url: str, tmp_path: Path
) -> None:
    hosts = fleet(3, like=HostReport(name="", vcpus=4, ram_mb=4096, disk_gb=40, physical_networks=("rack1",)))
    async with agent(api_url, tmp_path, hosts=hosts):
        await until(compute, "SELECT count(*) FROM compute.host WHERE seen_at IS NOT NULL", gives=3)
        await order_guests(compute, ["h0", "fleet-0001", "fleet-0003"])
        await until(compute, STAGE_COUNT, "settle", gives=2)
    async with compute.database.connection() as connection:
        rows = await connection.fetch("SELECT name, vcpus, physical_networks FROM compute.host WHERE NOT declared")
        assert [(row["vcpus"], row["physical_networks"]) for row in rows] == [(4, ["rack1"])] * 3
    assert {host for _, host in list_guests(tmp_path)} == {"fleet-0001", "fleet-0003"}


async def test_hosts_that_roost_forgot_are_registered_again(
    compute: Compute, api_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_WAIT_S", 0.1)
    hosts = fleet(1, like=HostReport(name="", vcpus=4, ram_mb=4096, disk_gb=40))
    async with agent(api_url, tmp_path, hosts=hosts):
        await until(compute, "SELECT count(*) FROM compute.host WHERE name = 'fleet-0001'", gives=1)
        async with compute.database.transaction() as tx:
            await tx.execute("DELETE FROM compute.host")
        await until(compute, "SELECT count(*) FROM compute.host WHERE name = 'fleet-0001'", gives=1)


class NotingDriver(FakeDriver):
    """Notes of which guests the disk is to go as well."""

    needs_descriptions = True

    def __init__(self, state: Path) -> None:
        super().__init__(state, Faults(fail_first=ALWAYS))
        self.disks_gone: list[bool] = []

    async def destroy(self, key: GuestKey, *, attempt: int, disk: bool = True) -> None:
        self.disks_gone.append(disk)
        await super().destroy(key, attempt=attempt, disk=disk)


@pytest.mark.parametrize("ran_before", [False, True])
async def test_a_launch_that_fails_takes_no_disk_with_it_that_was_there_before(
    compute: Compute, api_url: str, tmp_path: Path, ran_before: bool
) -> None:
    await order_guests(compute, ["h0"])
    if ran_before:
        async with compute.database.transaction() as tx:
            await tx.execute("UPDATE compute.server SET launched_at = now()")
    driver, stop = NotingDriver(tmp_path), asyncio.Event()
    task = asyncio.create_task(run(api_url=api_url, hosts=None, driver=driver, stop=stop))
    await until_true(lambda: bool(driver.disks_gone))
    stop.set()
    await task
    assert driver.disks_gone[0] is not ran_before
