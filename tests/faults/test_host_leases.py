"""Who serves a host, with real agents: two of them, one that slept, hosts that lost their guests, an older database."""

import asyncio
import json
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.cluster import Cluster, boot, cluster, network_ids, settle, until
from tests.launching import run_manage

from roost.agent.drivers.fake import list_guests, list_launches
from roost.cli.asking.cloud_client import CloudClient

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/30}]}
hosts:
  - {name: r1-h1, vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
"""
"""A host, and one address."""
QUICK_SILENCE = {"ROOST_COMPUTE_HOST_DOWN_AFTER_S": "3"}
HOST = "--host=r1-h1"


async def servers(client: CloudClient) -> dict[str, dict[str, Any]]:
    """Every server that is shown, by name."""
    return {server["name"]: server for server in await client.list_servers()}


def status_is(client: CloudClient, name: str, status: str) -> Callable[[], Awaitable[bool]]:
    async def fact() -> bool:
        return (await servers(client)).get(name, {}).get("status") == status

    return fact


async def fault(client: CloudClient, name: str) -> str:
    server = (await servers(client))[name]
    return str((await client.call("GET", f"/compute/v2.1/servers/{server['id']}"))["server"]["fault"]["message"])


async def delete(client: CloudClient, name: str) -> None:
    await client.call("DELETE", f"/compute/v2.1/servers/{(await servers(client))[name]['id']}")


async def force_down(client: CloudClient, down: bool) -> None:
    body = {"host": "r1-h1", "binary": "nova-compute", "forced_down": down}
    await client.call("PUT", "/compute/v2.1/os-services/force-down", body)


async def used_addresses(client: CloudClient) -> int:
    ports = await client.list_all("/network/v2.0/ports", "ports")
    return sum(len(port["fixed_ips"]) for port in ports)


def manage(made: Cluster, *arguments: str) -> str:
    """A `roost-manage` command on the cluster's database; what it prints."""
    done = run_manage(*arguments, "--data-dir", str(made.data_dir))
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


def audit_kinds(made: Cluster) -> set[str]:
    """The kinds of drift that `roost-manage audit` names."""
    return {kind for kind, count in json.loads(manage(made, "audit", "--json"))["counts"].items() if count}


async def test_a_lost_server_keeps_its_address_and_what_the_agent_that_slept_runs_is_named_afterwards() -> None:
    with cluster() as made:
        made.serve(environment=QUICK_SILENCE)
        made.load(CLOUD)
        made.agent(HOST)
        sleeper = made.processes[-1]
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            await until(lambda: _boots(client, network, "first"), what="the first server does not run")
            guests = list_guests(made.directory / "agent-1")
            assert len(guests) == 1

            second = made.spawn(
                "agent", "--api", made.url, HOST, "--no-wait", "--state", str(made.directory / "refused")
            )
            assert await asyncio.to_thread(second.wait, 30) == 1
            assert "host r1-h1 is served by agent" in made.logs()
            sleeper.send_signal(signal.SIGSTOP)
            await until(lambda: _is_down(client), what="the host is not noted as silent")

            made.agent(HOST)  # another agent for the same host: it has nothing of the first one's guests
            heir = made.processes[-1]
            await until(status_is(client, "first", "ERROR"), what="the first server's guest is not missed")
            assert await fault(client, "first") == "its guest is gone from host r1-h1"
            assert "guest-missing" in audit_kinds(made)
            await boot(client, network, name="second")
            await until(status_is(client, "second", "ERROR"), what="the second server is not refused")
            assert "free address" in await fault(client, "second")
            await delete(client, "second")
            await delete(client, "first")  # whoever serves the host has listed all that it has, without it
            await until(lambda: _is_free(client), what="the delete does not come to its end")

            sleeper.send_signal(signal.SIGCONT)  # it is refused, and what it runs goes on running
            await until(lambda: _says(made, "the poll was refused"), what="who woke is not refused")
            assert list_guests(made.directory / "agent-1") == guests
            made.stop(heir)

            async def is_named() -> bool:
                return "guest-unknown" in audit_kinds(made)

            await until(is_named, what="the guest that nobody asks for is not named")


async def test_a_host_that_comes_back_empty_is_noticed_and_frees_nothing_by_itself() -> None:
    with cluster() as made:
        made.serve(environment=QUICK_SILENCE)
        made.load(CLOUD)
        made.agent(HOST, state="agent-1")
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            await until(lambda: _boots(client, network, "first"), what="the first server does not run")
            made.stop(made.processes[-1])
            (made.directory / "agent-1" / "guests.journal").unlink()
            made.agent(HOST, state="agent-1")
            await until(status_is(client, "first", "ERROR"), what="that it lost its guest is not noticed")
            assert await fault(client, "first") == "its guest is gone from host r1-h1"
            assert audit_kinds(made) == {"guest-missing"}
            assert await used_addresses(client) == 1
            assert len(list_launches(made.directory / "agent-1")) == 1  # it is not made again by itself
            await delete(client, "first")
            await settle(made)

            await until(lambda: _boots(client, network, "second"), what="the second server does not run")
            made.stop(made.processes[-1], signal.SIGKILL)
            await until(lambda: _is_down(client), what="the host is not noted as silent")
            shutil.rmtree(made.directory / "agent-1")  # the host was installed anew
            made.agent(HOST, state="agent-2")
            await until(status_is(client, "second", "ERROR"), what="that it lost its guest is not noticed")
            assert await used_addresses(client) == 1
            await delete(client, "second")
            await settle(made)
            await until(lambda: _boots(client, network, "third"), what="the third server does not run")


async def test_the_guests_of_a_host_that_was_forced_down_are_destroyed_when_it_is_back() -> None:
    with cluster() as made:
        made.serve(environment=QUICK_SILENCE)
        made.load(CLOUD)
        made.agent(HOST, state="agent-1")
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            await until(lambda: _boots(client, network, "first"), what="the first server does not run")
            made.stop(made.processes[-1], signal.SIGKILL)
            await force_down(client, True)
            await delete(client, "first")
            await until(lambda: _is_free(client), what="an operator's word does not free it")
            assert len(list_guests(made.directory / "agent-1")) == 1
            await force_down(client, False)
            made.agent(HOST, state="agent-1")
            await settle(made)
            assert list_guests(made.directory / "agent-1") == {}


async def test_an_older_database_destroys_nothing_and_names_what_it_does_not_know() -> None:
    with cluster() as made:
        made.serve(environment=QUICK_SILENCE)
        made.load(CLOUD.replace("10.1.0.0/30", "10.1.0.0/28"))
        made.agent(HOST, state="agent-1")
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            await until(lambda: _boots(client, network, "deleted"), what="the first server does not run")
            await _stop_all(made)
            copy = ["cp", "-a", str(made.data_dir), str(made.directory / "backup")]
            await asyncio.to_thread(subprocess.run, copy, check=True, timeout=60)
            made.serve(environment=QUICK_SILENCE)
            made.agent(HOST, state="agent-1")
        async with CloudClient.connect(made.url) as client:
            await until(lambda: _boots(client, network, "made since"), what="the second server does not run")
            await delete(client, "deleted")
            await settle(made)
            guests = list_guests(made.directory / "agent-1")
            assert len(guests) == 1
            await _stop_all(made)
            shutil.rmtree(made.data_dir)
            (made.directory / "backup").rename(made.data_dir)
            made.serve(environment=QUICK_SILENCE)
            made.agent(HOST, state="agent-1")
        async with CloudClient.connect(made.url) as client:
            await until(status_is(client, "deleted", "ERROR"), what="that its guest is gone is not noticed")
            assert audit_kinds(made) == {"guest-missing", "guest-unknown"}
            assert list_guests(made.directory / "agent-1") == guests
            ((unknown, host),) = guests
            manage(made, "destroy-guest", unknown, "--host", host, "--yes")  # as a person decides
            await until(lambda: _has_no_guests(made.directory / "agent-1"), what="the guest is not destroyed")
            await delete(client, "deleted")
            await settle(made)


async def _has_no_guests(state: Path) -> bool:
    return not list_guests(state)


async def _boots(client: CloudClient, network: str, name: str) -> bool:
    """Have the server, once; whether it runs."""
    there = await servers(client)
    if name not in there:
        await boot(client, network, name=name)
    elif there[name]["status"] == "ERROR":
        raise AssertionError(await fault(client, name))
    return name in there and bool(there[name]["status"] == "ACTIVE")


async def _is_down(client: CloudClient) -> bool:
    services = (await client.call("GET", "/compute/v2.1/os-services?binary=nova-compute"))["services"]
    return [service["state"] for service in services if service["host"] == "r1-h1"] == ["down"]


async def _is_free(client: CloudClient) -> bool:
    return await used_addresses(client) == 0


async def _says(made: Cluster, words: str) -> bool:
    return words in made.logs()


async def _stop_all(made: Cluster) -> None:
    for process in reversed(list(made.processes)):
        made.stop(process)
