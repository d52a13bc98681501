"""The books of Placement and of Neutron, compared; with a cloud of gap.py.

To agree is, of each segment: as many addresses are used in Placement as servers' ports have, and as many are free as
Neutron could still give to a server.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any

import gap  # type: ignore[import-not-found]
from tests.interop.processes import until

AGREES_S = 8.0
"""`[neutron] poll_s`, a round, and what the cloud's own background work takes beside six computes on two cores."""
OWNERS_OF_SERVERS = ("", "compute:nova")


def agree(cloud: Any, limit_s: float = AGREES_S) -> float:
    """Wait until both agree of every segment; returns the seconds. Raises AssertionError when they do not in time."""
    differing: dict[str, Any] = {}
    try:
        for waited_s in until("Placement agrees with Neutron", limit_s):
            neutron = count_neutron(cloud)
            placement = {segment: _count_placement(cloud, segment) for segment in neutron}
            differing = {name: (neutron[name], placement[name]) for name in neutron if neutron[name] != placement[name]}
            if not differing:
                return round(waited_s, 1)
    except AssertionError as error:
        raise AssertionError(f"{error}; (used, free) by segment, Neutron's and Placement's: {differing}") from None
    raise AssertionError


def count_neutron(cloud: Any) -> dict[str, tuple[int, int]]:
    """Return segment -> (addresses of servers, free ones)."""
    listed = cloud.neutron("GET", "/subnets?ip_version=4")["subnets"]
    subnets = {subnet["id"]: subnet["segment_id"] for subnet in listed if subnet["segment_id"]}
    used, free = Counter(dict.fromkeys(subnets.values(), 0)), Counter[str]()
    # Neutron's own count of an availability takes addresses outside of the pools for used ones of them.
    pools = {
        subnet["id"]: _addresses(subnet["allocation_pools"]) if _is_for_servers(subnet) else set()
        for subnet in listed
        if subnet["id"] in subnets
    }
    for port in cloud.neutron("GET", "/ports")["ports"]:
        ips = [ip for ip in port["fixed_ips"] if ip["subnet_id"] in subnets]
        if port["device_owner"].startswith("compute:"):
            used.update(subnets[ip["subnet_id"]] for ip in ips)
        for ip in ips:
            pools[ip["subnet_id"]].discard(int(ip_address(ip["ip_address"])))
    for subnet_id, addresses in pools.items():
        free[subnets[subnet_id]] += len(addresses)
    return {segment: (amount, free[segment]) for segment, amount in used.items()}


def count_tries(cloud: Any, outcomes: Iterable[Mapping[str, Any]]) -> int:
    """Return on how many hosts these servers were tried, in all."""
    return sum(gap.scheduled(cloud, outcomes).values())


def list_claims(cloud: Any, servers: Iterable[str]) -> dict[str, Any]:
    """Return server -> provider -> resources, as Placement has them."""
    return {
        server: {
            provider: claim["resources"]
            for provider, claim in cloud.placement("GET", f"/allocations/{server}")["allocations"].items()
        }
        for server in servers
    }


def _is_for_servers(subnet: Mapping[str, Any]) -> bool:
    types = subnet.get("service_types") or [""]
    return any(owner in types for owner in OWNERS_OF_SERVERS)


def _addresses(pools: list[dict[str, str]]) -> set[int]:
    spans = [(int(ip_address(pool["start"])), int(ip_address(pool["end"]))) for pool in pools]
    return {address for first, last in spans for address in range(first, last + 1)}


def _count_placement(cloud: Any, segment: str) -> tuple[int, int] | None:
    """Return the same of a segment's provider; None without one."""
    path = f"/resource_providers/{segment}"
    try:
        inventories: Mapping[str, Any] = cloud.placement("GET", f"{path}/inventories")["inventories"]
        used = cloud.placement("GET", f"{path}/usages")["usages"].get("IPV4_ADDRESS", 0)
    except gap.Failed:
        return None
    inventory = inventories.get("IPV4_ADDRESS")
    return None if inventory is None else (used, inventory["total"] - inventory["reserved"] - used)
