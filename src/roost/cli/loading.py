"""Put a cloud file into a running Roost: what exists by its name is left alone, the rest is created.

A second run creates nothing. What exists with the same name is not compared with the file: `load` never changes.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from roost.cli.cloud_client import CloudClient, Json, in_parallel
from roost.cli.cloudfile import Cloud, Network, Segment, Servers, Subnet, subnet_gateway, subnet_pools

HOSTS_BATCH = 1000
HOSTS_UP_WAIT_S = 10.0
"""How long hosts that were just declared are given for their agents' first poll."""
HOSTS_UP_LOOK_S = 0.1
KINDS = ("flavors", "networks", "segments", "subnets", "hosts", "servers")

Progress = Callable[[str, int, int], None]
"""(kind, done, all): told after each piece of work."""


@dataclass
class Loaded:
    """What was done, and the ids of all that the file names. created, found: kind -> how many.

    segments: (network name, segment name) -> id. subnets: (network id, cidr) -> id.
    """

    created: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    found: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    flavors: dict[str, str] = field(default_factory=dict)
    networks: dict[str, str] = field(default_factory=dict)
    segments: dict[tuple[str, str], str] = field(default_factory=dict)
    subnets: dict[tuple[str, str], str] = field(default_factory=dict)

    def count(self, kind: str, *, created: bool) -> None:
        """Note one piece of work."""
        (self.created if created else self.found)[kind] += 1


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
        await wait_for_hosts(client, cloud)
        await _load_servers(client, cloud, loaded, progress)
    return loaded


async def wait_for_hosts(client: CloudClient, cloud: Cloud) -> None:
    """Return when all hosts of the file are up, or when their agents had time enough: a server goes to no other."""
    names = {name for hosts in cloud.hosts for name in hosts.names()}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(HOSTS_UP_WAIT_S):
            while not names <= await client.list_hosts_up():
                await asyncio.sleep(HOSTS_UP_LOOK_S)


def server_names(servers: Servers) -> list[str]:
    """`web` alone, or `web-1` to `web-40`."""
    if servers.count == 1:
        return [servers.name]
    return [f"{servers.name}-{number}" for number in range(1, servers.count + 1)]


async def _load_flavors(client: CloudClient, cloud: Cloud, loaded: Loaded) -> None:
    loaded.flavors = {flavor["name"]: flavor["id"] for flavor in await client.list_flavors()}
    for flavor in cloud.flavors:
        missing = flavor.name not in loaded.flavors
        if missing:
            body = {"name": flavor.name, "vcpus": flavor.vcpus, "ram": flavor.ram_mb, "disk": flavor.disk_gb}
            made = await client.call("POST", "/compute/v2.1/flavors", {"flavor": body})
            loaded.flavors[flavor.name] = made["flavor"]["id"]
        loaded.count("flavors", created=missing)


async def _load_networks(client: CloudClient, cloud: Cloud, loaded: Loaded, progress: Progress) -> None:
    """Networks one after the other, their segments and subnets side by side."""
    loaded.networks = {one["name"]: one["id"] for one in await client.list_all("/network/v2.0/networks", "networks")}
    names = {network_id: name for name, network_id in loaded.networks.items()}
    for one in await client.list_all("/network/v2.0/segments", "segments"):
        if one["network_id"] in names and one["name"]:
            loaded.segments[names[one["network_id"]], one["name"]] = one["id"]
    for one in await client.list_all("/network/v2.0/subnets", "subnets"):
        loaded.subnets[one["network_id"], one["cidr"]] = one["id"]
    for done, network in enumerate(cloud.networks, 1):
        await _load_network(client, network, loaded)
        progress("networks", done, len(cloud.networks))


async def _load_network(client: CloudClient, network: Network, loaded: Loaded) -> None:
    missing = network.name not in loaded.networks
    if missing:
        made = await client.call("POST", "/network/v2.0/networks", {"network": _network_body(network)})
        loaded.networks[network.name] = made["network"]["id"]
    loaded.count("networks", created=missing)
    network_id = loaded.networks[network.name]

    async def load_segment(segment: Segment) -> None:
        missing = (network.name, segment.name) not in loaded.segments
        if missing:
            body: Json = {
                "network_id": network_id,
                "name": segment.name,
                "network_type": segment.network_type,
                "physical_network": segment.physical_network,
            }
            if segment.segmentation_id is not None:
                body["segmentation_id"] = segment.segmentation_id
            made = await client.call("POST", "/network/v2.0/segments", {"segment": body})
            loaded.segments[network.name, segment.name] = made["segment"]["id"]
        loaded.count("segments", created=missing)

    await in_parallel(load_segment, network.segments)
    subnets: list[tuple[Subnet, str | None]] = [(subnet, None) for subnet in network.subnets]
    for segment in network.segments:
        subnets += [(subnet, loaded.segments[network.name, segment.name]) for subnet in segment.subnets]

    async def load_subnet(pair: tuple[Subnet, str | None]) -> None:
        subnet, segment_id = pair
        missing = (network_id, subnet.cidr) not in loaded.subnets
        if missing:
            body = _subnet_body(subnet, network_id, segment_id)
            made = await client.call("POST", "/network/v2.0/subnets", {"subnet": body})
            loaded.subnets[network_id, subnet.cidr] = made["subnet"]["id"]
        loaded.count("subnets", created=missing)

    await in_parallel(load_subnet, subnets)


def _network_body(network: Network) -> Json:
    """A plain network's physical network is the provider's; a routed one's are in its segments."""
    body: Json = {"name": network.name}
    network_type = network.network_type
    if network_type is None and network.physical_network is not None:
        network_type = "flat" if network.segmentation_id is None else "vlan"
    for key, value in (
        ("provider:network_type", network_type),
        ("provider:physical_network", network.physical_network),
        ("provider:segmentation_id", network.segmentation_id),
        ("roost:kind", network.kind),
        ("shared", network.shared or None),
    ):
        if value is not None:
            body[key] = value
    return body


def _subnet_body(subnet: Subnet, network_id: str, segment_id: str | None) -> Json:
    gateway = subnet_gateway(subnet)
    body: Json = {
        "network_id": network_id,
        "ip_version": 4,
        "cidr": subnet.cidr,
        "name": subnet.name,
        "gateway_ip": None if gateway is None else str(gateway),
        "allocation_pools": [{"start": str(first), "end": str(last)} for first, last in subnet_pools(subnet)],
    }
    if segment_id is not None:
        body["segment_id"] = segment_id
    if subnet.cell is not None:
        body["roost:cell"] = subnet.cell
    return body


async def _load_hosts(client: CloudClient, cloud: Cloud, loaded: Loaded, progress: Progress) -> None:
    known = await client.call("GET", "/compute/hosts")
    there = {one if isinstance(one, str) else one["name"] for one in known["hosts"]}
    missing: list[Json] = []
    for hosts in cloud.hosts:
        shape = {
            "vcpus": hosts.vcpus,
            "ram_mb": hosts.ram_mb,
            "disk_gb": hosts.disk_gb,
            "physical_networks": list(hosts.physical_networks),
            "cell": hosts.cell,
        }
        names = hosts.names()
        missing += [{"name": name, **shape} for name in names if name not in there]
        loaded.found["hosts"] += sum(name in there for name in names)
    for batch in _batches(missing):
        await client.call("PUT", "/compute/hosts", {"hosts": batch})
        loaded.created["hosts"] += len(batch)
        progress("hosts", loaded.created["hosts"], len(missing))


def _batches(hosts: Sequence[Json]) -> list[Sequence[Json]]:
    return [hosts[start : start + HOSTS_BATCH] for start in range(0, len(hosts), HOSTS_BATCH)]


async def _load_servers(client: CloudClient, cloud: Cloud, loaded: Loaded, progress: Progress) -> None:
    there = {server["name"] for server in await client.list_servers()}
    wanted = [(servers, name) for servers in cloud.servers for name in server_names(servers)]
    missing = [(servers, name) for servers, name in wanted if name not in there]
    loaded.found["servers"] = len(wanted) - len(missing)

    async def boot(pair: tuple[Servers, str]) -> None:
        servers, name = pair
        networks = [{"uuid": loaded.networks[network]} for network in servers.networks]
        await client.boot(name, loaded.flavors[servers.flavor], networks)
        loaded.count("servers", created=True)
        progress("servers", loaded.created["servers"], len(missing))

    await in_parallel(boot, missing)
