"""Scenarios of boots: what the last addresses, service subnets, groups and several NICs make of them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import gap  # type: ignore[import-not-found]
from tests.interop import books
from tests.interop.processes import cloud_shell, until
from tests.interop.world import World

SMALL = ["10.40.1.0/29", "10.40.2.0/29"]
"""Two segments of five addresses each."""
LARGE = ["10.41.1.0/26", "10.41.2.0/26", "10.41.3.0/26"]
SCHEDULERS = 3
REFUSED_S = 1.0


def several_schedulers(world: World) -> dict[str, Any]:
    """Three schedulers get thirty boots at once for ten addresses: ten servers, and no try beyond them."""
    cloud = world.fresh()
    network = cloud.routed_network(SMALL).network
    world.agree()
    with _more_schedulers(SCHEDULERS - 1):
        outcomes, took_s = gap.boot_many(cloud, "many", 30, 30, network=network)
    found = {**_tally(cloud, outcomes), "seconds": round(took_s, 1), "agreed_after_s": world.agree()}
    assert (found["active"], found["error"]) == (10, 20), found
    assert found["tries"] == 10, found
    return found


def service_subnets(world: World) -> dict[str, Any]:
    """A segment's subnet for floating addresses is no room for servers: twelve boots, ten addresses, ten tries."""
    cloud = world.fresh()
    network = cloud.routed_network(SMALL)
    segment = next(iter(network.segments.values()))
    body = {
        "network_id": network.network, "segment_id": segment, "ip_version": 4, "cidr": "10.40.8.0/26",
        "enable_dhcp": False, "service_types": ["network:floatingip", "network:router_gateway"],
    }  # fmt: skip
    cloud.neutron("POST", "/subnets", {"subnet": body})
    agreed_s = world.agree()
    outcomes, _ = gap.boot_many(cloud, "svc", 12, 4, network=network.network)
    found = {**_tally(cloud, outcomes), "agreed_before_s": agreed_s, "agreed_after_s": world.agree()}
    assert (found["active"], found["error"], found["tries"]) == (10, 2, 10), found
    return found


def anti_affinity(world: World) -> dict[str, Any]:
    """Six servers of a group are apart on six hosts, a seventh is refused, and each had one try."""
    cloud = world.fresh()
    network = cloud.routed_network(LARGE).network
    world.agree()
    policy = {"name": "apart", "policy": "anti-affinity"}
    group = cloud.nova("POST", "/os-server-groups", {"server_group": policy})["server_group"]["id"]
    try:
        outcomes = [
            *_boot_group(cloud, "apart", len(gap.HOSTS), network, group),
            *_boot_group(cloud, "seventh", 1, network, group),
        ]
        hosts = {outcome["host"] for outcome in outcomes if outcome["status"] == "ACTIVE"}
        found = {**_tally(cloud, outcomes), "hosts": len(hosts), "agreed_after_s": world.agree()}
    finally:
        cloud.delete_servers()
        cloud.nova("DELETE", f"/os-server-groups/{group}")
    assert (found["active"], found["error"], found["hosts"]) == (len(gap.HOSTS), 1, len(gap.HOSTS)), found
    assert found["tries"] == len(gap.HOSTS), found
    return found


def two_nics(world: World) -> dict[str, Any]:
    """Twenty servers with two NICs, on one routed network or two, have all addresses on their host's segment."""
    cloud = world.fresh()
    one = cloud.routed_network(LARGE)
    two = cloud.routed_network([cidr.replace("10.41.", "10.42.") for cidr in LARGE], name="second", vlan=201)
    world.agree()
    pairs = [[one, two] if number % 2 else [one, one] for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda number: _boot_nics(cloud, f"nics{number}", pairs[number]), range(20)))
    found = {**_tally(cloud, outcomes), "agreed_after_s": world.agree()}
    assert (found["active"], found["tries"]) == (20, 20), found
    for outcome, pair in zip(outcomes, pairs, strict=True):
        addresses = [ip["addr"] for ips in cloud.server(outcome["id"])["addresses"].values() for ip in ips]
        assert len(addresses) == 2, addresses
        physnets = {name for name in (net.physnet_of(ip) for ip in addresses for net in pair) if name}
        assert [outcome["host"] in gap.ROUTED_HOSTS[name] for name in physnets] == [True], (outcome, addresses)
    return found


def _tally(cloud: Any, outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    tally = gap.tally(outcomes)
    return {
        "active": tally["active"], "error": tally["error"], "tries": books.count_tries(cloud, outcomes),
        "faults": {text[:200]: count for text, count in tally["faults"].items()},
    }  # fmt: skip


def _boot_group(cloud: Any, name: str, count: int, network: str, group: str) -> list[dict[str, Any]]:
    server = {
        "name": name, "imageRef": cloud.image_id, "flavorRef": cloud.flavor_id, "networks": [{"uuid": network}],
        "min_count": count, "max_count": count,
    }  # fmt: skip
    cloud.nova("POST", "/servers", {"server": server, "os:scheduler_hints": {"group": group}})
    uuids = [server["id"] for server in cloud.servers(name)]
    cloud.watcher.wait(uuids, 120)
    return [{**gap.describe(cloud.server(uuid)), "id": uuid} for uuid in uuids]


def _boot_nics(cloud: Any, name: str, networks: list[Any]) -> dict[str, Any]:
    server = {
        "name": name, "imageRef": cloud.image_id, "flavorRef": cloud.flavor_id,
        "networks": [{"uuid": network.network} for network in networks],
    }  # fmt: skip
    uuid = cloud.nova("POST", "/servers", {"server": server})["server"]["id"]
    cloud.watcher.wait([uuid], 300)
    return {**gap.describe(cloud.server(uuid)), "id": uuid}


@contextmanager
def _more_schedulers(count: int) -> Iterator[None]:
    """Run further schedulers beside the cloud's own, on the same queue of requests."""
    each = f"for number in $(seq {count}); do"
    cloud_shell(
        f'{each} file="$ETC/nova/scheduler-$number.conf"; printf "[DEFAULT]\nhost = scheduler-$number\n" > "$file"; '
        'spawn "nova-scheduler-$number" "$VENV/bin/nova-scheduler" --config-file "$ETC/nova/nova.conf" '
        '--config-file "$ETC/nova/nova-db.conf" --config-file "$file"; done'
    )
    try:
        _wait_for_schedulers(count)
        yield
    finally:
        cloud_shell(f'{each} halt "nova-scheduler-$number"; done')


def _wait_for_schedulers(count: int) -> None:
    cloud = gap.Cloud()
    for _ in until("the schedulers are up", 120):
        services = cloud.nova("GET", "/os-services?binary=nova-scheduler")["services"]
        named = [service for service in services if service["host"].startswith("scheduler-")]
        if sum(service["state"] == "up" for service in named) >= count:
            return
