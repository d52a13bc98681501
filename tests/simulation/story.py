"""One story: steps that the seed draws, told as they happen, and what must hold when everything has come to rest."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from tests.conductor.world import BY, World
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT
from tests.simulation.chance import SKEW_S_MAX, SeededEnv
from tests.simulation.effects import Fate, Plan, advances_planned, run_planned
from tests.simulation.hosts import Hosts, Turn
from tests.simulation.naive import View, expect

from roost.compute.model import MigrationFilter, MoveKind, NicAsked, ServerRequest, ServerUpdate
from roost.compute.rules import actions as rules
from roost.compute.service import actions, interfaces, moves
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.moves import MoveRequest
from roost.conductor.reconcile import reconcile_once as reconcile_claims
from roost.network.model import PortChanges, PortFilter, PortRequest
from roost.network.service import ports as port_service
from roost.network.service.reconciler import reconcile_once as reconcile_ports
from roost.platform.database import Database
from roost.platform.errors import RoostError

STEPS = 40
SERVERS_MAX = 7
SLEEPERS_MAX = 2
CALLS = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 10, 12, 14)
"""Which of a conductor's calls goes wrong; a batch of deletes makes four, a boot nine."""
REST_ROUNDS_MAX = 60
REST_ROUND_S = 31.0
HOSTS = {"r1-h1": "rack1", "r1-h2": "rack1", "r1-h3": "rack1", "r2-h1": "rack2", "r2-h2": "rack2"}

POWER = {
    "stop": rules.STOP,
    "start": rules.START,
    "pause": rules.PAUSE,
    "unpause": rules.UNPAUSE,
    "suspend": rules.SUSPEND,
    "resume": rules.RESUME,
    "reboot-soft": rules.REBOOT_SOFT,
    "reboot-hard": rules.REBOOT_HARD,
}
MOVES = {
    "migrate": MoveKind.MIGRATE,
    "resize": MoveKind.RESIZE,
    "live-migrate": MoveKind.LIVE,
    "evacuate": MoveKind.EVACUATE,
    "shelve": MoveKind.SHELVE,
    "unshelve": MoveKind.UNSHELVE,
}
WAYS_BACK = {"SHUTOFF": "start", "PAUSED": "unpause", "SUSPENDED": "resume"}
PASS_TIME = """
UPDATE compute.work SET lease_until = lease_until - $1 * interval '1 s', run_at = run_at - $1 * interval '1 s';
UPDATE compute.guest SET created_at = created_at - $1 * interval '1 s', begun_at = begun_at - $1 * interval '1 s',
    running_at = running_at - $1 * interval '1 s', lost_at = lost_at - $1 * interval '1 s';
UPDATE compute.host SET seen_at = seen_at - $1 * interval '1 s';
UPDATE compute.move SET updated_at = updated_at - $1 * interval '1 s';
UPDATE network.intent SET expires_at = expires_at - $1 * interval '1 s';
UPDATE network.publication SET lease_until = lease_until - $1 * interval '1 s'
"""
"""Leases and time-outs are by the database's clock: it goes on when all that it noted is longer ago."""
VIEW = """
SELECT s.status, w.stage, EXISTS (SELECT FROM compute.move m WHERE m.server_id = s.id AND m.open) AS moving,
    EXISTS (SELECT FROM compute.guest g WHERE g.server_id = s.id AND g.lost_at IS NOT NULL) AS guest_lost
FROM compute.server s LEFT JOIN compute.work w ON w.server_id = s.id WHERE s.id = $1
"""
CLAIMED = """
SELECT coalesce(m.server_id, a.consumer_uuid) AS server_id, h.name FROM placement.allocation a
JOIN placement.provider p ON p.id = a.provider_id JOIN compute.host h ON h.provider_uuid = p.uuid
LEFT JOIN compute.move m ON m.uuid = a.consumer_uuid
"""


LEFT = (
    "SELECT id, status, task_state, host, power, fault FROM compute.server ORDER BY sequence",
    "SELECT server_id, stage, attempt, failures, deleting, lease_until FROM compute.work",
    "SELECT server_id, kind, status FROM compute.move WHERE open",
    "SELECT * FROM compute.guest WHERE reported IS DISTINCT FROM desired",
    "SELECT * FROM network.release",
    "SELECT * FROM network.intent",
    "SELECT * FROM network.notice",
)
"""What is shown of a world that does not come to rest."""


class Story:
    """A world, what was done in it so far (`told`), and what its users may count on."""

    def __init__(self, world: World, chance: SeededEnv, seed: int) -> None:
        self.world, self.chance = world, chance
        self.random = Random(seed)
        self.hosts = Hosts(world.compute, tuple(HOSTS))
        self.told: list[str] = []
        self.servers: list[str] = []
        self.deleted: list[str] = []
        self.ports: list[str] = []
        self.networks: list[str] = []
        self.sleepers: list[tuple[Plan, asyncio.Task[str]]] = []
        self.ports_in_use: dict[str, str] = {}

    @classmethod
    async def begin(cls, database: Database, seed: int) -> "Story":
        """Make a cloud with little room: five hosts on two racks, a routed network, one that all reach."""
        chance = SeededEnv(seed)
        world = await World.make(database, env=chance.env)
        await create_flavor(world.compute, FlavorRequest(name="large", vcpus=2, ram_mb=1024, disk_gb=1))
        for rack in sorted(set(HOSTS.values())):
            names = [host for host, on in HOSTS.items() if on == rack]
            await world.hosts(*names, reach=[rack, "backend"], vcpus=3)
        story = cls(world, chance, seed)
        routed = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
        plain = await world.cloud.plain("10.9.0.0/29", physical_network="backend")
        story.networks = [routed.id, plain.id]
        return story

    async def tell(self, steps: int = STEPS) -> None:
        """Go through the story, then let everything rest, and look at what is left."""
        with advances_planned(), patch.object(actions, "SETTLE_WAIT_S", 0):
            try:
                for step in (Story.boot, Story.boot, Story.conduct, Story.all_hosts, Story.conduct):
                    await step(self)
                for _ in range(steps):
                    await self._step()
                await self._rest()
                await self._check()
            finally:
                for _, task in self.sleepers:
                    task.cancel()
                await asyncio.gather(*(task for _, task in self.sleepers), return_exceptions=True)

    async def _step(self) -> None:
        steps, weights = zip(*WEIGHTS.items(), strict=True)
        await self.random.choices(steps, weights)[0](self)

    def note(self, *words: object) -> None:
        """Tell what happened. Servers and ports are told by their numbers."""
        names = {server: f"s{number}" for number, server in enumerate(self.servers)}
        names |= {port: f"p{number}" for number, port in enumerate(self.ports)}
        self.told.append(" ".join(names.get(str(word), str(word)) for word in words))

    def _some(self, ids: list[str]) -> str | None:
        return self.random.choice(ids) if ids else None

    async def _view(self, server_id: str) -> View | None:
        try:
            server = await server_service.get_server(self.world.compute, server_id)
        except RoostError:
            return None
        async with self.world.database.connection() as connection:
            row = await connection.fetchrow(VIEW, server_id)
        return View(
            status=server.status, task_state=server.task_state, stage=row["stage"], moving=row["moving"],
            guest_lost=row["guest_lost"], host_down=server.host_down,
        )  # fmt: skip

    # What users ask.

    async def boot(self) -> None:
        if len(self.servers) - len(self.deleted) >= SERVERS_MAX:
            return
        chosen = self.random.sample(self.networks, self.random.choice((1, 1, 2)))
        nics = tuple(NicAsked(network_id=network) for network in chosen)
        port = self._some([port for port in self.ports if port not in self.ports_in_use])
        if port is not None and self.random.random() < 0.5:
            nics = (NicAsked(port_id=port), *nics[1:])
        count = self.random.choice((1, 1, 2)) if not any(nic.port_id for nic in nics) else 1
        request = ServerRequest(name="web", flavor_ref=self.random.choice(("small", "large")), nics=nics, count=count)
        try:
            made = await server_service.create_servers(self.world.compute, request, project_id=PROJECT, user_id="user")
        except RoostError as error:
            self.note("boot refused:", type(error).__name__)
            assert any(nic.port_id for nic in nics), error  # noqa: PT017 - the error is an answer
            return
        self.servers += made.server_ids
        self.note("boot", *made.server_ids, "with", *[nic.port_id or "a network" for nic in nics])

    async def make_port(self) -> None:
        request = PortRequest(network_id=self.random.choice(self.networks), project_id=PROJECT)
        try:
            port = await port_service.create_port(self.world.networks, request)
        except RoostError as error:
            self.note("port refused:", type(error).__name__)
            return
        self.ports.append(port.id)
        self.note("port", port.id)

    async def change_port(self) -> None:
        port = self._some(self.ports)
        if port is None:
            return
        changes = self.random.choice(
            (
                PortChanges(name="other"),
                PortChanges(fixed_ips=()),
                PortChanges(mac_address=f"fa:16:3e:00:00:{self.random.randrange(16):02x}"),
            )
        )
        await self._ask_port("change", port, lambda: port_service.update_port(self.world.networks, port, changes))

    async def delete_port(self) -> None:
        port = self._some(self.ports)
        if port is not None and await self._ask_port(
            "delete", port, lambda: port_service.delete_port(self.world.networks, port)
        ):
            self.ports.remove(port)

    async def _ask_port(self, what: str, port: str, ask: Callable[[], Awaitable[Any]]) -> bool:
        try:
            await ask()
        except RoostError as error:
            self.note(what, port, "refused:", type(error).__name__)
            return False
        self.note(what, port)
        await self.hosts.replug()
        return True

    async def delete(self) -> None:
        if (server := self._some(self.servers)) is not None and await self._ask(
            "delete", server, lambda: server_service.delete_server(self.world.compute, server)
        ):
            self.deleted.append(server)

    async def power(self) -> None:
        if (server := self._some(self.servers)) is not None:
            name = self.random.choice(list(POWER))
            await self._ask(name, server, lambda: actions.change_power(self.world.compute, server, POWER[name], BY))

    async def rebuild(self) -> None:
        if (server := self._some(self.servers)) is not None:
            update = ServerUpdate(image_ref="")
            await self._ask("rebuild", server, lambda: actions.rebuild(self.world.compute, server, update, BY))

    async def move(self) -> None:
        if (server := self._some(self.servers)) is None:
            return
        name = self.random.choice([*MOVES, "migrate", "resize", "live-migrate"])
        flavor = self.random.choice(("small", "large")) if name == "resize" else None
        request = MoveRequest(kind=MOVES[name], flavor_ref=flavor)
        await self._ask(name, server, lambda: moves.begin_move(self.world.compute, server, request, BY))

    async def end_move(self) -> None:
        waiting = [
            server for server, status in sorted((await self.world.statuses()).items()) if status == "VERIFY_RESIZE"
        ]
        if (server := self._some(waiting or self.servers)) is not None:
            revert = self.random.random() < 0.5
            name = "revert" if revert else "confirm"
            await self._ask(name, server, lambda: moves.end_move(self.world.compute, server, BY, revert=revert))

    async def abort(self) -> None:
        only = MigrationFilter(kind=MoveKind.LIVE.value, open=True)
        for migration in await moves.list_migrations(self.world.compute, only, marker=None, limit=1):
            with suppress(RoostError):
                await moves.abort_migration(self.world.compute, migration.server_id, migration.id)
                self.note("abort", migration.server_id)

    async def attach(self) -> None:
        if (server := self._some(self.servers)) is not None:
            nic = NicAsked(network_id=self.random.choice(self.networks))
            await self._ask(
                "attach", server,
                lambda: interfaces.attach_interface(self.world.compute, server, nic, BY, permissions=None),
            )  # fmt: skip

    async def detach(self) -> None:
        if (server_id := self._some(self.servers)) is None:
            return
        try:
            server = await server_service.get_server(self.world.compute, server_id)
        except RoostError:
            return
        port_ids = [port.port_id for port in server.ports if port.port_id]
        if len(port_ids) > 1:
            port_id = self.random.choice(port_ids)
            await self._ask(
                "detach", server_id, lambda: interfaces.detach_interface(self.world.compute, server, port_id, BY)
            )
            await self.hosts.replug()

    async def _ask(self, action: str, server: str, ask: Callable[[], Awaitable[Any]]) -> bool:
        """Ask it of a server; the answer must be the one that the naive table expects."""
        view = await self._view(server)
        expected = expect(action, view)
        try:
            await ask()
        except RoostError as error:
            refused, why = True, f"{type(error).__name__}: {error}"
        else:
            refused, why = False, ""
        self.note(action, server, f"refused: {why.split(':')[0]}" if refused else "")
        if refused and action in OTHER_REASONS and not why.startswith(OF_STATE):
            return False
        assert expected is None or expected is not refused, f"{action}: {why or 'accepted'}, and the server is {view}"
        return not refused

    # What conductors and hosts do.

    async def conduct(self) -> None:
        ended = await run_planned(self.world.conductor, Plan(None, 0))
        if ended != "nothing":
            self.note("a conductor:", ended)
            await self._check_claims()

    async def misconduct(self, fate: Fate | None = None) -> None:
        """A conductor that has bad luck; one that sleeps is there until it is woken."""
        plan = Plan(fate or self.random.choice(list(Fate)), self.random.choice(CALLS))
        task = asyncio.create_task(run_planned(self.world.conductor, plan))
        asleep = asyncio.create_task(plan.asleep.wait())
        await asyncio.wait((task, asleep), return_when=asyncio.FIRST_COMPLETED)
        asleep.cancel()
        if not task.done():
            self.sleepers.append((plan, task))
            self.note("a conductor", plan.fate and plan.fate.value, plan.met)
            if len(self.sleepers) > SLEEPERS_MAX:
                await self.wake()
        elif task.result() != "nothing":
            self.note("a conductor:", task.result(), plan.met and plan.fate and plan.fate.value, plan.met)

    async def overtaken(self) -> None:
        """A conductor sleeps until another has its servers, something has come of it, and then wakes."""
        fate = self.random.choice((Fate.SLEEPS_BEFORE, Fate.SLEEPS_AFTER))
        await self.misconduct(fate)
        if not self.sleepers:
            return
        await self.pass_time(35.0)
        meanwhile = (Story.conduct, Story.host_turn, Story.all_hosts, Story.delete, Story.move, Story.cut_off)
        await self.conduct()
        for step in self.random.choices(meanwhile, (6, 4, 3, 2, 2, 0.5), k=self.random.randrange(4)):
            await step(self)
        await self.wake()

    async def wake(self) -> None:
        if self.sleepers:
            plan, task = self.sleepers.pop(self.random.randrange(len(self.sleepers)))
            plan.woken.set()
            self.note("a conductor wakes:", await task)
            await self._check_claims()

    async def host_turn(self) -> None:
        host = self.random.choice(self.hosts.names)
        how = self.random.choices(list(Turn), (12, 3, 2, 2, 3, 1))[0]
        if orders := await self.hosts.turn(host, how):
            self.note(host, "had", orders, "orders:", how.value)

    async def all_hosts(self) -> None:
        for host in self.hosts.names:
            await self.hosts.turn(host, Turn.FINE)
        self.note("all hosts")

    async def _check_claims(self) -> None:
        """What is there is claimed, until it is gone."""
        async with self.world.database.connection() as connection:
            claimed = {(row["server_id"], row["name"]) for row in await connection.fetch(CLAIMED)}
        stray = self.hosts.list_present() - claimed
        assert not stray, f"guests for which nothing is claimed: {stray}"

    async def send_late(self) -> None:
        if self.hosts.late:
            self.random.shuffle(self.hosts.late)
            report = self.hosts.late.pop()
            self.note(report.host, "reports late:", report.server_id, report.state)
            await self.hosts.send([report])

    async def cut_off(self) -> None:
        host = self.random.choice(self.hosts.names)
        self.hosts.cut.add(host)
        self.note(host, "is cut off")

    async def lose_power(self) -> None:
        host = self.random.choice(self.hosts.names)
        self.hosts.lose_power(host)
        await host_service.force_down(self.world.compute, host, True)
        self.note(host, "loses its power, and is forced down")

    async def come_back(self) -> None:
        if lost := sorted(self.hosts.cut | self.hosts.off):
            await self._back(self.random.choice(lost))

    async def _back(self, host: str) -> None:
        self.hosts.come_back(host)
        await host_service.force_down(self.world.compute, host, False)
        self.note(host, "is back")

    async def evacuate(self) -> None:
        """Evacuate all servers of a host that has no power."""
        for host in sorted(self.hosts.off)[:1]:
            for server in self.servers:
                with suppress(RoostError):
                    if (await server_service.get_server(self.world.compute, server)).host == host:
                        request = MoveRequest(kind=MoveKind.EVACUATE)
                        await moves.begin_move(self.world.compute, server, request, BY)
                        self.note("evacuate", server)

    async def pass_time(self, for_s: float | None = None) -> None:
        for_s = self.random.choice((1.0, 10.0, 35.0)) if for_s is None else for_s
        async with self.world.database.connection() as connection:
            for statement in PASS_TIME.split(";"):
                await connection.execute(statement, for_s)
        self.note("time passes:", for_s)

    async def skew(self) -> None:
        self.chance.skew_s = self.random.uniform(-SKEW_S_MAX, SKEW_S_MAX)
        self.note("a clock jumps")

    async def look_for_silent(self) -> None:
        if names := await self.world.look_for_silent():
            self.note("silent:", *sorted(names))

    async def reconcile(self) -> None:
        await reconcile_ports(self.world.networks)
        await reconcile_claims(self.world.conductor)
        self.note("reconciled")

    # How it ends.

    async def _rest(self) -> None:
        """Everybody is back, wakes and is heard; what waits for its user is decided."""
        self.note("rest")
        for host in self.hosts.names:
            await self._back(host)
        while self.sleepers:
            await self.wake()
        while self.hosts.late:
            await self.send_late()
        for _ in range(REST_ROUNDS_MAX):
            await self.pass_time(REST_ROUND_S)
            await self.all_hosts()
            await self.world.conduct()
            await self.all_hosts()
            await self.reconcile()
            if await self._decide() and await self._is_quiet():
                return
        raise AssertionError(f"it does not come to rest: {await self._list_left()}")

    async def _decide(self) -> bool:
        """Have every server running, or in ERROR without a host; whether they are."""
        done = True
        for server_id, status in sorted((await self.world.statuses()).items()):
            view = await self._view(server_id)
            if view is None or view.task_state or view.stage:
                continue
            if status == "VERIFY_RESIZE":
                await moves.end_move(self.world.compute, server_id, BY, revert=self.random.random() < 0.5)
            elif view.status == "ERROR" and await self._has_guest(server_id):
                await self._ask(
                    "delete", server_id, partial(server_service.delete_server, self.world.compute, server_id)
                )
                self.deleted.append(server_id)
            elif view.status in WAYS_BACK:
                await actions.change_power(self.world.compute, server_id, POWER[WAYS_BACK[view.status]], BY)
            else:
                continue
            done = False
        return done

    async def _has_guest(self, server_id: str) -> bool:
        """Whether a host is still asked for a guest that it failed to make again: for its user to delete."""
        async with self.world.database.connection() as connection:
            return bool(await connection.fetchval("SELECT count(*) FROM compute.guest WHERE server_id = $1", server_id))

    async def _is_quiet(self) -> bool:
        async with self.world.database.connection() as connection:
            return not await connection.fetchval("""
                SELECT EXISTS (SELECT FROM compute.work) OR EXISTS (SELECT FROM network.release)
                    OR EXISTS (SELECT FROM network.intent) OR EXISTS (SELECT FROM network.notice)
                    OR EXISTS (SELECT FROM compute.guest WHERE reported IS DISTINCT FROM desired)""")

    async def _list_left(self) -> list[str]:
        async with self.world.database.connection() as connection:
            rows = [row for query in LEFT for row in await connection.fetch(query)]
        return [str(dict(row)) for row in rows]

    async def _check(self) -> None:
        """Ledger = addresses = ports = servers = guests; and nobody lost what was promised to them."""
        await assert_books_agree(self.world.database)
        async with self.world.database.connection() as connection:
            broken = [dict(row) for row in await connection.fetch("SELECT * FROM audit.broken")]
            servers = {row["id"]: row for row in await connection.fetch("SELECT id, host, status FROM compute.server")}
        assert broken == []
        expected = set(self.servers) - set(self.deleted)
        assert servers.keys() == expected, f"lost {expected - servers.keys()}, back {servers.keys() - expected}"
        guests = {(server, host) for server, host in self.hosts.guests}
        running = {(id, row["host"]) for id, row in servers.items() if row["status"] == "ACTIVE"}
        assert guests >= running, f"no guest: {running - guests}"
        stray = {guest for guest in guests - running if servers.get(guest[0], {"status": ""})["status"] != "ERROR"}
        assert not stray, f"stray guests: {stray}"
        there = {port.id for port in await port_service.list_ports(self.world.networks, PortFilter())}
        assert set(self.ports) <= there, f"ports of users are gone: {set(self.ports) - there}"


OF_STATE = ("ActionRefused", "ServerNotFound")
OTHER_REASONS = frozenset({"resize", "attach", "detach"})
"""Actions that may be refused for what the server's state does not tell: the flavor that it has, no free address."""

WEIGHTS: dict[Callable[[Story], Awaitable[None]], float] = {
    Story.boot: 8, Story.make_port: 3, Story.change_port: 2, Story.delete_port: 1, Story.delete: 4,
    Story.power: 6, Story.rebuild: 1, Story.move: 9, Story.end_move: 3, Story.abort: 1.5, Story.attach: 1.5,
    Story.detach: 1.5, Story.conduct: 16, Story.misconduct: 10, Story.overtaken: 8, Story.wake: 3, Story.host_turn: 16,
    Story.all_hosts: 8, Story.send_late: 3, Story.cut_off: 1, Story.lose_power: 1, Story.come_back: 2,
    Story.evacuate: 2, Story.pass_time: 7, Story.skew: 1, Story.look_for_silent: 1, Story.reconcile: 3,
}  # fmt: skip
