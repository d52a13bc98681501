"""One story: a world, what happened in it so far, and what its users may count on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

from msgspec import Struct
from tests.conductor.world import BY, World
from tests.simulation.beginning import HOSTS, SECOND, SUBNETS, Beginning
from tests.simulation.chance import SeededEnv
from tests.simulation.effects import Partition, Plan
from tests.simulation.hosts import Hosts
from tests.simulation.naive import PortView, View, expect, expect_port

from roost.compute.model.server import Requester
from roost.compute.old_agents.rules.orders import VERSION_EARLY
from roost.compute.service import servers as server_service
from roost.network.errors import PortChanged
from roost.platform.database import Database
from roost.platform.errors import RoostError

RACKS = dict(zip(SUBNETS[:2] + SECOND[:2], ("rack1", "rack2") * 2, strict=True))
FLEETS: tuple[tuple[int, ...], ...] = ((), (), (), (1,), (2,), (1, 2, 3))
"""Service versions of agents; most fleets have those of the early order, which say none."""
DISKS_EACH = 3
"""Guests have disks in the stories of seeds that this divides. Of those that found something before it divides none."""
FOCUS_SHARE = 0.8
SECOND_SHARE = 0.1
"""How often an address is drawn of a second subnet."""
OWN_AGENTS_SHARE = 0.4
"""How often each host has an agent of its own; otherwise one agent has all, which costs less."""
SET_AGENTS = """
WITH host AS (
    UPDATE compute.host SET agent_id = own.agent_id
    FROM unnest($1::text[], $2::uuid[]) AS own (host, agent_id) WHERE name = own.host
)
DELETE FROM compute.agent
"""
"""And nobody has heard of any agent yet."""
VIEW = """
SELECT w.stage, (SELECT m.kind FROM compute.move m WHERE m.server_id = s.id AND m.open) AS move,
    EXISTS (SELECT FROM compute.guest g WHERE g.server_id = s.id AND g.desired = 'incoming') AS copying,
    EXISTS (SELECT FROM compute.guest g WHERE g.server_id = s.id AND g.lost_at IS NOT NULL) AS guest_lost,
    coalesce((SELECT h.forced_down FROM compute.host h WHERE h.name = s.host), false) AS forced_down,
    NOT EXISTS (SELECT FROM compute.move m JOIN compute.host h ON h.name = m.source_host
        WHERE m.server_id = s.id AND m.open AND (h.forced_down OR h.silent)) AS source_up,
    (SELECT m.source_host FROM compute.move m WHERE m.server_id = s.id AND m.open) AS source_host,
    (SELECT array_agg(p.id) FROM network.port p WHERE p.device_id = s.id::text) AS ports
FROM compute.server s LEFT JOIN compute.work w ON w.server_id = s.id WHERE s.id = $1
"""
DEVICE_OF = "SELECT device_id FROM network.port WHERE id = $1"
VIEW_PORT = """
SELECT p.host IS NOT NULL AS bound,
    (SELECT array_agg(q.mac_address::text) FROM network.port q WHERE q.network_id = p.network_id AND q.id <> p.id)
        AS macs_taken,
    EXISTS (SELECT FROM compute.server s WHERE s.id::text = p.device_id AND s.status = 'ERROR' AND s.host IS NULL)
        AS failed,
    (SELECT array_agg(CASE WHEN s.build_order ->> 'name' = 'late' THEN 'late'
            WHEN m.uuid IS NOT NULL THEN 'delete' ELSE w.stage END)
        FROM compute.work w JOIN compute.server s ON s.id = w.server_id
        LEFT JOIN compute.move m ON m.server_id = s.id AND m.open
        WHERE (m.uuid IS NULL OR w.deleting OR w.stage = 'delete')
        AND (p.made_for = s.id OR s.spec -> 'nics' @> jsonb_build_array(jsonb_build_object('port_id', p.id))))
        AS stages
FROM network.port p WHERE p.id = $1
"""


class Room(Struct, frozen=True):
    """What a provider has: a host's VCPUs, or addresses. claims: consumer -> what it holds; None for none."""

    uuid: str
    host: str | None
    down: bool | None
    free: int
    claims: dict[str, int] | None


class Want(NamedTuple):
    """What a server was booted with. named: a port or an address of its user's choice, which another may have.

    racks: those that such addresses are on; a server with addresses on two has room nowhere.
    """

    flavor: str
    networks: tuple[str, ...]
    named: bool
    racks: frozenset[str]


class Story:
    """A world, what was done in it so far (`told`), and what its users may count on.

    focus: servers to which the users turn at the moment. sleepers: conductors that are asleep, by their plans.
    addresses: of (port, server) when it was looked at last; readdressed: servers and ports whose addresses may change.
    wants: what servers were booted with. rooms: what providers had when it was looked at last; hosts_down: those that a
    conductor may believe to be, which sleeps; vcpus_moving: what servers had then that were on their way;
    builds_ending: how many builds were being deleted then.
    room_seen_at, guests_seen_at: what had been told when it was looked; nothing changes that is not told afterwards.
    passed_s: how much time has passed; copied_s: how much had when a copy or an older start of an agent spoke last.
    restored: the records went back once; recovering: they do not know yet what the hosts have. harmed: servers that
    something befell; roomless: those that once had no room. addresses_restored: (port, address) as the records had them
    when they went back last.
    """

    def __init__(self, world: World, chance: SeededEnv, seed: int, beginning: Beginning) -> None:
        self.world, self.chance, self.beginning = world, chance, beginning
        self.random = Random(seed)
        self.hosts = Hosts(world.compute, world.networks, tuple(HOSTS))
        self.told: list[str] = []
        self.servers: list[str] = []
        self.deleted: list[str] = []
        self.ports: list[str] = []
        self.networks: list[str] = []
        self.focus: list[str] = []
        self.addresses: dict[tuple[str, str], tuple[str, ...]] = {}
        self.readdressed: set[str] = set()
        self.partition = Partition("", 0)
        self.wants: dict[str, Want] = {}
        self.rooms: dict[str, Room] = {}
        self.hosts_down: set[str | None] = set()
        self.vcpus_moving = self.builds_ending = 0
        self.room_seen_at = -1
        self.guests_seen_at = -1
        self.harmed: set[str] = set()
        self.roomless: set[str] = set()
        self.segments: dict[tuple[str, str], str] = {}
        self.sleepers: list[tuple[Plan, asyncio.Task[str]]] = []
        self.passed_s = 0.0
        self.copied_s = float("-inf")
        self.restored = False
        self.recovering = False
        self.addresses_restored: set[tuple[str, str]] = set()

    @classmethod
    async def begin(cls, database: Database, beginning: Beginning, seed: int) -> "Story":
        """Begin with a cloud of the seed's UUIDs and a fleet of agents."""
        chance = SeededEnv(seed)
        world, networks = await beginning.copy(database, chance)
        story = cls(world, chance, seed, beginning)
        story.networks = networks
        segments = (await world.compute.network.get_networks(networks[:1]))[networks[0]].segments
        story.segments = {(networks[0], str(segment.name)): segment.provider_uuid for segment in segments}
        if seed % DISKS_EACH == 0:
            story.hosts.agents.keep_disks()
        has_own = story.random.random() < OWN_AGENTS_SHARE
        fleet = story.random.choice(FLEETS)
        if has_own or fleet:
            await story._have_agents(has_own=has_own)
        for host in story.hosts.names if fleet else ():
            await story.upgrade(host, story.random.choice(fleet))
        return story

    async def _have_agents(self, *, has_own: bool) -> None:
        """Have other agents than today's one of all hosts: of releases before, or an own one of each host."""
        agents, uuid = self.hosts.agents, self.chance.env.new_uuid
        for host in self.hosts.names if has_own else ():
            agents.install(host, uuid(), uuid())
        async with self.world.database.connection() as connection:
            ids = [agent.id for agent in agents.own.values()]
            await connection.execute(SET_AGENTS, list(agents.own), ids)
        if has_own:
            self.note("each host has an agent of its own")

    async def upgrade(self, host: str, version: int) -> None:
        """Have an agent of this service version on a host."""
        if version < VERSION_EARLY:
            self.world.let_in_old_agents()
        self.hosts.versions[host] = version
        if host not in self.hosts.cut | self.hosts.off:
            await self.hosts.poll([host])
        self.note("the agent of", host, "is of version", version)

    async def begin_processes_anew(self) -> None:
        """Have all processes but the agents begin anew."""
        tasks = [task for _, task in self.sleepers]
        self.sleepers = []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        had_old_agents = self.world.conductor.old_agents is not None
        self.world = await self.beginning.wire(self.world.database, self.chance)
        if had_old_agents:
            self.world.let_in_old_agents()
        self.hosts.compute, self.hosts.networks = self.world.compute, self.world.networks
        self.hosts.late.clear()

    def note(self, *words: object) -> None:
        """Tell what happened. Servers and ports are told by their numbers."""
        names = {server: f"s{number}" for number, server in enumerate(self.servers)}
        names |= {port: f"p{number}" for number, port in enumerate(self.ports)}
        self.told.append(" ".join(names.get(str(word), str(word)) for word in words))

    def some(self, ids: Sequence[str]) -> str | None:
        """Return any of them, most often one to which the users turn at the moment."""
        focus = [id for id in ids if id in self.focus]
        if focus and self.random.random() < FOCUS_SHARE:
            return self.random.choice(focus)
        return self.random.choice(ids) if ids else None

    def draw_address(self, network: str) -> str:
        """Return an address that the network may have; somebody may have it, or it is outside the pools."""
        prefixes = SECOND if self.random.random() < SECOND_SHARE else SUBNETS
        prefix = self.random.choice(prefixes[:2] if (network, "rack1") in self.segments else prefixes[2:])
        return f"{prefix}.{self.random.randrange(2, 7)}"

    def network_of(self, address: str) -> str:
        """Return the network that an address is of."""
        return self.networks[0 if self.rack_of(address) else 1]

    def rack_of(self, address: str | None) -> str | None:
        """Return the rack that an address is on; None for one that all racks reach, and for none."""
        return RACKS.get(address.rpartition(".")[0]) if address else None

    def provider_of(self, network: str, rack: str) -> str:
        """Return what has a network's addresses on a rack."""
        return self.segments.get((network, rack), network)

    def forget_addresses(self, *, port: str | None = None, server: str | None = None) -> None:
        """Believe whatever addresses a port, or the ports of a server, have from now on."""
        self.readdressed.update(id for id in (port, server) if id is not None)
        self.addresses = {key: value for key, value in self.addresses.items() if key[0] != port and key[1] != server}

    @asynccontextmanager
    async def replugging(self, *, port: str = "", server: str = "") -> AsyncIterator[None]:
        """Note that NICs of a server, or of the one that has a port, are changed while the block runs."""
        if port:
            async with self.world.database.connection() as connection:
                server = await connection.fetchval(DEVICE_OF, port) or ""
        yield
        if server:
            await self.hosts.replug(server)

    async def view(self, server_id: str) -> View | None:
        """Return what anybody can see of the server, None where it is gone."""
        try:
            server = await server_service.get_server(self.world.compute, server_id)
        except RoostError:
            return None
        async with self.world.database.connection() as connection:
            row = await connection.fetchrow(VIEW, server_id)
        is_as_before = row["source_host"] not in self.hosts.recabled and self.readdressed.isdisjoint(row["ports"] or ())
        source_up = None if row["source_up"] and not is_as_before else row["source_up"]
        return View(
            status=server.status, task_state=server.task_state, stage=row["stage"], move=row["move"],
            copying=row["copying"], guest_lost=row["guest_lost"], host_down=server.host_down, locked=server.locked,
            forced_down=row["forced_down"], source_up=source_up,
        )  # fmt: skip

    async def view_port(self, port_id: str) -> PortView | None:
        """Return what anybody can see of the port, None where it is gone."""
        async with self.world.database.connection() as connection:
            row = await connection.fetchrow(VIEW_PORT, port_id)
        if row is None:
            return None
        stages, macs_taken = frozenset(row["stages"] or ()), frozenset(row["macs_taken"] or ())
        stages |= {"fail"} if row["failed"] else set()  # whoever let it fail may be giving the port back still
        return PortView(bound=row["bound"], stages=stages, macs_taken=macs_taken)

    async def ask(
        self,
        action: str,
        server: str,
        ask: Callable[[], Awaitable[Any]],
        *,
        by: Requester = BY,
        possible: bool | None = True,
    ) -> bool:
        """Ask it of a server; the answer must be the one that the naive table expects.

        possible: whether it can be had of a server whose state allows it; None where nobody can tell.
        """
        view = await self.view(server)
        expected = expect(action, view, is_admin=by.is_admin)
        if expected is not False and possible is not True:
            expected = possible
        why = await find_refusal(ask)
        self.note(action, server, f"refused: {why.split(':')[0]}" if why else "")
        assert expected is None or expected is not bool(why), (
            f"{action}: {why or 'accepted'}, and the server is {view}, possible: {possible}"
        )
        return not why

    async def ask_port(self, action: str, port: str, ask: Callable[[], Awaitable[Any]], *, mac: str = "") -> bool:
        """Ask it of a port; the answer must be the one that the naive table expects. mac: the one that it is to get."""
        view = await self.view_port(port)
        expected = expect_port(action, view, mac=mac)
        async with self.replugging(port=port):
            why = await find_refusal(ask)
        self.note(action, port, f"refused: {why.split(':')[0]}" if why else "")
        if not why.startswith(PortChanged.__name__):  # the request can be repeated
            assert expected in (None, not why), f"{action}: {why or 'accepted'}, and the port is {view}"
        return not why


async def find_refusal(ask: Callable[[], Awaitable[Any]]) -> str:
    """Return the name and the text of the error that is the answer, "" where it is accepted."""
    try:
        await ask()
    except RoostError as error:
        return f"{type(error).__name__}: {error}"
    return ""
