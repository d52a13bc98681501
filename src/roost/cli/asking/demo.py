"""`roost demo`: builds a whole cloud on this machine and shows what Roost is for, by its HTTP APIs alone.

The story: boot until the addresses run out; be refused, with the reason; reuse a freed address; follow a port that has
an address already; compare the four records. How it is shown is story_output.py's part.
"""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roost.cli.asking.cloud_client import CloudClient, in_parallel
from roost.cli.asking.cloudfile import Cloud, Servers, parse_cloud
from roost.cli.asking.four_records import (
    FourRecords,
    SegmentUse,
    ServerState,
    compare_records,
    list_servers_on,
    read_segments,
    read_servers,
)
from roost.cli.asking.loading import Loaded, load, server_names, wait_for_hosts
from roost.cli.asking.local_cloud import running_cloud
from roost.cli.asking.story_output import Act, Narrator
from roost.platform.errors import RoostError

SETTLE_TIMEOUT_S = 120.0
POLL_S = 0.05
BOOTS_MAX = 2000
"""Servers that the story boots at most: a demo of a larger network shows it partly filled."""


SEGMENT_FIELDS = ("name", "servers", "addresses_total", "addresses_used")
SERVER_FIELDS = ("name", "status", "host", "addresses", "fault")


class DemoError(RoostError):
    """The story cannot be told to its end."""


@dataclass
class Story:
    """What was told. refused: the server for which no address was left. seconds: until it was told to its end."""

    segments: list[SegmentUse]
    servers: list[ServerState]
    refused: ServerState | None
    records: FourRecords
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Return whether the four records agree."""
        return self.records.agree

    def document(self) -> dict[str, Any]:
        """Return it for a program; docs/reference/command-line.md."""
        refused = self.refused
        return {
            "segments": [
                {"hosts": len(segment.host_names), **{name: getattr(segment, name) for name in SEGMENT_FIELDS}}
                for segment in self.segments
            ],
            "servers": [{name: getattr(server, name) for name in SERVER_FIELDS} for server in self.servers],
            "refused": refused and {"name": refused.name, "reason": refused.fault or "", "funnel": refused.funnel},
            "books": self.records,
            "seconds": self.seconds,
        }


async def tell(cloud: Cloud, narrator: Narrator, *, data_dir: Path | None) -> Story:
    """Start everything, tell the story, end everything. Raises DemoError, CloudRefused."""
    entry = _leading_entry(cloud)
    legacy = [network.name for network in cloud.networks if network.kind is not None]
    if legacy:
        raise DemoError(f"the story is of ports, and flat network {legacy[0]} has none: use roost load --servers")
    began_s = time.monotonic()
    narrator.starting(cloud)
    async with _stage(data_dir) as client:
        loaded = await load(client, cloud, servers=False, progress=narrator.progress)
        await wait_for_hosts(client, cloud)
        scene = _Scene(client, cloud, entry, loaded, narrator)
        story = await scene.play()
        story.seconds = round(time.monotonic() - began_s, 2)
        narrator.told(story.seconds, data_dir=data_dir)
    return story


class _Scene:
    """The loaded cloud, and the acts of the story on it; `entry` is what is booted again and again."""

    def __init__(self, client: CloudClient, cloud: Cloud, entry: Servers, loaded: Loaded, narrator: Narrator) -> None:
        self._client = client
        self._cloud = cloud
        self._loaded = loaded
        self._narrator = narrator
        self._entry = entry

    async def play(self) -> Story:
        """Play every act, in order; one for which this cloud has no room is skipped, with the reason."""
        before_s = time.monotonic()
        self._narrator.begin(Act.FILL)
        await self._fill()
        servers, segments = await self._read()
        self._narrator.booted(servers, segments, time.monotonic() - before_s)
        room = self._room(segments)
        refused = next((server for server in servers if server.status != "ACTIVE"), None) if room > 0 else None
        if refused is not None:
            self._narrator.begin(Act.REFUSE)
            self._narrator.refused(refused)
            self._narrator.skipped("addresses are left, so the acts that need a full network are left out")
        elif room > 0:
            self._narrator.skipped(f"{BOOTS_MAX} servers do not fill this network, so nothing is refused")
        else:
            refused = await self._be_refused()
            await self._reuse_an_address()
            await self._follow_a_port()
        servers, segments = await self._read()
        records = await compare_records(self._client, segments, servers)
        self._narrator.checked(records)
        return Story(segments, servers, refused, records)

    async def _fill(self) -> None:
        """Boot the file's servers as far as there are addresses, then more of the first kind until there are none."""
        booked = 0
        for servers in self._cloud.servers or (self._entry,):
            room = self._room(await read_segments(self._client, self._cloud, self._loaded), servers.networks)
            names = server_names(servers)[: min(room, BOOTS_MAX - booked)]
            booked += len(names)
            await self._boot_all(servers, names)
        room = self._room(await read_segments(self._client, self._cloud, self._loaded))
        if room > 0:
            names = [f"{self._entry.name}-more-{number}" for number in range(1, min(room, BOOTS_MAX - booked) + 1)]
            await self._boot_all(self._entry, names)

    async def _boot_all(self, servers: Servers, names: Sequence[str]) -> None:
        await in_parallel(lambda name: self._boot(servers, name), names)
        await settle(self._client, self._narrator, len(names))

    async def _boot(self, servers: Servers, name: str, port_id: str | None = None) -> str:
        """Ask for one server like `servers`; port_id: a port of its first network to use."""
        networks = [{"uuid": self._loaded.networks[network]} for network in servers.networks]
        if port_id is not None:
            networks[0] = {"port": port_id}
        return await self._client.boot(name, self._loaded.flavors[servers.flavor], networks)

    async def _be_refused(self) -> ServerState:
        self._narrator.begin(Act.REFUSE)
        name = f"{self._entry.name}-one-too-many"
        server = await self._boot_one(name)
        if server.status != "ERROR":
            raise DemoError(f"{name} became {server.status} though no address is free")
        self._narrator.refused(server)
        return server

    async def _boot_one(self, name: str, port_id: str | None = None) -> ServerState:
        """Return the state of a new server once it is built or refused."""
        server_id = await self._boot(self._entry, name, port_id)
        await settle(self._client, self._narrator, 1)
        return next(server for server in await read_servers(self._client) if server.id == server_id)

    async def _reuse_an_address(self) -> None:
        self._narrator.begin(Act.REUSE)
        segment, gone = await self._free_one(last=False)
        server = await self._boot_one(f"{self._entry.name}-again")
        if server.status != "ACTIVE":
            raise DemoError(f"{server.name} is {server.status}: {server.fault or 'without a reason'}")
        self._narrator.reused(gone, server, segment.name)

    async def _follow_a_port(self) -> None:
        """Make a port on the file's last segment, with an address, and boot a server with it."""
        self._narrator.begin(Act.FOLLOW)
        segment, _ = await self._free_one(last=True)
        network_id, provider = self._loaded.networks[self._entry.networks[0]], segment.provider_uuid
        subnets = await self._client.list_all("/network/v2.0/subnets", "subnets")
        provided = [subnet for subnet in subnets if (subnet.get("segment_id") or subnet["network_id"]) == provider]
        body = {"network_id": network_id, "name": "ready", "fixed_ips": [{"subnet_id": provided[0]["id"]}]}
        port = (await self._client.call("POST", "/network/v2.0/ports", {"port": body}))["port"]
        address = port["fixed_ips"][0]["ip_address"]
        server = await self._boot_one(f"{self._entry.name}-with-port", port["id"])
        if server.status != "ACTIVE" or address not in server.addresses or server.host not in segment.host_names:
            raise DemoError(f"{server.name} with port {address} of {segment.name} is {server.status} on {server.host}")
        self._narrator.followed(server, address, segment)

    async def _free_one(self, *, last: bool) -> tuple[SegmentUse, ServerState]:
        """Delete a server of the first or last segment of the story's network; returns once its address is free."""
        servers, segments = await self._read()
        own = [segment for segment in segments if segment.network == self._entry.networks[0] and segment.servers]
        segment = own[-1 if last else 0]
        server_ids = await list_servers_on(self._client, segment)
        gone = next(server for server in servers if server.id in server_ids and self._is_story(server))
        await self._client.call("DELETE", f"/compute/v2.1/servers/{gone.id}")
        free = self._room(segments)

        async def freed() -> bool:
            return self._room(await read_segments(self._client, self._cloud, self._loaded)) > free

        await wait_for(freed, f"the addresses of {gone.name} to be free again")
        return segment, gone

    def _is_story(self, server: ServerState) -> bool:
        return server.status == "ACTIVE" and server.name.startswith(self._entry.name)

    async def _read(self) -> tuple[list[ServerState], list[SegmentUse]]:
        return await read_servers(self._client), await read_segments(self._client, self._cloud, self._loaded)

    def _room(self, segments: Sequence[SegmentUse], networks: Sequence[str] | None = None) -> int:
        """Return how many more servers the addresses of these networks are enough for."""
        free: dict[str, int] = {}
        for segment in segments:
            if segment.host_names:
                free[segment.network] = free.get(segment.network, 0) + max(0, segment.addresses_free)
        names = self._entry.networks if networks is None else networks
        return min(free.get(name, 0) // names.count(name) for name in names)


def three_racks() -> Cloud:
    """Return the cloud of examples/three-racks.yaml, for a Roost installed without its examples."""
    text = """
    flavors: [{name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}]
    networks:
      - name: public
        segments:
          - {name: rack1, physical_network: rack1, segmentation_id: 101, subnets: [{cidr: 203.0.113.0/28}]}
          - {name: rack2, physical_network: rack2, segmentation_id: 102, subnets: [{cidr: 203.0.113.16/28}]}
          - {name: rack3, physical_network: rack3, segmentation_id: 103, subnets: [{cidr: 203.0.113.32/29}]}
    hosts:
      - {name: 'r1-h[1-4]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
      - {name: 'r2-h[1-4]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack2]}
      - {name: 'r3-h[1-4]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack3]}
    servers: [{name: web, count: 40, flavor: small, networks: [public]}]
    """
    return parse_cloud(text, name="three racks")[0]


def _leading_entry(cloud: Cloud) -> Servers:
    """Return the servers of which more are booted: the file's first, else its first flavor on its first network."""
    if cloud.servers:
        return cloud.servers[0]
    if not cloud.flavors or not cloud.networks:
        raise DemoError("the cloud file has neither servers, nor a flavor and a network to make some of")
    return Servers(name="demo", flavor=cloud.flavors[0].name, networks=(cloud.networks[0].name,))


async def settle(client: CloudClient, narrator: Narrator, count: int) -> None:
    """Wait until no server is being built any more. count: how many were begun."""

    async def settled() -> bool:
        building = sum(server.status == "BUILD" for server in await read_servers(client))
        narrator.progress("servers", max(0, count - building), count)
        return building == 0

    await wait_for(settled, "every server to be built or refused")


async def wait_for(fact: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    while not await fact():
        if time.monotonic() > deadline_s:
            raise DemoError(f"waited {SETTLE_TIMEOUT_S:.0f} s in vain for {what}")
        await asyncio.sleep(POLL_S)


# Where it happens.


@contextlib.asynccontextmanager
async def _stage(data_dir: Path | None) -> AsyncIterator[CloudClient]:
    """Yield a whole Roost on a free port."""
    with demo_directory(data_dir) as directory:
        log_file = directory / "demo.log"
        async with running_cloud(directory, listen="127.0.0.1:0", log_file=log_file, tells_of_stop=True) as cloud:
            yield cloud.client


@contextlib.contextmanager
def demo_directory(data_dir: Path | None) -> Iterator[Path]:
    """Yield where a demo's data is; it goes at the end, unless its directory was given."""
    directory = data_dir or Path(tempfile.mkdtemp(prefix="roost-demo-"))
    try:
        if data_dir is None:
            directory.chmod(0o711)  # PostgreSQL's user passes through, when this is root
        yield directory
    finally:
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)
