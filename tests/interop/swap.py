"""Scenarios of the way from upstream Placement to Roost and back, in a cloud that runs, behind a load balancer.

Between the last copy and the swap nobody reaches a Placement but the copy: the balancer holds all other requests back.
Nothing of Nova or Neutron is stopped, and boots that are begun meanwhile are answered late. To stop Nova's schedulers
instead loses boots when it takes longer than `[DEFAULT] rpc_response_timeout` (60 s): MessagingTimeout, and
MessageDeliveryFailure of those that were being built.
"""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import gap  # type: ignore[import-not-found]
from tests.interop import books
from tests.interop.balancer import Balancer
from tests.interop.processes import BASE, SECOND_PORT, Database, Roost, cloud_shell
from tests.interop.world import World

UPSTREAM_PORT = BASE + 1
UPSTREAM_URL = f"http://127.0.0.1:{UPSTREAM_PORT}"
BACK = ("--to", UPSTREAM_URL, "--without-port-claims")
NETWORKS = (["10.60.1.0/26", "10.60.2.0/26", "10.60.3.0/26"], ["10.61.1.0/26", "10.61.2.0/26", "10.61.3.0/26"])
SERVERS = int(os.environ.get("INTEROP_SERVERS", "50"))
TWO_NICS, HOT_PLUGGED, SHELVED = SERVERS // 5, SERVERS // 6, SERVERS // 10
ROUND_S = 60.0
EVERY_S = 3.0
"""Between two boots while the cloud is adopted."""


class SwapWorld(World):
    """A World on upstream Placement at first; Roost does not run yet."""

    def __init__(self, roost: Roost, database: Database, balancer: Balancer) -> None:
        super().__init__(roost, database)
        self.balancer = balancer
        self.networks: list[Any] = []
        self.is_adopted = False


def adopted(world: SwapWorld) -> dict[str, Any]:
    """Fifty servers of all kinds on upstream Placement are adopted while boots go on."""
    cloud = world.fresh()
    world.networks = [
        cloud.routed_network(cidrs, name=f"routed{number}", vlan=200 + number) for number, cidrs in enumerate(NETWORKS)
    ]
    _fill(world)
    found: dict[str, Any] = {}
    with _boots_going_on(world, "meanwhile") as outcomes:
        time.sleep(EVERY_S)
        began_s = time.monotonic()
        _copy(world, "import-placement", "--from", UPSTREAM_URL)
        found["rehearsal_s"] = round(time.monotonic() - began_s, 1)
        with _standing_still(world, found):
            _copy(world, "import-placement", "--from", UPSTREAM_URL, "--delete")
            found["last_import"] = _copy(world, "import-placement", "--from", UPSTREAM_URL, "--dry-run")
            world.roost.start()
            _wait_for_round(world)
            world.balancer.send_to(SECOND_PORT)
            world.is_adopted = True
        time.sleep(4 * EVERY_S)
    found["agreed_after_s"] = world.agree(30)
    found |= _judge(world, outcomes)
    assert "Nothing differs." in found["last_import"], found
    assert found["meanwhile"] == {"ACTIVE": len(outcomes)}, found
    assert found["tries"] == len(outcomes), found
    return found


def way_back(world: SwapWorld) -> dict[str, Any]:
    """The cloud goes back to upstream Placement, boots going on: servers live, and upstream holds what Roost did."""
    if not world.is_adopted:
        adopted(world)
    cloud, found = world.cloud, dict[str, Any]()
    servers = {server["id"]: server["status"] for server in cloud.servers()}
    with _boots_going_on(world, "back") as outcomes:
        _copy(world, "export-placement", *BACK, "--delete")
        with _standing_still(world, found):
            _copy(world, "export-placement", *BACK, "--delete")
            found["last_export"] = _copy(world, "export-placement", *BACK, "--dry-run")
            claims = _claims(world, SECOND_PORT, servers)
            found["claims_differ"] = sum(
                claims[uuid] != claim for uuid, claim in _claims(world, UPSTREAM_PORT, servers).items()
            )
            world.balancer.send_to(UPSTREAM_PORT)
        world.roost.stop()
        time.sleep(2 * EVERY_S)
    found |= _judge(world, outcomes)
    now = {server["id"]: server["status"] for server in cloud.servers()}
    found["servers_changed"] = sum(now.get(uuid) != status for uuid, status in servers.items())
    found["audit"], said = gap_tool("nova-manage", "placement", "audit", "--verbose")
    assert "Nothing differs." in found["last_export"], found
    assert (found["claims_differ"], found["servers_changed"]) == (0, 0), found
    assert found["meanwhile"] == {"ACTIVE": len(outcomes)}, found
    assert found["audit"] == 0, (found, said)
    return found


def _fill(world: SwapWorld) -> None:
    """Boot fifty servers: with one NIC and two, hot-plugged, shelved; and make ports of no server."""
    cloud, (one, two) = world.cloud, world.networks
    with ThreadPoolExecutor(4) as pool:
        nets = [[one, two] if number < TWO_NICS else [one] for number in range(SERVERS)]
        outcomes = list(pool.map(lambda number: _boot_on(cloud, f"kept{number}", nets[number]), range(SERVERS)))
    assert all(outcome["status"] == "ACTIVE" for outcome in outcomes), gap.tally(outcomes)
    uuids = [outcome["id"] for outcome in outcomes]
    for uuid in uuids[TWO_NICS : TWO_NICS + HOT_PLUGGED]:
        cloud.nova("POST", f"/servers/{uuid}/os-interface", {"interfaceAttachment": {"net_id": one.network}})
    for uuid in uuids[-SHELVED:]:
        cloud.nova("POST", f"/servers/{uuid}/action", {"shelve": None})
    for uuid in uuids[-SHELVED:]:
        cloud.wait(uuid, gap.still("SHELVED", "SHELVED_OFFLOADED", "ERROR"))
        if cloud.server(uuid)["status"] == "SHELVED":
            cloud.nova("POST", f"/servers/{uuid}/action", {"shelveOffload": None})
            cloud.wait(uuid, gap.still("SHELVED_OFFLOADED", "ERROR"))
    for number, owner in enumerate(("", "", "network:other", "compute:nova", "compute:nova")):
        subnet = list(one.subnets.values())[number % len(one.subnets)]["id"]
        port = {"network_id": one.network, "project_id": cloud.project, "fixed_ips": [{"subnet_id": subnet}]}
        device = {"device_owner": owner, "device_id": f"0000000{number}-0000-4000-8000-000000000000"} if owner else {}
        cloud.neutron("POST", "/ports", {"port": port | device})


def _boot_on(cloud: Any, name: str, networks: list[Any]) -> dict[str, Any]:
    server = {
        "name": name, "imageRef": cloud.image_id, "flavorRef": cloud.flavor_id,
        "networks": [{"uuid": network.network} for network in networks],
    }  # fmt: skip
    uuid = cloud.nova("POST", "/servers", {"server": server})["server"]["id"]
    cloud.watcher.wait([uuid], 300)
    return {**gap.describe(cloud.server(uuid)), "id": uuid}


@contextmanager
def _boots_going_on(world: SwapWorld, name: str) -> Iterator[list[dict[str, Any]]]:
    """Begin a boot every few seconds beside the block; the list is whole after it."""
    outcomes: list[dict[str, Any]] = []
    ended = threading.Event()
    networks = [world.networks[0]]
    with ThreadPoolExecutor(40) as pool:

        def begin() -> None:
            boots = []
            while not ended.is_set():
                boots.append(pool.submit(_boot_on, world.cloud, f"{name}{len(boots)}", networks))
                ended.wait(EVERY_S)
            outcomes.extend(boot.result() for boot in boots)

        beginner = threading.Thread(target=begin)
        beginner.start()
        try:
            yield outcomes
        finally:
            ended.set()
            beginner.join()


@contextmanager
def _standing_still(world: SwapWorld, found: dict[str, Any]) -> Iterator[None]:
    """Hold all requests to Placement back during the block, at whose end they are sent on."""
    began_s = time.monotonic()
    world.balancer.hold()
    yield
    found["stood_still_s"] = round(time.monotonic() - began_s, 1)


def _wait_for_round(world: SwapWorld) -> None:
    """Return once a round has counted the networks; nothing is admitted onto them before."""
    until_s = time.monotonic() + ROUND_S
    while world.roost.metric("roost_neutron_round_age_seconds") is None:
        assert time.monotonic() < until_s, "no round has ended"
        time.sleep(0.2)


def _copy(world: SwapWorld, *words: str) -> str:
    done = world.roost.manage(*words)
    assert done.returncode in (0, 3, 4), (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout.strip()[-300:]


def _claims(world: SwapWorld, port: int, servers: Any) -> dict[str, Any]:
    behind = world.cloud.placement_url
    world.cloud.placement_url = f"http://127.0.0.1:{port}"
    try:
        return books.list_claims(world.cloud, servers)
    finally:
        world.cloud.placement_url = behind


def _judge(world: SwapWorld, outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    statuses = [outcome["status"] for outcome in outcomes]
    return {
        "meanwhile": {status: statuses.count(status) for status in set(statuses)},
        "faults": gap.tally(outcomes)["faults"] if outcomes else {},
        "tries": books.count_tries(world.cloud, outcomes),
    }


def gap_tool(*words: str) -> tuple[int, str]:
    """Run one of Nova's own commands; returns its exit status and what it said."""
    import lifecycle  # type: ignore[import-not-found]

    status, said = lifecycle.tool(*words)
    return status, said


def start_upstream() -> None:
    """Start upstream Placement with an empty ledger."""
    cloud_shell(
        'sql -e "DROP DATABASE IF EXISTS placement; CREATE DATABASE placement CHARACTER SET utf8mb3"; '
        'export OS_PLACEMENT_CONFIG_DIR="$ETC/placement"; '
        '"$VENV/bin/placement-manage" --config-file "$ETC/placement/placement.conf" db sync; '
        '"$INTEROP_SRC/serve.sh" placement; wait_port "$UPSTREAM_PLACEMENT_PORT"'
    )
