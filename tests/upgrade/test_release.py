"""The kept release is upgraded to this commit under load, as docs/upgrade/roost.md prints it, with the way back."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cluster import QUICK, network_ids, settle
from tests.howto.rehearsal import Rehearsal, rehearsal
from tests.ports import free_port
from tests.upgrade.kept import ROOT, unpack
from tests.upgrade.load import Load, under_load
from tests.upgrade.rehearsed import CONTRACT, EXPAND, make_next_release

from roost.cli.asking.cloud_client import CloudClient
from roost.platform.database import Database
from roost.platform.postgres import PrivatePostgres

DOCUMENT = ROOT / "docs" / "upgrade" / "roost.md"
PROGRAMS = {"roost": "run_roost", "roost-manage": "run_manage"}
AGENTS_OR_STEP = r"\nand two agents|\n## (?=[1-9])"
NEEDED = ("haproxy", "socat")
MIGRATIONS = "roost/*/migrations/[0-9]*.py"
TIMES = {**QUICK, "ROOST_COMPUTE_HOST_DOWN_AFTER_S": "120"}
"""Agents are to be replaced within that, as the document says, which on a busy machine takes longer than 30 s."""
SERVERS_ASKED = {"make server", "migrate", "confirmResize", "os-migrateLive", "delete server", "list servers"}
ASKED = {*SERVERS_ASKED, "make port", "delete port", "list ports", "candidates"}
CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/25}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 2, subnets: [{cidr: 10.2.0.0/25}]}
hosts:
  - {name: 'r1-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
  - {name: 'r2-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack2]}
"""
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not os.environ.get("CI") and not all(map(shutil.which, NEEDED)),
        reason=f"the upgrade is walked with {' and '.join(NEEDED)}: apt-get install {' '.join(NEEDED)}",
    ),
]


def install(source: Path, directory: Path) -> None:
    """Make the programs of a release whose source is elsewhere."""
    directory.mkdir(parents=True)
    for program, function in PROGRAMS.items():
        line = f"from roost.cli.entry import {function}; {function}()"
        script = f'#!/bin/sh\nPYTHONPATH={source} exec {sys.executable} -c "{line}" "$@"\n'
        (directory / program).write_text(script)
        (directory / program).chmod(0o755)


@pytest.fixture
def empty_dsn(postgres: PrivatePostgres) -> Iterator[str]:
    """A database in which nothing is."""
    postgres._query("CREATE DATABASE test_release")
    yield postgres.dsn.replace("/roost?", "/test_release?")
    postgres._query("DROP DATABASE test_release WITH (FORCE)")


@contextmanager
def balancer_ended(directory: Path) -> Iterator[None]:
    """End the load balancer that the document started."""
    try:
        yield
    finally:
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((directory / "haproxy.pid").read_text()), signal.SIGTERM)


def test_the_kept_release_is_upgraded_under_load_there_and_back_as_it_is_printed(
    data_dir: Path, empty_dsn: str
) -> None:
    sources = unpack(data_dir / "kept"), make_next_release(data_dir / "next")
    for number, source in enumerate(sources, 1):
        install(source, data_dir / "opt" / f"roost-{number}" / "bin")
    replaced = {"/opt/roost-": f"{data_dir}/opt/roost-", "postgresql://roost@db.example/roost": empty_dsn}
    replaced["/run/haproxy/"] = f"{data_dir}/"
    replaced |= {f"127.0.0.1:{port}": f"127.0.0.1:{free_port()}" for port in (8778, 8781, 8782, 8791, 8792)}
    url = f"http://{replaced['127.0.0.1:8778']}"
    there, agents, *steps = re.split(AGENTS_OR_STEP, DOCUMENT.read_text())
    with balancer_ended(data_dir), rehearsal(data_dir, replaced=replaced, **TIMES) as reader:
        reader.follow_text(there)
        (data_dir / "cloud.yaml").write_text(CLOUD)
        reader.do(f"{data_dir}/opt/roost-1/bin/roost load cloud.yaml --api {url}")
        reader.follow_text(agents)
        flavor, network = asyncio.run(read_names(url))
        with under_load(url, flavor=flavor, network=network) as load:
            printed = [follow(reader, step) for step in steps]
        print(load.client.done, load.longest_s)  # noqa: T201 - what the load was, and how long its tasks took
        assert load.client.wrong == []
        assert set(load.client.done) >= ASKED
        asyncio.run(check_servers(url, empty_dsn, load))
        assert_migrated(sources, expanded=printed[0], contracted=printed[-1])
        refused = subprocess.run(
            [data_dir / "opt" / "roost-1" / "bin" / "roost", "serve", "conductor", "--database", empty_dsn],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (refused.returncode, "run the newer Roost that migrated it" in refused.stderr) == (1, True)


async def read_names(url: str) -> tuple[str, str]:
    """Return the ids of the flavor and of the network."""
    async with CloudClient.connect(url) as client:
        flavors = await client.list_flavors()
        return flavors[0]["id"], (await network_ids(client))["public"]


def follow(reader: Rehearsal, step: str) -> str:
    """Do what a step says; return what its last commands printed."""
    reader.follow_text(step)
    return reader.printed


def assert_migrated(sources: Sequence[Path], *, expanded: str, contracted: str) -> None:
    """Fail unless the walk made each migration and schema that the kept release has not, in the step that it is of."""
    old, new = ({path.relative_to(source) for path in source.glob(MIGRATIONS)} for source in sources)
    assert {EXPAND, CONTRACT} < {path.stem for path in new - old}
    made = {"expand": expanded.partition("Expanded by")[2], "contract": contracted.partition("Contracted by")[2]}
    missing = {path.parent for path in new} - {path.parent for path in old}
    for path in new - old:
        kind = path.stem.split("_")[1]
        if path.parent not in missing and kind != "first":
            assert path.stem in made[kind]
    assert all(path.parent.name in expanded.partition("Made ")[2] for path in missing)


async def check_servers(url: str, dsn: str, load: Load) -> None:
    """Nothing is lost and nothing is left: all servers are ACTIVE, with one port each, and all tables agree."""
    # Guests that the kept release made have no addresses in its agents' journals.
    logs: Any = SimpleNamespace(upstream_url="", dsn=dsn, logs=lambda: "", directory=Path("none"))
    await settle(logs)
    async with CloudClient.connect(url) as client:
        servers = await client.list_servers()
        ports = await client.list_all("/network/v2.0/ports", "ports")
    odd = [(server["id"], server["status"], server.get("fault")) for server in servers if server["status"] != "ACTIVE"]
    assert odd == []
    assert {server["id"] for server in servers} == load.servers.remaining
    assert {port["id"] for port in ports if not port["device_id"]} == load.ports.remaining
    assert sorted(port["device_id"] for port in ports if port["device_id"]) == sorted(load.servers.remaining)
    database = await Database.open(dsn, size=1)
    async with database.connection() as connection:
        columns = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'rehearsal'"
        assert await connection.fetchval(columns) == 0
    await database.close()
