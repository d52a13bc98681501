"""Put a cloud file into a running Roost: what exists by its name is left alone, the rest is created.

A second run creates nothing. What exists with the same name is not compared with the file: `load` never changes.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from roost.cli.asking.cloud_client import CloudClient, Json, in_parallel
from roost.cli.asking.cloudfile import Cloud, Network, Segment, Servers, Subnet, subnet_gateway, subnet_pools

HOSTS_BATCH = 1000
HOSTS_UP_WAIT_S = 10.0
"""How long hosts that were just declared are given for their agents' first poll."""
HOSTS_UP_LOOK_S = 0.1
PATHS = {
    "flavors": "/compute/v2.1/flavors",
    "networks": "/network/v2.0/networks",
    "segments": "/network/v2.0/segments",
    "subnets": "/network/v2.0/subnets",
}
KINDS = ("flavors", "networks", "segments", "subnets", "hosts", "servers")

Key = TypeVar("Key", str, tuple[str, str])
Progress = Callable[[str, int, int], None]
"""(kind, done, all): called after each piece of work."""


@dataclass
class Loaded:
    """What was done, and the ids of all that the file names. created, existing: kind -> how many.

    segments: (network name, segment name) -> id. subnets: (network id, cidr) -> id.
    """

    created: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    existing: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    flavors: dict[str, str] = field(default_factory=dict)
    networks: dict[str, str] = field(default_factory=dict)
    segments: dict[tuple[str, str], str] = field(default_factory=dict)
    subnets: dict[tuple[str, str], str] = field(default_factory=dict)

    async def ensure(self, client: CloudClient, kind: str, ids: dict[Key, str], key: Key, body: Json) -> None:
        """Create a thing unless it is among the `ids` of its kind, and note its id there."""
        if key in ids:
            self.existing[kind] += 1
            return
        answer = await client.call("POST", PATHS[kind], {kind.removesuffix("s"): body})
        ids[key] = answer[kind.removesuffix("s")]["id"]
        self.created[kind] += 1


async def load(client: CloudClient, cloud: Cloud, *, servers: bool, progress: Progress) -> Loaded:
    """Create what the file names and Roost has not. Raises CloudRefused.

    servers: boot the file's servers too, once its hosts are up.
    """
    loaded = Loaded()
    await _load_flavors(client, cloud, loaded)
    progress("flavors", len(cloud.flavors), len(cloud.flavors))
    await _load_networks(client, cloud, loaded, progress)
    await _load_hosts(client, cloud, loaded, progress)
    if servers:
        await boot_servers(client, cloud, loaded, progress)
    return loaded


async def wait_for_hosts(client: CloudClient, cloud: Cloud, *, timeout_s: float | None = HOSTS_UP_WAIT_S) -> int:
    """Wait until all hosts of the file are up, or for timeout_s: a server goes to no other; returns how many hosts."""
    names = {name for hosts in cloud.hosts for name in hosts.names()}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while not names <= await client.list_hosts_up():
                await asyncio.sleep(HOSTS_UP_LOOK_S)
    return len(names)


def server_names(servers: Servers) -> list[str]:
    """Return `web` alone, or `web-1` to `web-40`."""
    if servers.count == 1:
        return [servers.name]
    return [f"{servers.name}-{number}" for number in range(1, servers.count + 1)]


async def _load_flavors(client: CloudClient, cloud: Cloud, loaded: Loaded) -> None:
    loaded.flavors = {flavor["name"]: flavor["id"] for flavor in await client.list_flavors()}
    for flavor in cloud.flavors:
        body = {"name": flavor.name, "vcpus": flavor.vcpus, "ram": flavor.ram_mb, "disk": flavor.disk_gb}
        await loaded.ensure(client, "flavors", loaded.flavors, flavor.name, body)


async def _load_networks(client: CloudClient, cloud: Cloud, loaded: Loaded, progress: Progress) -> None:
    """Load networks one after the other, their segments and subnets side by side."""
    networks, segments, subnets = [await client.list_all(PATHS[kind], kind) for kind in KINDS[1:4]]
    loaded.networks = {network["name"]: network["id"] for network in networks}
    names = {network_id: name for name, network_id in loaded.networks.items()}
    for segment in segments:
        if segment["network_id"] in names and segment["name"]:
            loaded.segments[names[segment["network_id"]], segment["name"]] = segment["id"]
    loaded.subnets = {(subnet["network_id"], subnet["cidr"]): subnet["id"] for subnet in subnets}
    for done, network in enumerate(cloud.networks, 1):
        await _load_network(client, network, loaded)
        progress("networks", done, len(cloud.networks))


async def _load_network(client: CloudClient, network: Network, loaded: Loaded) -> None:
    await loaded.ensure(client, "networks", loaded.networks, network.name, _network_body(network))
    network_id = loaded.networks[network.name]

    async def load_segment(segment: Segment) -> None:
        key, body = (network.name, segment.name), _segment_body(segment, network_id)
        await loaded.ensure(client, "segments", loaded.segments, key, body)

    async def load_subnet(placed: tuple[Subnet, str | None]) -> None:
        subnet, segment_id = placed
        key, body = (network_id, subnet.cidr), _subnet_body(subnet, network_id, segment_id)
        await loaded.ensure(client, "subnets", loaded.subnets, key, body)

    await in_parallel(load_segment, network.segments)
    subnets: list[tuple[Subnet, str | None]] = [(subnet, None) for subnet in network.subnets]
    for segment in network.segments:
        subnets += [(subnet, loaded.segments[network.name, segment.name]) for subnet in segment.subnets]
    await in_parallel(load_subnet, subnets)


def _network_body(network: Network) -> Json:
    """Return the request for a network; the physical networks of a routed one are in its segments."""
    network_type = network.network_type
    if network_type is None and network.physical_network is not None:
        network_type = "flat" if network.segmentation_id is None else "vlan"
    return _without_none({
        "name": network.name,
        "provider:network_type": network_type,
        "provider:physical_network": network.physical_network,
        "provider:segmentation_id": network.segmentation_id,
        "roost:kind": network.kind,
        "shared": network.shared or None,
    })  # fmt: skip


def _segment_body(segment: Segment, network_id: str) -> Json:
    return _without_none({
        "network_id": network_id,
        "name": segment.name,
        "network_type": segment.network_type,
        "physical_network": segment.physical_network,
        "segmentation_id": segment.segmentation_id,
    })  # fmt: skip


def _subnet_body(subnet: Subnet, network_id: str, segment_id: str | None) -> Json:
    gateway = subnet_gateway(subnet)
    body: Json = {
        "network_id": network_id,
        "ip_version": 4,
        "cidr": subnet.cidr,
        "name": subnet.name,
        "allocation_pools": [{"start": str(first), "end": str(last)} for first, last in subnet_pools(subnet)],
        "segment_id": segment_id,
        "roost:cell": subnet.cell,
    }
    return {**_without_none(body), "gateway_ip": None if gateway is None else str(gateway)}


def _without_none(body: Json) -> Json:
    return {key: value for key, value in body.items() if value is not None}


async def _load_hosts(client: CloudClient, cloud: Cloud, loaded: Loaded, progress: Progress) -> None:
    known = await client.call("GET", "/compute/hosts")
    names_known = {host if isinstance(host, str) else host["name"] for host in known["hosts"]}
    missing: list[Json] = []
    for hosts in cloud.hosts:
        shape = msgspec.structs.asdict(hosts)
        names = hosts.names()
        missing += [{**shape, "name": name} for name in names if name not in names_known]
        loaded.existing["hosts"] += sum(name in names_known for name in names)
    for start in range(0, len(missing), HOSTS_BATCH):
        batch = missing[start : start + HOSTS_BATCH]
        await client.call("PUT", "/compute/hosts", {"hosts": batch})
        loaded.created["hosts"] += len(batch)
        progress("hosts", loaded.created["hosts"], len(missing))


async def boot_servers(client: CloudClient, cloud: Cloud, loaded: Loaded, progress: Progress) -> None:
    """Boot the file's servers that Roost has not, once its hosts are up. Raises CloudRefused."""
    await wait_for_hosts(client, cloud)
    names_known = {server["name"] for server in await client.list_servers()}
    declared = [(servers, name) for servers in cloud.servers for name in server_names(servers)]
    missing = [(servers, name) for servers, name in declared if name not in names_known]
    loaded.existing["servers"] = len(declared) - len(missing)

    async def boot(server: tuple[Servers, str]) -> None:
        servers, name = server
        networks = [{"uuid": loaded.networks[network]} for network in servers.networks]
        await client.boot(name, loaded.flavors[servers.flavor], networks)
        loaded.created["servers"] += 1
        progress("servers", loaded.created["servers"], len(missing))

    await in_parallel(boot, missing)
