"""Real processes, and a host whose agent lists what no record knows: nobody is given what these guests have."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.cluster import boot, cluster, network_ids, until
from tests.faults.test_host_leases import audit_kinds, fault, servers
from tests.launching import run_manage

from roost.cli.asking.cloud_client import CloudClient, CloudRefused
from roost.seams.agent import (
    AgentIdentity,
    GuestNic,
    GuestReport,
    GuestsBody,
    HostReport,
    HostsBody,
    ListedGuest,
    PollBody,
    ReportsBody,
)

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/28}]}
hosts:
  - {name: r1-h1, vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
"""
"""13 addresses, 10.1.0.2 to 10.1.0.14."""
OTHER_HOST = "r1-h2"
AGENT = AgentIdentity(
    id="c0000000-0000-0000-0000-00000000000c", label="a restored host", service_version=5,
    boot_id="d0000000-0000-0000-0000-00000000000d", secret="s" * 32,
)  # fmt: skip
HELD = "9 of its addresses are held by unknown guests: see roost-manage guests list"


def guest(number: int, network: str) -> ListedGuest:
    nic = GuestNic(
        mac_address=f"fa:16:3e:00:02:{number:02x}", addresses=(f"10.1.0.{number}",), network_id=network,
        port_id=f"{number:08x}-2222-2222-2222-222222222222",
    )  # fmt: skip
    return ListedGuest(
        server_id=f"{number:08x}-1111-1111-1111-111111111111", host=OTHER_HOST, attempt=1, state="running",
        power_state="running", nics=(nic,), name=f"restored-{number}", project_id="restored", vcpus=1, ram_mb=1024,
        disk_gb=10,
    )  # fmt: skip


async def say(client: CloudClient, url: str, what: str, body: Any) -> Any:
    method = "PUT" if what == "hosts" else "POST"
    return await client.call(method, f"{url}/{what}", msgspec.to_builtins(body))


async def test_nine_unknown_guests_of_a_real_roost_keep_their_addresses() -> None:
    with cluster() as made:
        made.serve()
        made.load(CLOUD)
        made.agent("--host=r1-h1")
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            url = (await client.call("GET", "/agent/v1"))["url"]
            host = HostReport(
                name=OTHER_HOST, vcpus=16, ram_mb=65536, disk_gb=500, physical_networks=("rack1",), service_version=5
            )
            await say(client, url, "hosts", HostsBody(agent=AGENT, hosts=(host,)))
            polled = await say(client, url, "poll", PollBody(agent=AGENT, hosts=(OTHER_HOST,)))
            guests = tuple(guest(number, network) for number in range(2, 11))
            await say(client, url, "guests", GuestsBody(agent=AGENT, guests=guests, as_of=polled["as_of"]))
            disable = {"host": OTHER_HOST, "binary": "nova-compute", "forced_down": True}
            await client.call("PUT", "/compute/v2.1/os-services/force-down", disable)

            for number in range(5):
                await boot(client, network, name=f"new-{number}")

            async def is_over() -> bool:
                return all(server["status"] != "BUILD" for server in (await servers(client)).values())

            await until(is_over, what="the boots are not over")
            shown = await servers(client)
            ended = sorted(server["status"] for server in shown.values())
            assert ended == ["ACTIVE"] * 4 + ["ERROR"]
            ports = await client.list_all("/network/v2.0/ports", "ports")
            given = sorted(ip["ip_address"] for port in ports for ip in port["fixed_ips"])
            assert given == ["10.1.0.11", "10.1.0.12", "10.1.0.13", "10.1.0.14"]
            (failed,) = [name for name, server in shown.items() if server["status"] == "ERROR"]
            assert HELD in await fault(client, failed)
            body = {"port": {"network_id": network, "binding:host_id": "r1-h1"}}
            with pytest.raises(CloudRefused, match=HELD):
                await client.call("POST", "/network/v2.0/ports", body)
            assert audit_kinds(made) == {"guest-unknown"}
            arguments = ("--data-dir", str(made.data_dir))
            listing = await asyncio.to_thread(run_manage, "guests", "list", "--json", *arguments)
            assert listing.returncode == 3
            assert [item["addresses"] for item in json.loads(listing.stdout)] == [
                f"10.1.0.{number} is held" for number in range(2, 11)
            ]
            adopted = await asyncio.to_thread(run_manage, "guests", "adopt", guests[0].server_id, *arguments)
            assert adopted.returncode == 0, adopted.stderr
            assert (await servers(client))["restored-2"]["status"] == "ACTIVE"
            table = await asyncio.to_thread(run_manage, "guests", "list", *arguments)
            assert "restored-2 " not in table.stdout
            assert "restored-3 " in table.stdout
            destroyed = await asyncio.to_thread(
                run_manage, "guests", "destroy", guests[1].server_id, "--yes", *arguments
            )
            assert destroyed.returncode == 0, destroyed.stderr
            again = await asyncio.to_thread(run_manage, "guests", "adopt", guests[1].server_id, *arguments)
            assert again.returncode == 1
            assert "is ordered to destroy it" in again.stderr

            async def is_free() -> bool:
                shown = await asyncio.to_thread(run_manage, "guests", "list", "--json", *arguments)
                return len(json.loads(shown.stdout)) == 7

            report = GuestReport(server_id=guests[1].server_id, host=OTHER_HOST, attempt=1, state="absent")
            await say(client, url, "reports", ReportsBody(agent=AGENT, reports=(report,)))
            await until(is_free, what="the guest that is gone is listed still")
            await until(lambda: _boots(client, network, "later"), what="what it had is not given again")
            ports = await client.list_all("/network/v2.0/ports", "ports")
            assert "10.1.0.3" in {ip["ip_address"] for port in ports for ip in port["fixed_ips"]}


async def _boots(client: CloudClient, network: str, name: str) -> bool:
    """Have the server, again after each time that it was refused; whether it runs."""
    there = await servers(client)
    if name in there and there[name]["status"] == "ERROR":
        with suppress(CloudRefused):  # it is gone by now
            await client.call("DELETE", f"/compute/v2.1/servers/{there[name]['id']}")
    elif name not in there:
        await boot(client, network, name=name)
    return name in there and bool(there[name]["status"] == "ACTIVE")
