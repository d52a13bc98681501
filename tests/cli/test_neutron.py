"""`roost-manage adopt`, and `roost serve placement --with-neutron` with a Neutron over HTTP."""

import asyncio
import io
import math
import os
import signal
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from tests import launching
from tests.cluster import Cluster, until
from tests.fake_neutron import FakeNeutron
from tests.placement.calls import Api
from tests.placement.nova import Nova, Segment, a_segment, clause, publish
from tests.placement.providers import a_uuid
from tests.placement_client import PlacementClient
from tests.platform.fake_keystone import FakeKeystone, Today
from tests.processes import names_of
from typer.testing import CliRunner

from roost.cli.manage import app
from roost.cli.managing.adopt import adopt
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.serving.neutron import NeutronPoll, check_with_neutron, make_neutron
from roost.cli.serving.openstack_metrics import read_neutron_metrics, tell_neutron
from roost.cli.settings import read_settings
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.neutron_view import NeutronView
from roost.placement.settings import PlacementSettings
from roost.platform.database import Database
from roost.platform.errors import BadRequest
from roost.seams.placement import IPV4_ADDRESS

AGE = "roost_neutron_round_age_seconds"


async def _adopt(dsn: str, *, as_json: bool = True, dry_run: bool = False) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=200)
    target = LedgerTarget(data_dir=None, database=dsn, pg_bin=None)
    status = await adopt(target, console, dry_run=dry_run, as_json=as_json)
    assert isinstance(console.file, io.StringIO)
    return status, console.file.getvalue()


async def test_a_cloud_is_adopted_and_every_outcome_has_its_status(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    segment = a_segment(5, 1)
    await publish(ledger, segment)
    neutron, unpublished = FakeNeutron(), a_uuid()
    neutron.add_network({segment.uuid: 5, unpublished: 5})
    neutron.add_port(segment.uuid, a_uuid())
    async with neutron.serve():
        monkeypatch.setenv("ROOST_NEUTRON_URL", neutron.url)
        status, text = await _adopt(dsn, dry_run=True)
        report = msgspec.json.decode(text)
        assert (status, report["ports"], report["unpublished"]) == (3, 1, [unpublished])
        assert {(one["kind"], one["written"]) for one in report["found"]} == {
            ("inventory-unlike-pools", False), ("port-unclaimed", False),
        }  # fmt: skip
        status, text = await _adopt(dsn, as_json=False)
        assert status == 0
        assert "Neutron has 1 port and 2 segments." in text
        assert "2 written, 0 left." in text
        assert f"Neutron has not published segment {unpublished}" in text
        status, text = await _adopt(dsn, as_json=False)
        assert (status, "there is nothing to do" in text) == (4, True)
        neutron.is_down = True
        status, text = await _adopt(dsn)
        assert status == 5
        assert "cannot be asked for segments: it answers 503" in msgspec.json.decode(text)["error"]


Manage = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
def manage(monkeypatch: pytest.MonkeyPatch) -> Manage:
    """Runs `roost-manage` in this process, whose logging is the other tests' too: (exit status, output but the log)."""
    monkeypatch.setattr("roost.cli.managing.manage_options.configure_logging", lambda _program: None)

    async def run(*words: str) -> tuple[int, str]:
        with structlog.testing.capture_logs():
            done = await asyncio.to_thread(CliRunner().invoke, app, words)
        return done.exit_code, done.output

    return run


async def test_an_audit_asks_neutron_and_says_when_it_cannot(
    manage: Manage, database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(database, settings=PlacementSettings(implied_addresses=True))
    await sync_standard_names(ledger)
    async with database.connection() as connection:
        await connection.execute("DROP SCHEMA network, compute, seeing CASCADE")  # as of `roost serve placement`
    segment = a_segment(5, 1)
    await publish(ledger, segment)
    neutron = FakeNeutron()
    neutron.add_network({segment.uuid: 5})
    async with neutron.serve():
        monkeypatch.setenv("ROOST_NEUTRON_URL", neutron.url)
        assert (await manage("audit", "--database", dsn, "--repair"))[0] == 4
        assert len(await Nova(Api(ledger)).boot(1, clause(segment))) == 1
        assert (await manage("audit", "--database", dsn))[0] == 0, "the claim may wait for its port for an hour"
        monkeypatch.setenv("ROOST_NEUTRON_CLAIM_GRACE_S", "0.001")
        status, text = await manage("audit", "--database", dsn, "--repair", "--json")
        report = msgspec.json.decode(text)
        assert (status, [one["kind"] for one in report["repaired"]]) == (4, ["claim-portless"])
        neutron.is_down = True
        status, text = await manage("audit", "--database", dsn)
        assert (status, "Nothing has drifted" in text) == (5, False)
        assert "cannot be asked for segments: it answers 503" in text
        status, text = await manage("audit", "--database", dsn, "--json")
        assert (status, "it answers 503" in msgspec.json.decode(text)["error"]) == (5, True)


async def test_a_user_who_sees_a_part_is_refused_until_it_has_the_right(
    manage: Manage, database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The role service, and Neutron's default policies: it sees no segment, and subnets without theirs."""
    ledger, neutron, segment = Ledger(database), FakeNeutron(roles=frozenset({"service"})), a_segment(5, 1)
    await sync_standard_names(ledger)
    await publish(ledger, segment)
    neutron.add_network({segment.uuid: 5})
    neutron.add_port(segment.uuid, a_uuid())
    keystone = FakeKeystone(world=Today(), own_roles=("service",))
    await keystone.start()
    async with neutron.serve():
        monkeypatch.setenv("ROOST_NEUTRON_URL", neutron.url)
        monkeypatch.setenv("ROOST_NEUTRON_POLL_S", "0.02")
        monkeypatch.setenv("ROOST_KEYSTONE_AUTH_URL", keystone.url)
        monkeypatch.setenv("ROOST_KEYSTONE_USERNAME", "roost")
        monkeypatch.setenv("ROOST_KEYSTONE_PASSWORD", keystone.password)
        for words in ((), ("--dry-run",)):
            status, text = await manage("adopt", "--database", dsn, *words)
            assert (status, "the user name of roost of [keystone], roles: service" in text) == (5, True), text
            for line in ('"get_segment": "role:admin or', '"get_subnet:segment_id": "role:admin or'):
                assert line in text
        neutron.subnets, subnets = {}, neutron.subnets  # then nothing has a member left out
        status, text = await manage("adopt", "--database", dsn)
        assert (status, "roles: service no segment: its user needs the rights get_segment and" in text) == (5, True)
        neutron.subnets = subnets
        settings = read_settings(None)
        client = make_neutron(settings)
        says = "does not say to the user name of roost of [keystone], roles: service on which segments"
        with structlog.testing.capture_logs() as logs:
            poll = asyncio.create_task(NeutronPoll(ledger, client, settings.neutron).run())
            async with asyncio.timeout(60):
                while sum(says in str(entry.get("reason")) for entry in logs) < 2:
                    await asyncio.sleep(0.01)
                assert "addresses are counted as they were" in str(await tell_neutron(ledger))
                neutron.roles, keystone.own_roles = frozenset({"admin"}), ("Admin",)
                while await Nova(Api(ledger)).used(segment) != 1:
                    await asyncio.sleep(0.01)
                while await tell_neutron(ledger) is not None:
                    await asyncio.sleep(0.01)
            assert client.who_asks().endswith("roles: Admin"), "with a new token"
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        await client.close()
    await keystone.stop()


async def test_adopt_has_a_status_for_each_outcome(
    manage: Manage, database: Database, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by a real cause; 5 is above."""
    monkeypatch.setenv("COLUMNS", "500")
    assert (await manage("adopt", "--database", dsn)) == (
        127, "roost-manage: [neutron] url is needed, in the file of --config or as ROOST_NEUTRON_URL: "
        "expected an address: http://neutron.example:9696; or, without a token, auth_url in [keystone], whose "
        "catalogue says it\n",
    )  # fmt: skip
    ledger, neutron, segment = Ledger(database), FakeNeutron(), a_segment(1, 1)
    await sync_standard_names(ledger)
    await publish(ledger, segment)
    neutron.add_network({segment.uuid: 1})
    monkeypatch.setenv("ROOST_NEUTRON_URL", "http://127.0.0.1:9")
    for words in (("--no-such-option",), ("--data-dir", str(tmp_path)), ("--config", str(tmp_path / "none.toml"))):
        status, text = await manage("adopt", "--database", dsn, *words)
        assert (status, "Traceback" in text) == (127, False), text
    for words in (("--data-dir", str(tmp_path)), ("--database", "postgresql://nobody@127.0.0.1:1/none")):
        status, text = await manage("adopt", *words)
        assert (status, "Traceback" in text) == (255, False), text
    async with neutron.serve():
        monkeypatch.setenv("ROOST_NEUTRON_URL", neutron.url)
        assert [(await manage("adopt", "--database", dsn, *words))[0] for words in (("--dry-run",), (), ())] == [
            3,
            0,
            4,
        ]
        taken = neutron.add_port(segment.uuid, a_uuid())
        assert (await manage("adopt", "--database", dsn))[0] == 0
        neutron.add_port(segment.uuid, a_uuid(), address=neutron.ports[taken]["fixed_ips"][0]["ip_address"])
        status, text = await manage("adopt", "--database", dsn)
        assert (status, "0 written, 1 left." in text) == (6, True), text
        monkeypatch.setattr(NeutronView, "read", lambda *_: 1 / 0)
        status, text = await manage("adopt", "--database", dsn)
        assert (status, "ZeroDivisionError" in text) == (255, True)


@pytest.mark.parametrize(
    "command", ["adopt", "audit", "heal_network_info", "sync_placement_aggregates", "placement sync_aggregates"]
)
async def test_a_command_that_automation_repeats_tells_bad_input_from_failure(
    manage: Manage, tmp_path: Path, command: str
) -> None:
    words, bad_file = command.split(), tmp_path / "roost.toml"
    bad_file.write_text("[neutron]\npoll_s = -1\n")
    nowhere = str(tmp_path / "nowhere")
    assert (await manage(*words, "--no-such-option"))[0] == 127
    assert (await manage(*words, "--database", "postgresql://x", "--data-dir", nowhere))[0] == 127
    assert (await manage(*words, "--config", str(bad_file), "--data-dir", nowhere))[0] == 127
    status, text = await manage(*words, "--data-dir", nowhere)
    if command != "adopt":  # which wants a Neutron first
        assert (status, "there is no database in" in text) == (255, True)
    status, text = await manage(*words, "--help")
    shown = " ".join(text.split())
    assert status == 0
    assert [number for number in ("0:", "3:", "127:", "255:") if number not in shown] == []


async def test_without_a_neutron_it_says_what_is_missing(dsn: str) -> None:
    with pytest.raises(BadRequest, match=r"\[neutron\] url is needed"):
        await _adopt(dsn)
    with pytest.raises(BadRequest, match=r"--with-neutron: \[neutron\] url is needed"):
        check_with_neutron(read_settings(None), ("placement",))
    with pytest.raises(BadRequest, match="Roost serves the network itself"):
        check_with_neutron(read_settings(None), ("placement", "network"))


def test_serve_refuses_at_once(tmp_path: Path) -> None:
    ended = launching.run("serve", "placement", "--with-neutron", "--data-dir", str(tmp_path))
    assert ended.returncode == 1
    assert "roost: --with-neutron: [neutron] url is needed, in the file of --config or as" in ended.stderr


async def _make(client: PlacementClient, segment: Segment) -> None:
    body = {"uuid": segment.uuid, "name": f"Neutron segment id {segment.uuid}"}
    await client.do("POST", "/resource_providers", body)
    inventory = {"total": segment.addresses + 1, "reserved": 1, "max_unit": 1}
    body = {"resource_provider_generation": 0, "inventories": {IPV4_ADDRESS: inventory}}
    await client.do("PUT", f"/resource_providers/{segment.uuid}/inventories", body)


def _workers(cluster: Cluster) -> list[int]:
    """The processes below `roost serve` that answer requests, the first of which polls."""
    (supervisor,) = cluster.processes
    return [*names_of(supervisor.pid)]


async def test_a_server_counts_what_neutron_has_also_after_its_poller_was_killed(data_dir: Path) -> None:
    """The other tests of rounds are in one process: this one is of the wiring."""
    neutron, segment, server = FakeNeutron(), a_segment(20, 1), a_uuid()
    neutron.add_network({segment.uuid: 20})
    cluster = Cluster(data_dir)
    async with neutron.serve():
        settings = {
            "ROOST_NEUTRON_URL": neutron.url, "ROOST_NEUTRON_POLL_S": "0.2", "ROOST_NEUTRON_FULL_S": "0.2",
            "ROOST_PLACEMENT_IMPLIED_ADDRESSES": "true",
        }  # fmt: skip
        try:
            await asyncio.to_thread(cluster.serve, "placement", "--with-neutron", environment=settings, workers=2)
            async with PlacementClient.connect(cluster.url, reuse=False) as client:
                await _make(client, segment)
                neutron.add_port(segment.uuid, server)
                neutron.add_port(None, a_uuid())
                await _wait_for(client, segment, 1)
                await _assert_metrics(cluster, neutron, segment, used=1)
                for pid in _workers(cluster):
                    os.kill(pid, signal.SIGKILL)
                neutron.add_port(segment.uuid, server)
                await _wait_for(client, segment, 2)
                neutron.is_down = True
                neutron.delete_ports_of(server)
                neutron.is_down = False
                await _wait_for(client, segment, 0)
        finally:
            await asyncio.to_thread(cluster.close)


async def test_the_addresses_of_a_poller_that_was_killed_show_their_age(data_dir: Path) -> None:
    """With one server there is nobody to take over. Who asks reads the database, as every process does."""
    neutron = FakeNeutron()
    neutron.add_network({a_uuid(): 20})
    cluster = Cluster(data_dir)
    settings = {"ROOST_NEUTRON_POLL_S": "0.2", "ROOST_PLACEMENT_IMPLIED_ADDRESSES": "true"}

    async def age_s(ledger: Ledger) -> float:
        ages = [family for family in await read_neutron_metrics(ledger) if family.name == AGE]
        return ages[0].samples[0].value if ages else math.inf

    async def serve() -> None:
        environment = {**settings, "ROOST_NEUTRON_URL": neutron.url}
        await asyncio.to_thread(cluster.serve, "placement", "--with-neutron", environment=environment)

    async with neutron.serve():
        try:
            await serve()
            database = await Database.open(cluster.dsn, size=1)
            ledger = Ledger(database)
            await until(lambda: asyncio.to_thread(_is_young, cluster))
            await asyncio.to_thread(cluster.stop, cluster.processes[0], signal.SIGKILL)
            begun_at, before_s = time.monotonic(), await age_s(ledger)
            await asyncio.sleep(1)
            assert await age_s(ledger) >= before_s + 1
            assert len((await read_neutron_metrics(ledger))[0].samples) == 1, "they are still told"
            await serve()

            async def is_younger() -> bool:
                return await age_s(ledger) < time.monotonic() - begun_at

            await until(is_younger)
            await database.close()
        finally:
            await asyncio.to_thread(cluster.close)


def _is_young(cluster: Cluster) -> bool:
    with urllib.request.urlopen(f"{cluster.url}/metrics/openstack", timeout=10) as answer:
        families = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}
    return AGE in families and families[AGE].samples[0].value < 5


async def _assert_metrics(cluster: Cluster, neutron: FakeNeutron, segment: Segment, *, used: int) -> None:
    """Every worker tells what the one that polls has seen."""
    ((network, name),) = neutron.networks.items()
    labels = {
        "network_id": network, "network_name": name, "subnet_name": f"subnet of {segment.uuid}", "ip_version": "4",
        "cidr": "10.0.0.0/16", "project_id": "p", "segment_id": segment.uuid,
    }  # fmt: skip
    expected = {
        "network_ip_availabilities_total": (labels, segment.addresses),
        "network_ip_availabilities_used": (labels, used),
        "ports_no_ips": ({}, 1),
    }

    async def is_told() -> bool:
        """Whether each worker tells it: connections go to either one, and each keeps what it told for a while."""
        return [await asyncio.to_thread(_scrape, cluster) for _ in range(8)] == [expected] * 8

    await until(is_told)  # the round that claimed ends soon


def _scrape(cluster: Cluster) -> dict[str, tuple[dict[str, str], float]]:
    with urllib.request.urlopen(f"{cluster.url}/metrics/openstack", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    prefix = "openstack_neutron_"
    samples = [sample for family in families for sample in family.samples if sample.name.startswith(prefix)]
    return {sample.name.removeprefix(prefix): (sample.labels, sample.value) for sample in samples}


async def _wait_for(client: PlacementClient, segment: Segment, used: int) -> None:
    async with asyncio.timeout(120):
        while True:
            answer = await client.call("GET", f"/resource_providers/{segment.uuid}/usages")
            if answer.status == 200 and answer.body["usages"].get(IPV4_ADDRESS) == used:
                return
            await asyncio.sleep(0.1)
