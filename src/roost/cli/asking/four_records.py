"""What a running cloud has, read over its APIs: addresses by segment, servers, and whether the four records agree.

The four records of who has which address are the ledger's claims, the network's addresses, its ports, and the servers.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from roost.cli.asking.cloud_client import CloudClient, Json, in_parallel
from roost.cli.asking.cloudfile import Cloud
from roost.cli.asking.loading import Loaded

ADDRESS_CLASS = "IPV4_ADDRESS"
FUNNEL_LINE = re.compile(r"^(.+): ([0-9]+) hosts? left$", re.MULTILINE)


class SegmentUse(Struct, frozen=True, kw_only=True):
    """A segment, or a network without segments, and how much of it is used. addresses: of the ledger's inventory."""

    name: str
    network: str
    provider_uuid: str
    host_names: frozenset[str]
    servers: int
    addresses_total: int
    addresses_used: int

    @property
    def addresses_free(self) -> int:
        """Return how many servers may still get one."""
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


class FourRecords(Struct, frozen=True, kw_only=True):
    """How many each of the records has, and a sentence for each thing that only some of them have.

    ledger: IPV4_ADDRESS claimed. addresses: assigned to ports. ports: that have some. servers: ACTIVE.
    """

    agree: bool
    ledger: int
    addresses: int
    ports: int
    servers: int
    differences: tuple[str, ...]


async def read_servers(client: CloudClient) -> list[ServerState]:
    """Return every server, by age."""
    return [_server_state(server) for server in reversed(await client.list_servers())]


def _server_state(server: Json) -> ServerState:
    fault = server.get("fault") or {}
    addresses = [address["addr"] for listed in server.get("addresses", {}).values() for address in listed]
    return ServerState(
        id=server["id"],
        name=server["name"],
        status=server["status"],
        host=server.get("OS-EXT-SRV-ATTR:host") or None,
        addresses=tuple(sorted(addresses, key=ipaddress.ip_address)),
        fault=fault.get("message"),
        funnel=read_funnel(fault.get("details") or ""),
    )


def read_funnel(details: str) -> tuple[tuple[str, int], ...]:
    """Return the lines of a fault's details that say how many hosts each requirement left."""
    return tuple((requirement, int(hosts_left)) for requirement, hosts_left in FUNNEL_LINE.findall(details))


async def read_segments(client: CloudClient, cloud: Cloud, loaded: Loaded) -> list[SegmentUse]:
    """Return every segment of the file, and every network without segments, in the file's order."""
    servers = await _servers_by_provider(client)
    places: list[tuple[str, str, str, str | None]] = []
    for network in cloud.networks:
        for segment in network.segments:
            provider_uuid = loaded.segments[network.name, segment.name]
            places.append((segment.name, network.name, provider_uuid, segment.physical_network))
        if not network.segments:
            places.append((network.name, network.name, loaded.networks[network.name], network.physical_network))

    async def read(place: tuple[str, str, str, str | None]) -> SegmentUse:
        name, network_name, provider_uuid, physical_network = place
        path = f"/placement/resource_providers/{provider_uuid}"
        inventories = (await client.call("GET", f"{path}/inventories"))["inventories"]
        usages = (await client.call("GET", f"{path}/usages"))["usages"]
        return SegmentUse(
            name=name,
            network=network_name,
            provider_uuid=provider_uuid,
            host_names=_hosts_on(cloud, physical_network),
            servers=len(servers.get(provider_uuid, ())),
            addresses_total=int(inventories.get(ADDRESS_CLASS, {}).get("total", 0)),
            addresses_used=int(usages.get(ADDRESS_CLASS, 0)),
        )

    return await in_parallel(read, places)


def _hosts_on(cloud: Cloud, physical_network: str | None) -> frozenset[str]:
    """Return the hosts that reach a physical network; all of them for None (an overlay)."""
    return frozenset(
        name
        for hosts in cloud.hosts
        if physical_network is None or physical_network in hosts.physical_networks
        for name in hosts.names()
    )


async def list_servers_on(client: CloudClient, segment: SegmentUse) -> set[str]:
    """Return the ids of the servers that have an address of the segment."""
    return (await _servers_by_provider(client)).get(segment.provider_uuid, set())


async def _servers_by_provider(client: CloudClient) -> dict[str, set[str]]:
    servers: dict[str, set[str]] = {}
    for port, provider_uuid in await _list_assigned(client):
        if port["device_id"]:
            servers.setdefault(provider_uuid, set()).add(port["device_id"])
    return servers


async def _list_assigned(client: CloudClient) -> list[tuple[Json, str]]:
    """Return a pair for each assigned address: its port, and the provider that it is claimed from."""
    ports = await client.list_all("/network/v2.0/ports", "ports")
    subnets = await client.list_all("/network/v2.0/subnets", "subnets")
    provider_by_subnet = {subnet["id"]: subnet.get("segment_id") or subnet["network_id"] for subnet in subnets}
    return [(port, provider_by_subnet[address["subnet_id"]]) for port in ports for address in port["fixed_ips"]]


async def compare_records(
    client: CloudClient, segments: Sequence[SegmentUse], servers: Sequence[ServerState]
) -> FourRecords:
    """Compare who has which address on which segment, by each of the four records; not only how many."""
    paths = [f"/placement/resource_providers/{segment.provider_uuid}/allocations" for segment in segments]
    claimed: Counter[tuple[str, str]] = Counter()
    for segment, allocations in zip(segments, await _read_allocations(client, paths), strict=True):
        for consumer, allocation in allocations.items():
            claimed[consumer, segment.provider_uuid] += int(allocation["resources"].get(ADDRESS_CLASS, 0))
    assigned = Counter((port["id"], provider_uuid) for port, provider_uuid in await _list_assigned(client))
    ports = await client.list_all("/network/v2.0/ports", "ports")
    active = {server.id: server for server in servers if server.status == "ACTIVE"}
    differences = [
        *_compare_claims(claimed, assigned, {segment.provider_uuid: segment for segment in segments}),
        *_compare_ports(ports, active),
        *await _compare_servers(client, list(active.values())),
    ]
    return FourRecords(
        agree=not differences,
        ledger=sum(segment.addresses_used for segment in segments),
        addresses=assigned.total(),
        ports=len({port_id for port_id, _ in assigned}),
        servers=len(active),
        differences=tuple(differences),
    )


async def _read_allocations(client: CloudClient, paths: Sequence[str]) -> list[Json]:
    answers = await in_parallel(lambda path: client.call("GET", path), paths)
    return [answer["allocations"] for answer in answers]


def _compare_claims(
    claimed: Counter[tuple[str, str]], assigned: Counter[tuple[str, str]], segments: Mapping[str, SegmentUse]
) -> list[str]:
    """Return where claims and addresses differ, port by port and segment by segment."""
    differences = []
    for port_id, provider_uuid in sorted(claimed.keys() | assigned.keys()):
        claims, addresses = claimed[port_id, provider_uuid], assigned[port_id, provider_uuid]
        if claims != addresses:
            where = segments[provider_uuid].name if provider_uuid in segments else provider_uuid
            differences.append(f"port {port_id} has {addresses} addresses on {where} and {claims} claims in the ledger")
    for provider_uuid, segment in segments.items():
        total = sum(amount for (_, claimed_from), amount in claimed.items() if claimed_from == provider_uuid)
        if total != segment.addresses_used:
            differences.append(f"{segment.name} says {segment.addresses_used} are used, its claims are {total}")
        if segment.addresses_used > segment.addresses_total:
            differences.append(f"{segment.name} has {segment.addresses_total}, and {segment.addresses_used} are used")
    return differences


def _compare_ports(ports: Sequence[Json], active: Mapping[str, ServerState]) -> list[str]:
    """Return ports without a server that runs, and servers that show other addresses than their ports have."""
    differences = []
    addresses_by_server: dict[str, list[str]] = {}
    for port in ports:
        if port["device_id"] and port["device_id"] not in active:
            differences.append(f"port {port['id']} belongs to server {port['device_id']}, which is not ACTIVE")
        addresses = addresses_by_server.setdefault(port["device_id"], [])
        addresses += [address["ip_address"] for address in port["fixed_ips"]]
    for server in active.values():
        if sorted(addresses_by_server.get(server.id, [])) != sorted(server.addresses):
            differences.append(f"server {server.name} shows other addresses than its ports have")
    return differences


async def _compare_servers(client: CloudClient, servers: Sequence[ServerState]) -> list[str]:
    """Return the servers that do not have CPU on one host."""
    paths = [f"/placement/allocations/{server.id}" for server in servers]
    differences = []
    for server, allocations in zip(servers, await _read_allocations(client, paths), strict=True):
        hosts = sum("VCPU" in allocation["resources"] for allocation in allocations.values())
        if hosts != 1:
            differences.append(f"server {server.name} has CPU on {hosts} hosts")
    return differences
