"""Everything at once, at random times: servers come and go while whatever runs is killed; in the end nothing is leaked.

ROOST_STORM_SEED gives a storm other choices, ROOST_STORM_S makes it longer.
"""

import asyncio
import contextlib
import os
import signal
import time
from random import Random

import pytest
from tests.cluster import Cluster, cluster, network_ids, settle, until
from tests.processes import names_of

from roost.cli.asking.cloud_client import CloudClient, CloudRefused, Json
from roost.platform.postgres import PrivatePostgres

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/28}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 2, subnets: [{cidr: 10.2.0.0/28}]}
  - name: backend
    physical_network: backend
    subnets: [{cidr: 10.9.0.0/27}]
hosts:
  - {name: 'r1-h[1-3]', vcpus: 8, ram_mb: 16384, disk_gb: 400, physical_networks: [rack1, backend]}
  - {name: 'r2-h[1-3]', vcpus: 8, ram_mb: 16384, disk_gb: 400, physical_networks: [rack2, backend]}
"""
STORM_S = float(os.environ.get("ROOST_STORM_S", "5"))
SEED = int(os.environ.get("ROOST_STORM_SEED", "1"))
CLIENTS = 16
KILL_EVERY_S = 0.8
ALLOWED = (0, 404, 409, 503)
"""What a client may be told in a storm; 0: the connection was cut."""


@pytest.mark.parametrize("killed", ["nothing", "children", "postmaster"])
async def test_a_storm_leaks_nothing(killed: str) -> None:
    with cluster() as made:
        made.serve(workers=2, conductors=3)
        made.load(CLOUD)
        made.agent("--fake-fail=12", "--fake-delay=0.05", state="agent-storm")
        async with CloudClient.connect(made.url) as client:
            storm = Storm(made, client, await network_ids(client), Random(SEED))
            await storm.blow(killed)
            await up(client)
            await settle(made, timeout_s=90)
            assert storm.asked > CLIENTS
            await storm.clear_up()
            await settle(made, timeout_s=90)
            assert not storm.refused, storm.refused
            usages = await client.call("GET", f"/placement/resource_providers/{storm.networks['backend']}/usages")
            assert usages["usages"] == {"IPV4_ADDRESS": 0}


class Storm:
    """Clients that ask for everything, and a hand that kills."""

    def __init__(self, made: Cluster, client: CloudClient, networks: dict[str, str], random: Random) -> None:
        self.made, self.client, self.networks, self.random = made, client, networks, random
        self.servers: list[str] = []
        self.ports: list[str] = []
        self.asked = 0
        self.refused: list[str] = []

    async def blow(self, killed: str) -> None:
        """Until the storm is over."""
        self.flavor = (await self.client.list_flavors())[0]["id"]
        over_at = time.monotonic() + STORM_S
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._ask_until(over_at))
            if killed != "nothing":
                group.create_task(self._kill_until(over_at, killed))

    async def clear_up(self) -> None:
        """Delete every server, then every port of a user."""
        for server in await self.client.list_servers():
            await self._call("DELETE", f"/compute/v2.1/servers/{server['id']}")
        await settle(self.made, timeout_s=90)
        assert await self.client.list_servers() == []
        for port in await self.client.list_all("/network/v2.0/ports", "ports"):
            await self._call("DELETE", f"/network/v2.0/ports/{port['id']}")

    async def _ask_until(self, over_at: float) -> None:
        while time.monotonic() < over_at:
            asks = (
                self._boot, self._boot, self._delete, self._delete, self._make_port, self._bind_port, self._drop,
                self._take, self._resize,
            )  # fmt: skip
            await self.random.choice(asks)()
            self.asked += 1
            await asyncio.sleep(self.random.random() * 0.1)  # a client thinks

    async def _boot(self) -> None:
        nets = self.random.choice((["public"], ["backend"], ["public", "backend"]))
        nics = [{"uuid": self.networks[name]} for name in nets]
        if self.ports and self.random.random() < 0.4:
            nics = [{"port": self.random.choice(self.ports)}]
        count = 1 if "port" in nics[0] else self.random.randrange(1, 4)
        body = {"name": "s", "flavorRef": self.flavor, "networks": nics, "min_count": count, "max_count": count}
        answer = await self._call("POST", "/compute/v2.1/servers", {"server": {**body, "imageRef": ""}})
        self.servers += [answer["server"]["id"]] if answer else []

    async def _delete(self) -> None:
        if self.servers:
            await self._call("DELETE", f"/compute/v2.1/servers/{self.random.choice(self.servers[-20:])}")

    async def _make_port(self) -> None:
        body: Json = {"network_id": self.networks[self.random.choice(("public", "backend"))]}
        answer = await self._call("POST", "/network/v2.0/ports", {"port": body})
        self.ports += [answer["port"]["id"]] if answer else []

    async def _bind_port(self) -> None:
        """A user binds a port of no server: its first address comes with it."""
        if self.ports:
            port = f"/network/v2.0/ports/{self.random.choice(self.ports)}"
            found = await self._call("GET", port)
            if found and not found["port"]["device_id"]:
                host = self.random.choice(("r1-h1", "r2-h1", ""))
                await self._call("PUT", port, {"port": {"binding:host_id": host}})

    async def _drop(self) -> None:
        """A user deletes a port, also one that a build has just reserved; not one of a server that runs."""
        if len(self.ports) > 4:
            port = f"/network/v2.0/ports/{self.random.choice(self.ports)}"
            found = await self._call("GET", port)
            if found and not found["port"]["device_id"]:
                await self._call("DELETE", port)

    async def _take(self) -> None:
        """A user takes a port from its server, or deletes it with the server running or being built."""
        found = await self._call("GET", "/network/v2.0/ports?fields=id&fields=device_id&limit=50")
        used = [port for port in found["ports"] if port["device_id"]] if found else []
        if used:
            port = self.random.choice(used)
            path = f"/network/v2.0/ports/{port['id']}"
            taken = self.random.choice((None, {"device_id": ""}, {"device_id": "", "binding:host_id": ""}))
            await self._call("PUT" if taken else "DELETE", path, taken and {"port": taken})

    async def _resize(self) -> None:
        """An operator gives a subnet other pools: those who have addresses keep them."""
        found = await self._call("GET", "/network/v2.0/subnets")
        if found:
            subnet = self.random.choice(found["subnets"])
            start = subnet["cidr"].rpartition(".")[0]
            last = self.random.randrange(10, 15)
            pools = [{"start": f"{start}.{self.random.randrange(2, 5)}", "end": f"{start}.{last}"}]
            await self._call("PUT", f"/network/v2.0/subnets/{subnet['id']}", {"subnet": {"allocation_pools": pools}})

    async def _call(self, method: str, path: str, body: object = None) -> Json | None:
        try:
            return await self.client.call(method, path, body)
        except CloudRefused as error:
            if error.status not in ALLOWED:
                self.refused.append(str(error))
            return None

    async def _kill_until(self, over_at: float, killed: str) -> None:
        postgres = PrivatePostgres(self.made.data_dir)
        while time.monotonic() < over_at:
            await asyncio.sleep(KILL_EVERY_S * (1 if killed == "children" else 3))
            if killed == "postmaster":
                victim = postgres.postmaster_pid()
            elif self.random.random() < 0.2:
                victim = None
                self.made.stop(self.made.processes[-1], signal.SIGKILL)
                self.made.agent("--fake-delay=0.05", state="agent-storm", wait=False)
            else:
                victim = self.random.choice([*names_of(self.made.processes[0].pid)] or [None])
            if victim:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)


async def up(client: CloudClient) -> None:
    """Until the API answers again."""

    async def answers() -> bool:
        try:
            await client.call("GET", "/network/v2.0/networks")
            await client.call("GET", "/placement/resource_providers")
        except CloudRefused:
            return False
        return True

    await until(answers)
