"""A state directory that was copied, and one that is started for another host: real agents, and what people read."""

import asyncio
import json
import shutil
import stat
from pathlib import Path

from tests.cluster import Cluster, boot, cluster, network_ids, until
from tests.faults.test_host_leases import QUICK_SILENCE, servers, status_is
from tests.launching import run_manage

from roost.agent.drivers.fake import list_guests
from roost.cli.asking.cloud_client import CloudClient

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/24}]}
hosts:
  - {name: 'r1-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
"""


def audit(made: Cluster) -> str:
    """What `roost-manage audit` prints."""
    done = run_manage("audit", "--json", "--data-dir", str(made.data_dir))
    assert done.returncode in (0, 1, 3), done.stderr
    return done.stdout


def modes(directory: Path) -> list[int]:
    return [stat.S_IMODE((directory / name).stat().st_mode) for name in ("", "agent.id", "agent.secret")]


async def test_two_agents_with_one_state_are_both_refused_until_one_is_stopped() -> None:
    with cluster() as made:
        made.serve(environment=QUICK_SILENCE)
        made.load(CLOUD)
        made.agent("--host=r1-h1")
        first, state = made.processes[-1], made.directory / "agent-1"
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            await boot(client, network, name="first")
            await until(status_is(client, "first", "ACTIVE"), what="the first server does not run")
            guests = list_guests(state)
            assert modes(state) == [0o700, 0o600, 0o600]
            shutil.copytree(state, made.directory / "copy")
            second = made.spawn("agent", "--api", made.url, "--host=r1-h1", "--state", str(made.directory / "copy"))

            async def are_refused() -> bool:
                return made.logs().count("the poll was refused") >= 2 and "two of this agent run" in made.logs()

            await until(are_refused, what="the two are not refused")
            found = json.loads(audit(made))
            assert found["counts"]["agent-twice"] == 1
            (agent_id, secret) = ((state / name).read_text().strip() for name in ("agent.id", "agent.secret"))
            assert agent_id not in json.dumps(found)
            assert f"process {first.pid} on" in json.dumps(found)
            assert f"process {second.pid} on" in json.dumps(found)
            assert secret not in made.logs()
            made.stop(second)
            await until(lambda: _is_up(client), what="the one that is left is not served")
            await boot(client, network, name="second")
            await until(status_is(client, "second", "ACTIVE"), what="the one that is left has no orders")
            assert list_guests(state).items() > guests.items()
            await until(lambda: _is_clean(made), what="the audit still names the two")


async def test_a_state_is_not_started_for_another_host_while_it_has_guests() -> None:
    with cluster() as made:
        made.serve(environment=QUICK_SILENCE)
        made.load(CLOUD)
        made.agent("--host=r1-h1")
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            await boot(client, network, name="first")
            await until(status_is(client, "first", "ACTIVE"), what="the first server does not run")
            made.stop(made.processes[-1])
            state = str(made.directory / "agent-1")
            renamed = made.spawn("agent", "--api", made.url, "--host=r1-h2", "--state", state)
            assert await asyncio.to_thread(renamed.wait, 30) == 1
            assert "has guests of r1-h1, which it is not to serve: name the old host too, move its" in made.logs()
            both = ("--host=r1-h1", "--host=r1-h2")
            made.agent(*both, state="agent-1")
            server = (await servers(client))["first"]["id"]
            await client.call("POST", f"/compute/v2.1/servers/{server}/action", {"os-migrateLive": LIVE})
            await until(lambda: _has_guest(Path(state), server, "r1-h2"), what="the server does not move")
            made.stop(made.processes[-1])
            made.agent("--host=r1-h2", state="agent-1")
            assert set(list_guests(Path(state))) == {(server, "r1-h2")}


LIVE = {"host": "r1-h2", "block_migration": "auto"}


async def _has_guest(state: Path, server: str, host: str) -> bool:
    return set(list_guests(state)) == {(server, host)}


async def _is_up(client: CloudClient) -> bool:
    services = (await client.call("GET", "/compute/v2.1/os-services"))["services"]
    return any(service["host"] == "r1-h1" and service["state"] == "up" for service in services)


async def _is_clean(made: Cluster) -> bool:
    return not json.loads(audit(made))["counts"].get("agent-twice", 0)
