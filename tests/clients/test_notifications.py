"""What a server's whole life tells its consumers: real processes, one file in which every notification is a line."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from tests.cluster import QUICK, Cluster, cluster, settle, until

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
  - {name: large, vcpus: 2, ram_mb: 2048, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/28}]}
hosts:
  - {name: 'h[1-3]', vcpus: 12, ram_mb: 32768, disk_gb: 800, physical_networks: [rack1]}
"""
HERE = socket.gethostname()
SELECTED = [f"scheduler.select_destinations.{phase} nova-scheduler:{HERE}" for phase in ("start", "end")]


def around(name: str, host: str, *phases: str) -> list[str]:
    return [f"instance.{name}.{phase} nova-compute:{host}" for phase in phases or ("start", "end")]


@dataclass
class Life:
    """One server, who asks things of it, and what was told. requests: the ids of those that the last step made."""

    session: aiohttp.ClientSession
    url: str
    file: Path
    server_id: str = ""
    host: str = ""
    seen: int = 0
    requests: Sequence[str] = ()

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"OpenStack-API-Version": "compute 2.74"}
        async with self.session.request(method, f"{self.url}{path}", json=body, headers=headers) as answer:
            text = await answer.text()
            assert answer.status < 300, (method, path, text)
            if method != "GET":
                self.requests = [*self.requests, answer.headers["X-Openstack-Request-Id"]]
        return json.loads(text) if text else None

    async def act(self, action: str, body: Any = None) -> None:
        await self.ask("POST", f"/compute/v2.1/servers/{self.server_id}/action", {action: body})

    async def show(self) -> Any:
        return (await self.ask("GET", f"/compute/v2.1/servers/{self.server_id}"))["server"]

    async def until(self, status: str) -> None:
        """Wait until the server has that status and nothing is being done to it."""

        async def is_so() -> bool:
            server = await self.show()
            assert status == "ERROR" or server["status"] != "ERROR", server.get("fault")
            self.host = server["OS-EXT-SRV-ATTR:host"]
            return (server["status"], server["OS-EXT-STS:task_state"]) == (status, None)

        await until(is_so, what=f"it does not become {status}")

    async def told(self, expected: list[str]) -> None:
        """Wait until consumers were told just that of the server since the last time, for requests of this step."""

        def read() -> list[Any]:
            lines = self.file.read_text().splitlines() if self.file.exists() else []
            notifications = [json.loads(line) for line in lines]
            return [one for one in notifications if uuid_of(one) == self.server_id][self.seen :]

        async def enough() -> bool:
            return len(read()) >= len(expected)

        await until(enough, what=f"expected {expected}, told were {[named(one) for one in read()]}")
        notifications = read()
        assert [named(one) for one in notifications] == expected
        assert {one["context"]["request_id"] for one in notifications} <= set(self.requests)
        self.seen += len(expected)
        self.requests = ()


def uuid_of(notification: Any) -> str | None:
    data = notification["payload"].get("nova_object.data", {})
    name: str | None = data.get("instance_uuid", data.get("uuid"))
    return name


def named(notification: Any) -> str:
    return f"{notification['event_type']} {notification['publisher_id']}"


@asynccontextmanager
async def a_life() -> AsyncIterator[tuple[Cluster, Life]]:
    with cluster(dict(QUICK)) as made:
        file = made.directory / "notifications.log"
        made.environment = {**QUICK, "ROOST_NOTIFICATIONS_LOG_FILE": str(file)}
        made.serve("all")
        made.load(CLOUD)
        made.agent("--fake-pre-copy=600")
        async with aiohttp.ClientSession() as session:
            yield made, Life(session, made.url, file)


async def test_a_servers_whole_life_is_told() -> None:
    async with a_life() as (made, life):
        await boot(life)
        for action, name, status in (("os-stop", "power_off", "SHUTOFF"), ("os-start", "power_on", "ACTIVE")):
            await life.act(action)
            await life.until(status)
            await life.told(around(name, life.host))
        await migrate_and_resize(life)
        await shelve(life)
        await live_migrate(life)
        await attach_and_rebuild(life)
        await evacuate(life)
        await life.ask("DELETE", f"/compute/v2.1/servers/{life.server_id}")
        await life.told(around("delete", life.host))
        await settle(made)
        assert {"port.create.end", "port.update.end", "port.delete.end"} <= ports_told(life)


async def boot(life: Life) -> None:
    flavors = (await life.ask("GET", "/compute/v2.1/flavors"))["flavors"]
    networks = (await life.ask("GET", "/network/v2.0/networks"))["networks"]
    flavor = next(one["id"] for one in flavors if one["name"] == "small")
    server = {"name": "web", "flavorRef": flavor, "networks": [{"uuid": networks[0]["id"]}], "imageRef": ""}
    life.server_id = (await life.ask("POST", "/compute/v2.1/servers", {"server": server}))["server"]["id"]
    await life.until("ACTIVE")
    await life.told([*SELECTED, *around("create", life.host)])


async def migrate_and_resize(life: Life) -> None:
    flavors = (await life.ask("GET", "/compute/v2.1/flavors"))["flavors"]
    large = next(one["id"] for one in flavors if one["name"] == "large")
    for action, body, end in (("migrate", None, "confirmResize"), ("resize", {"flavorRef": large}, "revertResize")):
        source = life.host
        await life.act(action, body)
        await life.until("VERIFY_RESIZE")
        dest = life.host
        moved = [*around("resize_prep", dest), *around("resize", source), *around("resize_finish", dest)]
        await life.told([*SELECTED, *moved])
        await life.act(end)
        await life.until("ACTIVE")
        if end == "confirmResize":
            await life.told(around("resize_confirm", source))
        else:
            await life.told([*around("resize_revert", dest, "start"), *around("resize_revert", source, "end")])


async def shelve(life: Life) -> None:
    source = life.host
    await life.act("shelve")
    await life.until("SHELVED_OFFLOADED")
    await life.told([*around("shelve", source), *around("shelve_offload", source)])
    await life.act("unshelve")
    await life.until("ACTIVE")
    await life.told([*SELECTED, *around("unshelve", life.host)])


async def live_migrate(life: Life) -> None:
    """Once aborted, once forced to its end: the copy itself would take ten minutes."""
    for aborted in (True, False):
        source = life.host
        await life.act("os-migrateLive", {"host": None, "block_migration": "auto"})
        migration = await copying(life)
        path = f"/compute/v2.1/servers/{life.server_id}/migrations/{migration['id']}"
        dest = migration["dest_compute"]
        if aborted:
            await life.ask("DELETE", path)
            await life.until("ACTIVE")
            rest = [
                *around("live_migration_abort", source),
                *around("live_migration_rollback", source, "start"),
                *around("live_migration_rollback_dest", dest),
                *around("live_migration_rollback", source, "end"),
            ]
            await life.told([*SELECTED, *around("live_migration_pre", dest, "start"), *rest])
        else:
            await life.ask("POST", f"{path}/action", {"force_complete": None})
            await life.until("ACTIVE")
            rest = [
                *around("live_migration_force_complete", source),
                *around("live_migration_pre", dest, "end"),
                *around("live_migration_post", source),
                *around("live_migration_post_dest", dest),
            ]
            await life.told([*SELECTED, *around("live_migration_pre", dest, "start"), *rest])


async def copying(life: Life) -> Any:
    """The live migration, once its memory is being copied."""
    while True:
        migrations = (await life.ask("GET", f"/compute/v2.1/servers/{life.server_id}/migrations"))["migrations"]
        if migrations and migrations[0]["status"] == "running":
            return migrations[0]
        await asyncio.sleep(0.05)  # another process is at work; nothing here can move its clock


async def attach_and_rebuild(life: Life) -> None:
    networks = (await life.ask("GET", "/network/v2.0/networks"))["networks"]
    path = f"/compute/v2.1/servers/{life.server_id}/os-interface"
    attached = await life.ask("POST", path, {"interfaceAttachment": {"net_id": networks[0]["id"]}})
    await life.told(around("interface_attach", life.host))
    await life.ask("DELETE", f"{path}/{attached['interfaceAttachment']['port_id']}")
    await life.told(around("interface_detach", life.host))
    await life.act("rebuild", {"imageRef": "6f70656e-0000-4000-8000-000000000001"})
    await life.until("ACTIVE")
    await life.told(around("rebuild", life.host))


async def evacuate(life: Life) -> None:
    services = (await life.ask("GET", "/compute/v2.1/os-services"))["services"]
    service_id = next(one["id"] for one in services if one["host"] == life.host)
    await life.ask("PUT", f"/compute/v2.1/os-services/{service_id}", {"forced_down": True})
    await life.act("evacuate", {})
    await life.until("ACTIVE")
    rebuilt = [f"instance.rebuild_scheduled nova-conductor:{HERE}", *around("rebuild", life.host)]
    await life.told([f"instance.evacuate nova-api:{HERE}", *SELECTED, *rebuilt])


def ports_told(life: Life) -> set[str]:
    lines = [json.loads(line) for line in life.file.read_text().splitlines()]
    return {one["event_type"] for one in lines if one["publisher_id"] == f"network.{HERE}"}
