"""`roost demo --real`: the story that guests of QEMU tell, on hosts that are network namespaces of this machine.

Guests boot, and have the addresses that they were given; they reach each other; a full rack refuses the next; one that
pretends to be another reaches nobody; one moves live under a connection; a host dies, and its guests come back. What
Roost promises is looked at from outside, over the guests' own network. What it says there is real_output.py's part.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from typing import Any

from roost.cli.asking.cloud_client import CloudClient, in_parallel
from roost.cli.asking.cloudfile import Cloud, Segment, parse_cloud, subnet_gateway
from roost.cli.asking.demo import DemoError, demo_directory, settle, wait_for
from roost.cli.asking.four_records import (
    ServerState,
    compare_records,
    read_segments,
    read_servers,
)
from roost.cli.asking.loading import Loaded, load
from roost.cli.asking.local_cloud import running_cloud
from roost.cli.asking.real_hosts import RealHosts, leftovers_text, prepare_machine, running_hosts
from roost.cli.asking.real_output import RealAct, RealNarrator
from roost.cli.asking.real_probes import answers, ask_shell, count_received, echo_client, ping_script, spoof_script
from roost.cli.asking.real_story import Evacuated, Moved, NicsSeen, Pinged, RealStory, Spoofed
from roost.cli.asking.real_world import list_world_problems, look_at_world, read_cidrs, read_nics
from roost.cli.asking.story_output import Act

SERVERS = "/compute/v2.1/servers"
WARM_UP_S = 1.0
"""How long a client talks before its guest moves, and after."""
SPOOFED_MAC = "52:54:00:66:66:66"


def real_racks() -> Cloud:
    """Return three racks of which the first has two hosts, and five addresses in all."""
    text = """
    flavors: [{name: tiny, vcpus: 1, ram_mb: 96, disk_gb: 1}]
    networks:
      - name: public
        segments:
          - name: rack1
            physical_network: rack1
            network_type: flat
            subnets: [{cidr: 203.0.113.0/28, pools: [{start: 203.0.113.2, end: 203.0.113.3}]}]
          - name: rack2
            physical_network: rack2
            network_type: flat
            subnets: [{cidr: 203.0.113.16/28, pools: [{start: 203.0.113.18, end: 203.0.113.19}]}]
          - name: rack3
            physical_network: rack3
            network_type: flat
            subnets: [{cidr: 203.0.113.32/28, pools: [{start: 203.0.113.34, end: 203.0.113.34}]}]
    hosts:
      - {name: 'r1-h[1-2]', vcpus: 4, ram_mb: 1024, disk_gb: 10, physical_networks: [rack1]}
      - {name: r2-h1, vcpus: 4, ram_mb: 1024, disk_gb: 10, physical_networks: [rack2]}
      - {name: r3-h1, vcpus: 4, ram_mb: 1024, disk_gb: 10, physical_networks: [rack3]}
    servers: [{name: web, count: 5, flavor: tiny, networks: [public]}]
    """
    return parse_cloud(text, name="three real racks")[0]


async def tell_real(narrator: RealNarrator, *, data_dir: Path | None) -> RealStory:
    """Start everything, tell the story, end everything. Raises DemoError, RealFailed, CloudRefused."""
    began_s = time.monotonic()
    cloud = real_racks()
    async with _stage(cloud, narrator, data_dir) as (hosts, loaded):
        scene = _RealScene(hosts, cloud, loaded, narrator)
        story = await scene.play()
        story.seconds = round(time.monotonic() - began_s, 2)
        narrator.told(story.seconds, data_dir=data_dir)
    return story


@contextlib.asynccontextmanager
async def _stage(
    cloud: Cloud, narrator: RealNarrator, data_dir: Path | None
) -> AsyncIterator[tuple[RealHosts, Loaded]]:
    """Yield the hosts of a Roost of their own, all of them up."""
    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(demo_directory(data_dir))
        narrator.tidied(leftovers_text(await prepare_machine(cloud, directory)))
        narrator.starting(cloud)
        log_file = directory / "demo.log"
        local = running_cloud(directory, listen="127.0.0.1:0", log_file=log_file, pretends=False)
        roost = await stack.enter_async_context(local)
        loaded = await load(roost.client, cloud, servers=False, progress=narrator.progress)
        await _unforce_hosts(roost.client, cloud)
        playing = running_hosts(cloud, roost, directory, temporary=data_dir is None)
        hosts = await stack.enter_async_context(playing)
        await _wait_up(hosts, narrator)
        await _delete_servers(roost.client)
        yield hosts, loaded


async def _unforce_hosts(client: CloudClient, cloud: Cloud) -> None:
    """Have no host be forced down, as an earlier story in the same directory left one."""
    for host in (name for hosts in cloud.hosts for name in hosts.names()):
        await _force_down(client, host, forced=False)


async def _force_down(client: CloudClient, host: str, *, forced: bool) -> None:
    body = {"host": host, "binary": "nova-compute", "forced_down": forced}
    await client.call("PUT", "/compute/v2.1/os-services/force-down", body)


async def _delete_servers(client: CloudClient) -> None:
    """Have no servers, as an earlier story in the same directory left some."""
    await in_parallel(lambda server: client.call("DELETE", f"{SERVERS}/{server['id']}"), await client.list_servers())

    async def are_gone() -> bool:
        return not await client.list_servers()

    await wait_for(are_gone, "servers of an earlier story to be gone")


async def _wait_up(hosts: RealHosts, narrator: RealNarrator) -> None:
    """Wait until all hosts are up. Raises DemoError, LocalCloudFailed when a process ends."""
    names = {host.name for host in hosts.network.hosts}

    async def are_up() -> bool:
        up = names & await hosts.local.client.list_hosts_up()
        narrator.progress("hosts up", len(up), len(names))
        return up == names

    ending = asyncio.create_task(hosts.local.wait())
    waiting = asyncio.create_task(wait_for(are_up, "the hosts to be up"))
    try:
        done, _ = await asyncio.wait((ending, waiting), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        ending.cancel()
        waiting.cancel()


class _RealScene:
    """The loaded cloud with its hosts, and the acts of the story."""

    def __init__(self, hosts: RealHosts, cloud: Cloud, loaded: Loaded, narrator: RealNarrator) -> None:
        self._hosts = hosts
        self._client: CloudClient = hosts.local.client
        self._cloud = cloud
        self._loaded = loaded
        self._narrator = narrator
        self._fabric = hosts.network.fabric
        self._story = RealStory([host.name for host in hosts.network.hosts])

    async def play(self) -> RealStory:
        """Play every act, in order; a promise that does not hold is noted, and the story goes on."""
        story = self._story
        await self._boot()
        await self._ping()
        await self._be_refused()
        await self._spoof()
        await self._move_live()
        await self._lose_a_host()
        story.servers = await read_servers(self._client)
        story.segments = await read_segments(self._client, self._cloud, self._loaded)
        story.records = await compare_records(self._client, story.segments, story.servers)
        self._narrator.checked(story.records)
        self._expect(story.records.agree, "The four records agree")
        self._narrator.begin(RealAct.NICS)
        story.nics = await self._look_at_nics()
        self._narrator.nics_seen(story.nics)
        self._expect(
            not story.nics.problems, f"The guests' NICs are as the APIs say ({'; '.join(story.nics.problems)})"
        )
        self._narrator.ended(story)
        return story

    async def _look_at_nics(self) -> NicsSeen:
        """Compare who answers at which address, and which NICs are up where, with what the APIs say."""
        hosts = {host.name: host.namespace for host in self._hosts.network.hosts}
        nics = await read_nics(self._client)
        seen = await look_at_world(self._fabric, await read_cidrs(self._client), hosts, nics)
        problems = list_world_problems(nics, seen)
        answered = sum(bool(macs) for macs in seen.macs_by_address.values())
        return NicsSeen(addresses=seen.addresses, answered=answered, problems=tuple(problems))

    def _expect(self, holds: bool, promise: str) -> None:
        if not holds:
            self._story.broken.append(f"This does not hold: {promise}")

    async def _boot(self) -> None:
        """Boot as many guests as there are addresses; each is there once it answers."""
        self._narrator.begin(RealAct.BOOT)
        began_s = time.monotonic()
        [entry] = self._cloud.servers
        names = [f"{entry.name}-{number}" for number in range(1, entry.count + 1)]
        await in_parallel(self._boot_one, names)
        await settle(self._client, self._narrator, len(names))
        servers = await read_servers(self._client)
        failed = [server for server in servers if server.status != "ACTIVE"]
        if failed:
            raise DemoError(f"{failed[0].name} is {failed[0].status}: {failed[0].fault or 'without a reason'}")
        late = await self._wait_answers(servers)
        self._expect(not late, f"each guest answers at its address ({', '.join(late)} did not)")
        self._story.boot_seconds = round(time.monotonic() - began_s, 2)
        segments = await read_segments(self._client, self._cloud, self._loaded)
        self._narrator.guests_booted(servers, segments, self._story.boot_seconds)

    async def _boot_one(self, name: str) -> str:
        [entry] = self._cloud.servers
        networks = [{"uuid": self._loaded.networks[network]} for network in entry.networks]
        return await self._client.boot(name, self._loaded.flavors[entry.flavor], networks)

    async def _wait_answers(self, servers: Sequence[ServerState]) -> list[str]:
        """Wait until all guests answer at their addresses; return the names of those that do not in time."""
        waiting = {server.name: server for server in servers}

        async def all_answer() -> bool:
            for server in list(waiting.values()):
                if all(await asyncio.gather(*(answers(self._fabric, address) for address in server.addresses))):
                    del waiting[server.name]
            self._narrator.progress("guests that answer", len(servers) - len(waiting), len(servers))
            return not waiting

        with contextlib.suppress(DemoError):
            await wait_for(all_answer, "every guest to answer")
        return sorted(waiting)

    async def _ping(self) -> None:
        """Have each guest ping all others, in its rack and across."""
        self._narrator.begin(RealAct.PING)
        servers = await read_servers(self._client)
        silent: list[str] = []

        async def ping_others(server: ServerState) -> None:
            others = [other for other in servers if other.id != server.id]
            printed = await self._ask(server, ping_script([other.addresses[0] for other in others]))
            counts = [*count_received(printed), *(0 for _ in others)]
            silent.extend(
                f"{server.name} to {other.name}" for other, count in zip(others, counts, strict=False) if not count
            )

        await in_parallel(ping_others, servers)
        pairs = len(servers) * (len(servers) - 1)
        self._story.pinged = Pinged(pairs=pairs, answered=pairs - len(silent), silent=tuple(sorted(silent)))
        self._narrator.pinged(self._story.pinged)
        self._expect(not silent, f"each guest reaches each other one ({', '.join(silent)} did not)")

    async def _ask(self, server: ServerState, script: str) -> str:
        """Return what a script prints in a guest; nothing if it is not reached."""
        with contextlib.suppress(OSError, TimeoutError):
            return await ask_shell(self._fabric, server.addresses[0], script)
        return ""

    async def _be_refused(self) -> None:
        self._narrator.begin(Act.REFUSE)
        [entry] = self._cloud.servers
        name = f"{entry.name}-one-too-many"
        await self._boot_one(name)
        await settle(self._client, self._narrator, 1)
        servers = await read_servers(self._client)
        server = self._story.refused = next(server for server in servers if server.name == name)
        self._narrator.refused(server)
        self._expect(server.status == "ERROR" and bool(server.fault), "a boot that no rack has room for is refused")

    def _segment_of(self, server: ServerState) -> Segment:
        [network] = self._cloud.networks
        address = ip_address(server.addresses[0])
        return next(segment for segment in network.segments if address in IPv4Network(segment.subnets[0].cidr))

    async def _spoof(self) -> None:
        """Have a guest say that it is another; its gateway is asked, which would answer whoever it believes."""
        self._narrator.begin(RealAct.SPOOF)
        server = next(server for server in await self._active() if self._segment_of(server).name == "rack2")
        subnet = self._segment_of(server).subnets[0]
        network = IPv4Network(subnet.cidr)
        script = spoof_script(
            gateway=str(subnet_gateway(subnet)), address=str(network[-3]), prefix=network.prefixlen, mac=SPOOFED_MAC
        )
        counts = [*count_received(await self._ask(server, script)), 0, 0, 0, 0]
        names = ("as_itself", "other_address", "other_mac", "as_itself_again")
        self._story.spoofed = Spoofed(server=server.name, **dict(zip(names, counts, strict=False)))
        self._narrator.spoofed(self._story.spoofed)
        self._expect(self._story.spoofed.held, "a guest reaches others as itself, and nobody as another")

    async def _active(self) -> list[ServerState]:
        return [server for server in await read_servers(self._client) if server.status == "ACTIVE"]

    async def _find(self, server_id: str) -> ServerState:
        return next(server for server in await read_servers(self._client) if server.id == server_id)

    async def _move_live(self) -> None:
        """Move a guest of the rack that has two hosts, while a client holds a connection to it."""
        self._narrator.begin(RealAct.MOVE)
        server = next(server for server in await self._active() if self._segment_of(server).name == "rack1")
        async with echo_client(self._fabric, server.addresses[0]) as count:
            await asyncio.sleep(WARM_UP_S)
            before_s, count.worst_s = count.worst_s, 0.0
            began_s = time.monotonic()
            await self._act(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
            await self._settle_move([server])
            seconds, rounds = time.monotonic() - began_s, count.rounds
            await asyncio.sleep(WARM_UP_S)
        server_moved = await self._find(server.id)
        stands = count.rounds == rounds
        self._story.moved = Moved(
            server=server.name,
            source=server.host or "",
            target=server_moved.host,
            rounds=count.rounds,
            lost=count.lost or ("it stands still" if stands else None),
            before_s=round(before_s, 3),
            worst_s=round(count.worst_s, 3),
            seconds=round(seconds, 2),
        )
        self._narrator.moved(self._story.moved)
        self._expect(server_moved.host != server.host, f"{server.name} moves to another host")
        self._expect(self._story.moved.lost is None, "a live migration keeps the connection of a client")

    async def _act(self, server: ServerState, action: str, body: Any) -> None:
        await self._client.call("POST", f"{SERVERS}/{server.id}/action", {action: body})

    async def _settle_move(self, servers: Sequence[ServerState]) -> None:
        """Wait until servers that were told to move are at rest."""

        async def at_rest() -> bool:
            listed = {server["id"]: server for server in await self._client.list_servers()}
            busy = sum(bool(listed[server.id]["OS-EXT-STS:task_state"]) for server in servers)
            self._narrator.progress("moves", len(servers) - busy, len(servers))
            return busy == 0

        await wait_for(at_rest, "moves to come to an end")

    async def _lose_a_host(self) -> None:
        """Kill the host of the guest that moved, and bring all its guests back elsewhere."""
        self._narrator.begin(RealAct.LOSE)
        assert self._story.moved is not None
        active = await self._active()
        host = self._story.moved.target or self._story.moved.source
        servers = [server for server in active if server.host == host]
        await self._hosts.kill(host)
        began_s = time.monotonic()
        silent = not any(await asyncio.gather(*(answers(self._fabric, server.addresses[0]) for server in servers)))
        await _force_down(self._client, host, forced=True)
        for server in servers:
            await self._act(server, "evacuate", {})
        await self._settle_move(servers)
        active_s = time.monotonic() - began_s
        late = await self._wait_answers(servers)
        servers_back = [await self._find(server.id) for server in servers]
        self._story.evacuated = Evacuated(
            host=host,
            servers=tuple(server.name for server in servers),
            silent=silent,
            back=tuple(server.name for server in servers if server.name not in late),
            targets=tuple(sorted({server.host or "" for server in servers_back})),
            active_s=round(active_s, 2),
            seconds=round(time.monotonic() - began_s, 2),
        )
        self._narrator.evacuated(self._story.evacuated, servers_back)
        self._expect(silent, f"guests of {host} do not answer once it is dead")
        self._expect(not late, f"evacuated guests answer again ({', '.join(late)} did not)")
        same = all(old.addresses == new.addresses for old, new in zip(servers, servers_back, strict=True))
        self._expect(same, "evacuated guests keep their addresses")
        self._expect(host not in self._story.evacuated.targets, f"guests of {host} are elsewhere")
