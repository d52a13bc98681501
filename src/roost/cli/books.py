"""What a running cloud holds, read over its APIs: addresses per segment, servers, and whether all books agree."""

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from roost.cli.cloud_client import CloudClient, Json, in_parallel
from roost.cli.cloudfile import Cloud
from roost.cli.loading import Loaded

ADDRESS_CLASS = "IPV4_ADDRESS"
FUNNEL_LINE = re.compile(r"^(.+): ([0-9]+) hosts? left$", re.MULTILINE)


class SegmentUse(Struct, frozen=True, kw_only=True):
    """A segment, or a network without segments, with what is used of it. addresses: of the ledger's inventory."""

    name: str
    network: str
    provider_uuid: str
    host_names: frozenset[str]
    servers: int
    addresses_total: int
    addresses_used: int

    @property
    def addresses_free(self) -> int:
        """What the next server may have."""
        return self.addresses_total - self.addresses_used


class ServerState(Struct, frozen=True, kw_only=True):
    """A server as the Compute API shows it. fault: why it is in ERROR; funnel: (requirement, hosts left)."""

    id: str
    name: str
    status: str
    host: str | None
    addresses: tuple[str, ...]
    fault: str | None
    funnel: tuple[tuple[str, int], ...]


class Books(Struct, frozen=True, kw_only=True):
    """Whether the ledger's claims, the assigned addresses, the ports and the servers are the same things.

    ledger: IPV4_ADDRESS claimed. addresses: assigned to ports. ports: that hold some. servers: ACTIVE.
    differences: one sentence for each thing that only some of the books know; empty when they agree.
    """

    agree: bool
    ledger: int
    addresses: int
    ports: int
    servers: int
    differences: tuple[str, ...]


async def read_servers(client: CloudClient) -> list[ServerState]:
    """Every server, by age."""
    servers = [_server_state(server) for server in await client.list_servers()]
    return servers[::-1]


def _server_state(server: Json) -> ServerState:
    fault = server.get("fault") or {}
    addresses = [one["addr"] for listed in server.get("addresses", {}).values() for one in listed]
    return ServerState(
        id=server["id"],
        name=server["name"],
        status=server["status"],
        host=server.get("OS-EXT-SRV-ATTR:host") or None,
        addresses=tuple(sorted(addresses, key=ipaddress.ip_address)),
        fault=fault.get("message"),
        funnel=_funnel(fault.get("details") or ""),
    )


def _funnel(details: str) -> tuple[tuple[str, int], ...]:
    """The lines of a fault's details that say how many hosts each requirement left."""
    return tuple((requirement, int(left)) for requirement, left in FUNNEL_LINE.findall(details))


async def read_segments(client: CloudClient, cloud: Cloud, loaded: Loaded) -> list[SegmentUse]:
    """Every segment of the file, and every network without segments, in the file's order."""
    devices = await _servers_by_provider(client)
    wanted: list[tuple[str, str, str, str | None]] = []
    for network in cloud.networks:
        if network.segments:
            for segment in network.segments:
                provider_uuid = loaded.segments[network.name, segment.name]
                wanted.append((segment.name, network.name, provider_uuid, segment.physical_network))
        else:
            wanted.append((network.name, network.name, loaded.networks[network.name], network.physical_network))

    async def read(one: tuple[str, str, str, str | None]) -> SegmentUse:
        name, network_name, provider_uuid, physical_network = one
        total, used = await _address_inventory(client, provider_uuid)
        return SegmentUse(
            name=name,
            network=network_name,
            provider_uuid=provider_uuid,
            host_names=_hosts_of(cloud, physical_network),
            servers=len(devices.get(provider_uuid, ())),
            addresses_total=total,
            addresses_used=used,
        )

    return await in_parallel(read, wanted)


async def list_servers_on(client: CloudClient, segment: SegmentUse) -> set[str]:
    """Ids of the servers that have an address of the segment."""
    return (await _servers_by_provider(client)).get(segment.provider_uuid, set())


async def _servers_by_provider(client: CloudClient) -> dict[str, set[str]]:
    ports, provider_by_subnet = await _ports(client), await _providers_by_subnet(client)
    servers: dict[str, set[str]] = {}
    for port in ports:
        for address in port["fixed_ips"]:
            if port["device_id"]:
                servers.setdefault(provider_by_subnet[address["subnet_id"]], set()).add(port["device_id"])
    return servers


async def _providers_by_subnet(client: CloudClient) -> dict[str, str]:
    subnets = await client.list_all("/network/v2.0/subnets", "subnets")
    return {subnet["id"]: subnet.get("segment_id") or subnet["network_id"] for subnet in subnets}


async def _address_inventory(client: CloudClient, provider_uuid: str) -> tuple[int, int]:
    """(total, used) of a provider's addresses, (0, 0) when it has none."""
    path = f"/placement/resource_providers/{provider_uuid}"
    inventories = (await client.call("GET", f"{path}/inventories"))["inventories"]
    usages = (await client.call("GET", f"{path}/usages"))["usages"]
    return int(inventories.get(ADDRESS_CLASS, {}).get("total", 0)), int(usages.get(ADDRESS_CLASS, 0))


def _hosts_of(cloud: Cloud, physical_network: str | None) -> frozenset[str]:
    """The hosts that reach a physical network; all of them where there is none (an overlay)."""
    return frozenset(
        name
        for hosts in cloud.hosts
        if physical_network is None or physical_network in hosts.physical_networks
        for name in hosts.names()
    )


async def _ports(client: CloudClient) -> list[Json]:
    return await client.list_all("/network/v2.0/ports", "ports")


async def check_books(client: CloudClient, segments: Sequence[SegmentUse], servers: Sequence[ServerState]) -> Books:
    """Compare who holds which address on which segment, by each of the books; not only how many."""
    ports = {port["id"]: port for port in await _ports(client)}
    provider_by_subnet = await _providers_by_subnet(client)

    async def claims_on(segment: SegmentUse) -> dict[str, Any]:
        path = f"/placement/resource_providers/{segment.provider_uuid}/allocations"
        allocations: dict[str, Any] = (await client.call("GET", path))["allocations"]
        return allocations

    claimed: Counter[tuple[str, str]] = Counter()
    for segment, allocations in zip(segments, await in_parallel(claims_on, segments), strict=True):
        for consumer, held in allocations.items():
            claimed[consumer, segment.provider_uuid] += int(held["resources"].get(ADDRESS_CLASS, 0))
    assigned: Counter[tuple[str, str]] = Counter()
    for port in ports.values():
        for address in port["fixed_ips"]:
            assigned[port["id"], provider_by_subnet[address["subnet_id"]]] += 1
    active = {server.id: server for server in servers if server.status == "ACTIVE"}
    differences = [
        *_unequal(claimed, assigned, {segment.provider_uuid: segment for segment in segments}),
        *_unowned(ports, active),
        *await _unplaced(client, active),
    ]
    return Books(
        agree=not differences,
        ledger=sum(segment.addresses_used for segment in segments),
        addresses=assigned.total(),
        ports=len({port_id for port_id, _ in assigned}),
        servers=len(active),
        differences=tuple(differences),
    )


def _unequal(
    claimed: Counter[tuple[str, str]], assigned: Counter[tuple[str, str]], segments: Mapping[str, SegmentUse]
) -> list[str]:
    """Claims against addresses, port by port and segment by segment."""
    found = []
    for port_id, provider_uuid in sorted(claimed.keys() | assigned.keys()):
        claims, addresses = claimed[port_id, provider_uuid], assigned[port_id, provider_uuid]
        if claims != addresses:
            where = segments[provider_uuid].name if provider_uuid in segments else provider_uuid
            found.append(f"port {port_id} has {addresses} addresses on {where} and {claims} claims in the ledger")
    for provider_uuid, segment in segments.items():
        total = sum(amount for (_, on), amount in claimed.items() if on == provider_uuid)
        if total != segment.addresses_used:
            found.append(f"{segment.name} says {segment.addresses_used} are used, its claims are {total}")
        if segment.addresses_used > segment.addresses_total:
            found.append(f"{segment.name} has {segment.addresses_total}, and {segment.addresses_used} are used")
    return found


def _unowned(ports: Mapping[str, Json], active: Mapping[str, ServerState]) -> list[str]:
    """Ports against servers: each of a server's addresses is its port's, each port's server exists and runs."""
    found = []
    addresses_by_server: dict[str, list[str]] = {}
    for port in ports.values():
        if port["device_id"] and port["device_id"] not in active:
            found.append(f"port {port['id']} belongs to server {port['device_id']}, which is not ACTIVE")
        listed = addresses_by_server.setdefault(port["device_id"], [])
        listed += [address["ip_address"] for address in port["fixed_ips"]]
    for server in active.values():
        if sorted(addresses_by_server.get(server.id, [])) != sorted(server.addresses):
            found.append(f"server {server.name} shows other addresses than its ports have")
    return found


async def _unplaced(client: CloudClient, active: Mapping[str, ServerState]) -> list[str]:
    """Servers against the ledger: each holds its CPU and memory, on one host."""

    async def claims_of(server_id: str) -> dict[str, Any]:
        allocations: dict[str, Any] = (await client.call("GET", f"/placement/allocations/{server_id}"))["allocations"]
        return allocations

    found = []
    for server, allocations in zip(active.values(), await in_parallel(claims_of, active), strict=True):
        holding = [held for held in allocations.values() if "VCPU" in held["resources"]]
        if len(holding) != 1:
            found.append(f"server {server.name} holds CPU on {len(holding)} hosts")
    return found
