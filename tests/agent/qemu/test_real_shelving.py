"""A whole Roost whose one host is a namespace: what a guest wrote is there when its server was shelved in between.

tests/compute/test_shelving.py has everything else about that, without guests.
"""

import contextlib
from pathlib import Path

import pytest
from tests.agent.qemu.site import prepare_whole_roost
from tests.cluster import until
from tests.faults.moving import act, servers_by_id

from roost.cli.asking.cloud_client import CloudClient, CloudRefused, Json
from roost.cli.asking.cloudfile import parse_cloud
from roost.cli.asking.loading import load
from roost.cli.asking.local_cloud import running_cloud
from roost.cli.asking.real_hosts import running_hosts
from roost.cli.asking.real_probes import answers, ask_shell

CLOUD = """
flavors: [{name: tiny, vcpus: 1, ram_mb: 96, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: flat, subnets: [{cidr: 203.0.113.0/28}]}
hosts: [{name: r1-h1, vcpus: 8, ram_mb: 2048, disk_gb: 20, physical_networks: [rack1]}]
"""
WRITE = "printf kept | dd of=/dev/vda conv=notrunc 2>/dev/null; sync"
READ = "dd if=/dev/vda bs=4 count=1 2>/dev/null"
TIMEOUT_S = 120.0

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def works_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip with the name of what lacks. Where continuous integration could have had it, that is a failure."""
    prepare_whole_roost(monkeypatch)


async def test_a_disk_is_there_after_its_server_was_shelved(data_dir: Path) -> None:
    cloud = parse_cloud(CLOUD, name="one real host")[0]
    async with contextlib.AsyncExitStack() as stack:
        local = running_cloud(data_dir, listen="127.0.0.1:0", log_file=data_dir / "test.log", pretends=False)
        roost = await stack.enter_async_context(local)
        loaded = await load(roost.client, cloud, servers=False, progress=lambda *_: None)
        hosts = await stack.enter_async_context(running_hosts(cloud, roost, data_dir, temporary=False))
        client, fabric = roost.client, hosts.network.fabric

        async def is_up() -> bool:
            return await client.list_hosts_up() == {"r1-h1"}

        await until(is_up)
        await client.boot("web", loaded.flavors["tiny"], [{"uuid": loaded.networks["public"]}])
        server = await until_is(client, "ACTIVE")
        await until_answers(fabric, server)
        await ask_shell(fabric, address_of(server), WRITE)
        await act(client, server["id"], "shelve")
        shelved = await until_is(client, "SHELVED")
        disk = hosts.directory / "r1-h1" / "disks" / f"{server['id']}.r1-h1.qcow2"
        assert (shelved["OS-EXT-SRV-ATTR:host"], disk.exists()) == ("r1-h1", True)
        with pytest.raises(CloudRefused, match="off its host it would lose the disk"):
            await act(client, server["id"], "shelveOffload")
        await act(client, server["id"], "unshelve")
        await until_answers(fabric, await until_is(client, "ACTIVE"))
        assert (await ask_shell(fabric, address_of(server), READ)).strip() == "kept"
        await act(client, server["id"], "shelve")
        await until_is(client, "SHELVED")
        await act(client, server["id"], "forceDelete")

        async def is_gone() -> bool:
            return not disk.exists() and not await servers_by_id(client)

        await until(is_gone, timeout_s=TIMEOUT_S)


async def until_is(client: CloudClient, status: str) -> Json:
    """Wait until the one server is that, and nothing is done to it; return it."""

    async def is_so() -> bool:
        (server,) = (await servers_by_id(client)).values()
        return (server["status"], server["OS-EXT-STS:task_state"]) == (status, None)

    await until(is_so, timeout_s=TIMEOUT_S)
    (server,) = (await servers_by_id(client)).values()
    return server


async def until_answers(fabric: str, server: Json) -> None:
    async def answer() -> bool:
        return await answers(fabric, address_of(server))

    await until(answer, timeout_s=TIMEOUT_S)


def address_of(server: Json) -> str:
    ((address,),) = server["addresses"].values()
    return str(address["addr"])
