"""Everything at once that is done to servers, moves first, while whatever runs is killed; in the end nothing is leaked.

No two guests of a server ever had their NICs up at once. ROOST_STORM_SEED gives a storm other choices, ROOST_STORM_S
makes it longer: `ROOST_STORM_S=600 pytest -n 0 --timeout 1200 -k children tests/faults/test_move_storm.py`.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Sequence
from random import Random

import pytest
from tests.cluster import Cluster, Process, cluster, network_ids, settle, until
from tests.faults.moving import hosts_of_guests, list_overlaps, servers_by_id
from tests.faults.test_storm import ALLOWED, CLIENTS, KILL_EVERY_S, up
from tests.processes import names_of
from tests.world import cut_power, replugging

from roost.cli.asking.cloud_client import CloudClient, CloudRefused, Json
from roost.platform.database import Database

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
  - {name: large, vcpus: 2, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/28}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 2, subnets: [{cidr: 10.2.0.0/28}]}
  - name: backend
    physical_network: backend
    subnets: [{cidr: 10.9.0.0/27}]
  - name: legacy
    kind: flat
    subnets: [{cidr: 192.0.2.0/27, cell: cell1}]
hosts:
  - {name: 'r1-h[1-3]', vcpus: 12, ram_mb: 32768, disk_gb: 800, physical_networks: [rack1, backend]}
  - {name: 'r2-h[1-3]', vcpus: 12, ram_mb: 32768, disk_gb: 800, physical_networks: [rack2, backend]}
"""
STORM_S = float(os.environ.get("ROOST_STORM_S", "8"))
SEED = int(os.environ.get("ROOST_STORM_SEED", "1"))
SETTLE_S = 60.0
AGENTS = {f"agent-{number}": [f"--host=r{rack}-h{number}" for rack in (1, 2)] for number in (1, 2, 3)}
SERVERS_MAX = 12
"""Above it nothing is booted: moves need room."""

LEFT = (
    "SELECT pid, state, wait_event, xact_start, left(query, 200) AS query FROM pg_stat_activity WHERE state <> 'idle'",
    "SELECT * FROM compute.work",
    "SELECT server_id, kind, status, source_host, dest_host FROM compute.move WHERE open",
    "SELECT * FROM compute.guest WHERE reported IS DISTINCT FROM desired OR server_id IN "
    "(SELECT id FROM compute.server WHERE task_state IS NOT NULL)",
)
FAILED = tuple(
    f"SELECT t.* FROM compute.{table} t JOIN compute.server v ON v.id = {key} WHERE v.status = 'ERROR' ORDER BY {order}"
    for table, key, order in (
        ("server", "t.id", "t.id"),
        ("guest", "t.server_id", "t.created_at"),
        ("move", "t.server_id", "t.id"),
        ("action", "t.server_id", "t.id"),
    )
)
"""What became of servers that are in ERROR."""
ACTIONS: tuple[tuple[str, object], ...] = (
    ("migrate", None),
    ("migrate", None),
    ("os-migrateLive", {"host": None, "block_migration": "auto"}),
    ("os-migrateLive", {"host": None, "block_migration": "auto"}),
    ("confirmResize", None),
    ("confirmResize", None),
    ("revertResize", None),
    ("revertResize", None),
    ("shelve", None),
    ("unshelve", None),
    ("unshelve", None),
    ("os-stop", None),
    ("os-start", None),
    ("os-start", None),
    ("pause", None),
    ("unpause", None),
    ("unpause", None),
    ("reboot", {"type": "HARD"}),
    ("reboot", {"type": "SOFT"}),
)


@pytest.mark.parametrize("killed", ["nothing", "children"])
async def test_a_storm_of_moves_leaks_nothing_and_runs_nothing_twice(killed: str) -> None:
    with cluster() as made:
        made.serve(workers=2, conductors=2)
        made.load(CLOUD)
        agents = {
            state: made.agent(*hosts, "--fake-fail=4", "--fake-delay=0.03", "--fake-pre-copy=0.05", state=state)
            for state, hosts in AGENTS.items()
        }
        async with CloudClient.connect(made.url) as client:
            storm = Storm(made, client, await network_ids(client), Random(SEED), agents)
            await storm.blow(killed)
            try:
                await up(client)
            except AssertionError:
                raise AssertionError(f"the API does not answer\n{await storm.list_left()}\n{made.logs()}") from None
            await storm.calm_down()
            try:
                await settle(made, timeout_s=SETTLE_S)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{await storm.list_rows(FAILED)}") from None
            assert not storm.refused, storm.refused
            assert list_overlaps(made.directory) == []
            await assert_guests_are_servers(made, client)
            await storm.clear_up()
            assert hosts_of_guests(made.directory) == {}
            assert list_overlaps(made.directory) == []
            print(storm.begun)  # noqa: T201
            assert sum(storm.begun[action] for action in ("os-migrateLive", "migrate", "resize")) > 1, storm.begun


async def assert_guests_are_servers(made: Cluster, client: CloudClient) -> None:
    servers = await servers_by_id(client)
    hosts = hosts_of_guests(made.directory)
    for server_id, server in servers.items():
        if server["status"] != "ERROR":
            host = server["OS-EXT-SRV-ATTR:host"]
            assert hosts.pop(server_id, []) == ([host] if host else []), server
    assert hosts.keys() <= servers.keys()


class Storm:
    """Clients that ask for everything, and a hand that kills. begun: how many actions of each name were accepted."""

    def __init__(
        self,
        made: Cluster,
        client: CloudClient,
        networks: dict[str, str],
        random: Random,
        agents: dict[str, Process],
    ) -> None:
        self.made, self.client, self.networks, self.random, self.agents = made, client, networks, random, agents
        self.servers: list[str] = []
        self.refused: list[str] = []
        self.begun = {action: 0 for action, _ in (*ACTIONS, ("resize", None), ("evacuate", None))}
        self.flavors: list[str] = []

    async def blow(self, killed: str) -> None:
        """Until the storm is over."""
        self.flavors = [flavor["id"] for flavor in await self.client.list_flavors()]
        over_at = time.monotonic() + STORM_S
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._ask_until(over_at))
            if killed != "nothing":
                group.create_task(self._kill_until(over_at))

    async def calm_down(self) -> None:
        """Wait for what was begun; confirm what waits for its user, unshelve and start nothing."""

        async def calm() -> bool:
            servers = await self.client.list_servers()
            for server in servers:
                if (server["status"], server["OS-EXT-STS:task_state"]) == ("VERIFY_RESIZE", None):
                    await self._act(server["id"], "confirmResize", None)
            return all(
                server["OS-EXT-STS:task_state"] is None and server["status"] != "VERIFY_RESIZE" for server in servers
            )

        for state in AGENTS:
            await self._force_down(state, False)
        try:
            await until(calm, timeout_s=SETTLE_S)
        except AssertionError:
            with contextlib.suppress(CloudRefused):
                busy = [s for s in await self.client.list_servers() if s["OS-EXT-STS:task_state"]]
                raise AssertionError(f"these never come to an end: {busy}\n{await self.list_left()}") from None

    async def list_left(self) -> str:
        """Return the rows of what is not over, and what the database is at."""
        return await self.list_rows(LEFT)

    async def list_rows(self, queries: Sequence[str]) -> str:
        """Return the rows that the database answers."""
        database = await Database.open(self.made.dsn, size=1)
        try:
            async with database.connection() as connection:
                rows = [await connection.fetch(query) for query in queries]
        finally:
            await database.close()
        return "\n".join(str(dict(row)) for found in rows for row in found)

    async def clear_up(self) -> None:
        """Delete every server."""
        for server in await self.client.list_servers():
            await self._call("DELETE", f"/compute/v2.1/servers/{server['id']}")
        await settle(self.made, timeout_s=SETTLE_S)
        assert await self.client.list_servers() == []
        assert await self.client.list_all("/network/v2.0/ports", "ports") == []

    async def _ask_until(self, over_at: float) -> None:
        while time.monotonic() < over_at:
            asks = (self._boot, self._delete, self._attach, self._detach, self._abort, self._resize, *[self._do] * 12)
            await self.random.choice(asks)()
            await asyncio.sleep(self.random.random() * 0.1)  # a client thinks

    async def _boot(self) -> None:
        if len(self.servers) < SERVERS_MAX:
            names = self.random.choice((["public"], ["backend"], ["legacy", "public"], ["public", "backend"]))
            nics = [{"uuid": self.networks[name]} for name in names]
            body = {"name": "s", "flavorRef": self.random.choice(self.flavors), "networks": nics, "imageRef": ""}
            answer = await self._call("POST", "/compute/v2.1/servers", {"server": body})
            self.servers += [answer["server"]["id"]] if answer else []

    async def _delete(self) -> None:
        if len(self.servers) > SERVERS_MAX // 2:
            server_id = self.servers.pop(self.random.randrange(len(self.servers)))
            await self._call("DELETE", f"/compute/v2.1/servers/{server_id}")

    async def _do(self) -> None:
        if self.servers:
            await self._act(self.random.choice(self.servers), *self.random.choice(ACTIONS))

    async def _resize(self) -> None:
        if self.servers:
            body = {"flavorRef": self.random.choice(self.flavors)}
            await self._act(self.random.choice(self.servers), "resize", body, 400)

    async def _act(self, server_id: str, action: str, body: object, *allowed: int) -> None:
        path = f"/compute/v2.1/servers/{server_id}/action"
        answer = await self._call("POST", path, {action: body}, *allowed)
        self.begun[action] += answer is not None

    async def _abort(self) -> None:
        if self.servers:
            path = f"/compute/v2.1/servers/{self.random.choice(self.servers)}/migrations"
            listed = await self._call("GET", path)
            for migration in listed["migrations"] if listed else []:
                await self._call("DELETE", f"{path}/{migration['id']}", None, 400)

    async def _attach(self) -> None:
        if self.servers:
            network = self.networks[self.random.choice(("public", "backend"))]
            server_id = self.random.choice(self.servers)
            with replugging(self.made.directory, server_id):
                path = f"/compute/v2.1/servers/{server_id}/os-interface"
                await self._call("POST", path, {"interfaceAttachment": {"net_id": network}}, 400)

    async def _detach(self) -> None:
        if self.servers:
            server_id = self.random.choice(self.servers)
            path = f"/compute/v2.1/servers/{server_id}/os-interface"
            listed = await self._call("GET", path)
            nics = listed["interfaceAttachments"] if listed else []
            if len(nics) > 1:
                with replugging(self.made.directory, server_id):
                    await self._call("DELETE", f"{path}/{self.random.choice(nics)['port_id']}", None)

    async def _call(self, method: str, path: str, body: object = None, *allowed: int) -> Json | None:
        try:
            return await self.client.call(method, path, body)
        except CloudRefused as error:
            if error.status not in (*ALLOWED, *allowed):
                self.refused.append(str(error))
            return None

    async def _kill_until(self, over_at: float) -> None:
        while time.monotonic() < over_at:
            await asyncio.sleep(KILL_EVERY_S)
            if self.random.random() < 0.3:
                state = self.random.choice(sorted(self.agents))
                self.made.stop(self.agents[state], signal.SIGKILL)
                if self.random.random() < 0.5:
                    await self._lose_hosts(state)
                self.agents[state] = self.made.agent(*AGENTS[state], "--fake-delay=0.03", state=state, wait=False)
            elif victims := [*names_of(self.made.processes[0].pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.random.choice(victims), signal.SIGKILL)

    async def _lose_hosts(self, state: str) -> None:
        """The hosts of an agent that is dead lose their power; their servers are evacuated, and the hosts come back."""
        hosts = [host.removeprefix("--host=") for host in AGENTS[state]]
        for host in hosts:
            cut_power(self.made.directory, host)
        await self._force_down(state, True)
        listed = await self._call("GET", "/compute/v2.1/servers/detail")
        for server in listed["servers"] if listed else []:
            if server["OS-EXT-SRV-ATTR:host"] in hosts:
                await self._act(server["id"], "evacuate", {}, 400)
        await asyncio.sleep(1)
        await self._force_down(state, False)

    async def _force_down(self, state: str, forced_down: bool) -> None:
        for host in AGENTS[state]:
            body = {"host": host.removeprefix("--host="), "binary": "nova-compute", "forced_down": forced_down}
            await self._call("PUT", "/compute/v2.1/os-services/force-down", body)
