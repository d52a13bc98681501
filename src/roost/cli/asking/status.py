"""What a running Roost is doing, read over its APIs: hosts, addresses of segments, builds with what they wait for."""

from collections import Counter

import msgspec
from msgspec import Struct

from roost.cli.asking.cloud_client import CloudClient

BUILDS_SHOWN = 20


class HostStatus(Struct, frozen=True, kw_only=True):
    """state: up or down. status: enabled or disabled."""

    name: str
    state: str
    status: str


class SegmentStatus(Struct, frozen=True, kw_only=True):
    """A segment's IPv4 addresses, or those of a network without segments. free: what servers may still get."""

    network: str
    segment: str
    total: int
    used: int
    free: int


class BuildStatus(Struct, frozen=True, kw_only=True):
    """A server whose work is not done."""

    name: str
    stage: str
    attempt: int
    host: str | None
    since: str
    waits_for: str


class Status(Struct, frozen=True, kw_only=True):
    """builds: the oldest; builds_total: how many there are."""

    hosts: tuple[HostStatus, ...]
    segments: tuple[SegmentStatus, ...]
    builds: tuple[BuildStatus, ...]
    builds_total: int


async def read_status(client: CloudClient) -> Status:
    """Return the status at about one moment. Raises CloudRefused."""
    services = await client.list_all("/compute/v2.1/os-services", "services")
    builds = await client.call("GET", f"/compute/builds?limit={BUILDS_SHOWN}")
    return Status(
        hosts=tuple(HostStatus(name=host["host"], state=host["state"], status=host["status"]) for host in services),
        segments=await _read_segments(client),
        builds=msgspec.convert(builds["builds"], tuple[BuildStatus, ...]),
        builds_total=builds["total"],
    )


async def _read_segments(client: CloudClient) -> tuple[SegmentStatus, ...]:
    """Add up the subnets of each segment, which is all that servers on one network and host may choose among."""
    networks = await client.list_all("/network/v2.0/network-ip-availabilities", "network_ip_availabilities")
    segments = {segment["id"]: segment for segment in await client.list_all("/network/v2.0/segments", "segments")}
    subnets = {subnet["id"]: subnet for subnet in await client.list_all("/network/v2.0/subnets", "subnets")}
    sums: dict[tuple[str, str], Counter[str]] = {}
    for network in networks:
        for availability in network["subnet_ip_availability"]:
            if availability["ip_version"] != 4:
                continue  # IPv6: no subnet runs out of addresses
            subnet = subnets.get(availability["subnet_id"], {})
            segment = segments.get(subnet.get("segment_id") or "", {})
            name = segment.get("name") or subnet.get("roost:cell") or ""
            counts = sums.setdefault((network["network_name"], name), Counter(total=0, used=0, free=0))
            counts["total"] += availability["total_ips"]
            counts["used"] += availability["used_ips"]
            counts["free"] += availability["ip_availability_details"]["free_ips_in_allocation_pool"]
    return tuple(
        SegmentStatus(network=network, segment=segment, **counts) for (network, segment), counts in sorted(sums.items())
    )
