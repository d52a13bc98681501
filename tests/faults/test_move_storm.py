"""Everything at once that is done to servers, moves first, while whatever runs is killed; in the end nothing is leaked.

Hosts lose their power, are cut off in one direction and are cabled otherwise meanwhile. No two guests of a server ever
had their NICs up at once, and in the end each has its addresses. ROOST_STORM_SEED gives a storm other choices,
ROOST_STORM_S makes it longer:
`ROOST_STORM_S=600 pytest -s -n 0 --timeout 1200 -k children tests/faults/test_move_storm.py`.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from tests.agent_proxy import AgentProxy
from tests.cluster import QUICK, Cluster, Process, cluster, network_ids, settle, until
from tests.faults.moving import hosts_of_guests, list_overlaps, servers_by_id
from tests.faults.test_storm import ALLOWED, CLIENTS, KILL_EVERY_S, up
from tests.processes import names_of
from tests.world import cut_power

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
"""
STORM_S = float(os.environ.get("ROOST_STORM_S", "8"))
SEED = int(os.environ.get("ROOST_STORM_SEED", "1"))
LONGER_S_MAX = 60.0
"""A storm goes on so long on a busy machine, until it has begun MOVES_MIN moves and all has gone wrong that is to."""
MOVES_MIN = 2
SETTLE_S = 60.0
AGENTS = {
    "agent-1": ("r1-h1", "r1-h2"),
    "agent-2": ("r1-h3",),
    "agent-3": ("r2-h1", "r2-h2"),
    "agent-4": ("r2-h3",),
}
"""Their hosts, which no cloud file declares: they reach what their agents say."""
CABLES = {state: (f"rack{hosts[0][1]}", "backend") for state, hosts in AGENTS.items()}
"""What the hosts of each agent reach, but while they are cabled otherwise."""
SHAPE = ("--vcpus=12", "--ram-mb=32768", "--disk-gb=800")
CABLED_OTHERWISE: tuple[tuple[str, ...], ...] = ((), ("elsewhere",), ("backend",))
"""Never another rack: a server that is made there has an address that nobody reaches afterwards."""
CABLED_OTHERWISE_S = 2.0
CUTS_S = (0.5, 2.0, 8.0)
"""Some are shorter than it takes until a host is silent, some longer."""
QUICKLY_SILENT = {**QUICK, "ROOST_COMPUTE_HOST_DOWN_AFTER_S": "5"}
KINDS = ("child", "child", "child", "agent", "power", "requests", "answers", "cables")
"""What goes wrong: each of these once, in any order, then each again."""
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
    async with contextlib.AsyncExitStack() as ends:
        made = ends.enter_context(cluster(QUICKLY_SILENT))
        made.serve(workers=2, conductors=2)
        made.load(CLOUD)
        async with CloudClient.connect(made.url) as client:
            proxies = {state: await ends.enter_async_context(AgentProxy.listening(client)) for state in AGENTS}
            storm = Storm(made, client, await network_ids(client), Random(SEED), proxies)
            await storm.begin()
            await storm.blow(killed)
            over_at = time.monotonic()
            try:
                await up(client)
            except AssertionError:
                raise AssertionError(f"the API does not answer\n{await storm.list_left()}\n{made.logs()}") from None
            await storm.calm_down()
            try:
                await settle(made, timeout_s=SETTLE_S)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{await storm.list_rows(FAILED)}") from None
            settled_s = time.monotonic() - over_at
            assert not storm.refused, storm.refused
            assert list_overlaps(made.directory) == []
            await assert_guests_are_servers(made, client)
            await storm.clear_up()
            assert hosts_of_guests(made.directory) == {}
            assert list_overlaps(made.directory) == []
            print(storm.begun, dict(storm.drawn), f"settled after {settled_s:.1f} s")  # noqa: T201
            assert killed == "nothing" or storm.drawn.keys() == set(KINDS), storm.drawn
            assert storm.count_moves() >= MOVES_MIN, storm.begun


async def assert_guests_are_servers(made: Cluster, client: CloudClient) -> None:
    servers = await servers_by_id(client)
    hosts = hosts_of_guests(made.directory)
    for server_id, server in servers.items():
        if server["status"] != "ERROR":
            host = server["OS-EXT-SRV-ATTR:host"]
            assert hosts.pop(server_id, []) == ([host] if host else []), server
    assert hosts.keys() <= servers.keys()


class Storm:
    """Clients that ask for everything, and a hand that kills. begun: how many actions of each name were accepted.

    drawn: how often what went wrong. cables: what the hosts of each agent reach.
    """

    def __init__(
        self,
        made: Cluster,
        client: CloudClient,
        networks: dict[str, str],
        random: Random,
        proxies: dict[str, AgentProxy],
    ) -> None:
        self.made, self.client, self.networks, self.random, self.proxies = made, client, networks, random, proxies
        self.agents: dict[str, Process] = {}
        self.cables = dict(CABLES)
        self.drawn: Counter[str] = Counter()
        self._hand = asyncio.Lock()  # held by who has an agent stopped
        self.servers: list[str] = []
        self.refused: list[str] = []
        self.begun = {action: 0 for action, _ in (*ACTIONS, ("resize", None), ("evacuate", None))}
        self.flavors: list[str] = []

    async def begin(self) -> None:
        """Start the agents, which reach their API through their proxies."""
        for state in AGENTS:
            self._start(state, "--fake-fail=4")
        await asyncio.to_thread(self.made.wait_for_hosts, {host for hosts in AGENTS.values() for host in hosts})

    def _start(self, state: str, *options: str) -> None:
        words = [f"--host={host}" for host in AGENTS[state]]
        words += [f"--physical-network={name}" for name in self.cables[state]]
        words += [f"--api={self.proxies[state].url}", *SHAPE, "--fake-delay=0.03", "--fake-pre-copy=0.05", *options]
        self.agents[state] = self.made.agent(*words, state=state, wait=False)

    async def blow(self, killed: str) -> None:
        """Until the storm is over."""
        self.flavors = [flavor["id"] for flavor in await self.client.list_flavors()]
        over_at = time.monotonic() + STORM_S
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._ask_until(over_at, set() if killed == "nothing" else set(KINDS)))
            if killed != "nothing":
                group.create_task(self._disturb_until(over_at, group))

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

        async def cabled() -> bool:
            """Return whether the last start of each agent was heard, with what its hosts reach."""
            database = await Database.open(self.made.dsn, size=1)
            try:
                async with database.connection() as connection:
                    rows = await connection.fetch("SELECT name, physical_networks FROM network.host")
            finally:
                await database.close()
            reached = {row["name"]: set(row["physical_networks"]) for row in rows}
            return all(reached[host] == set(CABLES[state]) for state, hosts in AGENTS.items() for host in hosts)

        for state in AGENTS:
            await self._force_down(state, False)
        await until(cabled, timeout_s=SETTLE_S, what="hosts are not cabled as before")
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

    async def _ask_until(self, over_at: float, kinds: set[str]) -> None:
        while (now := time.monotonic()) < over_at or (self._lacks(kinds) and now < over_at + LONGER_S_MAX):
            asks = (self._boot, self._delete, self._attach, self._detach, self._abort, self._resize, *[self._do] * 12)
            await self.random.choice(asks)()
            await asyncio.sleep(self.random.random() * 0.1)  # a client thinks

    def _lacks(self, kinds: set[str]) -> bool:
        """Return whether something has not gone wrong yet that is to, or hardly a move was begun."""
        return self.drawn.keys() < kinds or self.count_moves() < MOVES_MIN

    def count_moves(self) -> int:
        """Return how many moves were begun, beside those of shelved and evacuated servers."""
        return sum(self.begun[action] for action in ("os-migrateLive", "migrate", "resize"))

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
            path = f"/compute/v2.1/servers/{server_id}/os-interface"
            await self._call("POST", path, {"interfaceAttachment": {"net_id": network}}, 400)

    async def _detach(self) -> None:
        if self.servers:
            server_id = self.random.choice(self.servers)
            path = f"/compute/v2.1/servers/{server_id}/os-interface"
            listed = await self._call("GET", path)
            nics = listed["interfaceAttachments"] if listed else []
            if len(nics) > 1:
                await self._call("DELETE", f"{path}/{self.random.choice(nics)['port_id']}", None)

    async def _call(self, method: str, path: str, body: object = None, *allowed: int) -> Json | None:
        try:
            return await self.client.call(method, path, body)
        except CloudRefused as error:
            if error.status not in (*ALLOWED, *allowed):
                self.refused.append(str(error))
            return None

    async def _disturb_until(self, over_at: float, group: asyncio.TaskGroup) -> None:
        kinds: list[str] = []
        while kinds or time.monotonic() < over_at:
            await asyncio.sleep(KILL_EVERY_S)
            kinds = kinds or self.random.sample(KINDS, len(KINDS))
            kind, state = kinds.pop(), self.random.choice(sorted(AGENTS))
            self.drawn[kind] += 1
            if kind == "child":
                if victims := [*names_of(self.made.processes[0].pid)]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self.random.choice(victims), signal.SIGKILL)
            elif kind == "cables":
                group.create_task(self._cable_otherwise(state))
            elif kind in ("requests", "answers"):
                group.create_task(self._cut(state, kind))
            else:
                await self._kill_agent(state, power=kind == "power")

    async def _kill_agent(self, state: str, *, power: bool = False) -> None:
        async with self._hand:
            self.made.stop(self.agents[state], signal.SIGKILL)
            if power:
                await self._lose_hosts(state)
            self._start(state)

    async def _cable_otherwise(self, state: str) -> None:
        """The hosts of an agent reach other networks for some time, which another such time may overlap."""
        self.cables[state] = self.random.choice(CABLED_OTHERWISE)
        await self._kill_agent(state)
        await asyncio.sleep(CABLED_OTHERWISE_S)
        self.cables[state] = CABLES[state]
        await self._kill_agent(state)

    async def _cut(self, state: str, direction: str) -> None:
        """Nothing gets through in one direction for some time; what was sent meanwhile comes late, or never."""
        proxy = self.proxies[state]
        proxy.cut(requests=direction == "requests", answers=direction == "answers")
        await asyncio.sleep(self.random.choice(CUTS_S))
        proxy.heal(lost=self.random.random() < 0.5)

    async def _lose_hosts(self, state: str) -> None:
        """The hosts of an agent that is dead lose their power; their servers are evacuated, and the hosts come back."""
        for host in AGENTS[state]:
            cut_power(self.made.directory, host)
        await self._force_down(state, True)
        listed = await self._call("GET", "/compute/v2.1/servers/detail")
        for server in listed["servers"] if listed else []:
            if server["OS-EXT-SRV-ATTR:host"] in AGENTS[state]:
                await self._act(server["id"], "evacuate", {}, 400)
        await asyncio.sleep(1)
        await self._force_down(state, False)

    async def _force_down(self, state: str, forced_down: bool) -> None:
        for host in AGENTS[state]:
            body = {"host": host, "binary": "nova-compute", "forced_down": forced_down}
            await self._call("PUT", "/compute/v2.1/os-services/force-down", body)
