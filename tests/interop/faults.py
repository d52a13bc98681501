"""Scenarios of what Roost needs going away, and of how soon it hears: PostgreSQL, Neutron, a worker, a right."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import gap  # type: ignore[import-not-found]
from tests.interop import books, keystone_roles
from tests.interop.processes import AMQP_URL, SECOND_PORT, Roost, cloud_shell, kill, until
from tests.interop.world import World

LARGE = ["10.50.1.0/26", "10.50.2.0/26", "10.50.3.0/26"]
HEARD_S = 5.0
"""A round begins at most 1 s after a notification; the rest is what Neutron and six computes take on two busy cores."""
HOLDER = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = 5931046453580398595 >> 32"
    " AND objid = 5931046453580398595 & 4294967295"
)
"""The session of the process that polls (placement.lock_poll)."""
SWITCH_OVER_S = 10
NEUTRON_AWAY_S = 60


def notifications(world: World) -> dict[str, Any]:
    """With `amqp_url` NICs that are plugged and unplugged are counted at once, though a poll is far away."""
    cloud = world.fresh()
    network = cloud.routed_network(LARGE)
    world.agree()
    server = gap.boot_one(cloud, "plugged", network=network.network)
    world.restart_roost(ROOST_NEUTRON_AMQP_URL=AMQP_URL, ROOST_NEUTRON_POLL_S="300", ROOST_NEUTRON_FULL_S="300")
    try:
        world.agree()
        plugged, unplugged = [], []
        for _ in range(3):
            body = {"interfaceAttachment": {"net_id": network.network}}
            port = cloud.nova("POST", f"/servers/{server['id']}/os-interface", body)["interfaceAttachment"]["port_id"]
            plugged.append(world.agree())
            cloud.nova("DELETE", f"/servers/{server['id']}/os-interface/{port}")
            for _ in until("the port is gone", 30):
                if not cloud.neutron("GET", f"/ports?id={port}")["ports"]:
                    break
            unplugged.append(world.agree())
    finally:
        world.restart_roost()
    found = {"plugged_s": plugged, "unplugged_s": unplugged}
    assert max(*plugged, *unplugged) <= HEARD_S, found
    return found


def database_switched_over(world: World) -> dict[str, Any]:
    """Of twenty boots that begin while PostgreSQL is away for 10 s none fails."""
    cloud = world.fresh()
    network = cloud.routed_network(LARGE).network
    world.agree()
    with ThreadPoolExecutor(20) as pool:
        world.database.stop()
        away_s = time.monotonic()
        boots = []
        for number in range(20):
            boots.append(pool.submit(_boot, cloud, f"away{number}", network))
            time.sleep(SWITCH_OVER_S / 25)
        time.sleep(max(0.0, SWITCH_OVER_S - (time.monotonic() - away_s)))
        world.database.start()
        away_s = time.monotonic() - away_s
        outcomes = [boot.result() for boot in boots]
    found = {"away_s": round(away_s, 1), **_tally(outcomes), "agreed_after_s": world.agree(30)}
    found["tries"] = books.count_tries(cloud, outcomes)
    assert (found["active"], found["tries"]) == (20, 20), found
    return found


def poller_killed(world: World) -> dict[str, Any]:
    """Of two servers each one's polling worker is killed: another polls, and boots go on."""
    cloud = world.fresh()
    network = cloud.routed_network(LARGE).network
    world.agree()
    second = Roost(world.database, world.roost.log, SECOND_PORT)
    second.start()
    ages: list[float] = []
    holders = [world.database.ask(HOLDER)]
    try:
        with _repeated(lambda: ages.append(second.metric("roost_neutron_round_age_seconds") or 0.0), every_s=1):
            with ThreadPoolExecutor(1) as pool:
                boots = pool.submit(gap.boot_many, cloud, "killed", 12, 2, network=network)
                for _ in range(3):
                    holders.append(_kill_poller(world, (world.roost, second)))
                    time.sleep(5)
                outcomes, _ = boots.result()
    finally:
        second.stop()
    found = {"oldest_round_s": round(max(ages), 1), "pollers": len(set(holders)), **_tally(outcomes)}
    found["agreed_after_s"] = world.agree()
    assert found["oldest_round_s"] < 15, found
    assert found["active"] == 12, found
    return found


def _kill_poller(world: World, servers: Sequence[Roost]) -> str:
    """Kill workers one after another until another session polls; returns that one."""
    before = world.database.ask(HOLDER)
    for server in servers:
        kill(server.worker())
        with suppress(AssertionError):
            for _ in until("another process polls", 8):
                if (holder := world.database.ask(HOLDER)) and holder != before:
                    return holder
    raise AssertionError(f"session {before} polls still")


def neutron_away(world: World) -> dict[str, Any]:
    """While Neutron is away for a minute no claim is lost; one poll later the books agree and servers boot."""
    cloud = world.fresh()
    network = cloud.routed_network(LARGE).network
    world.agree()
    servers = [outcome["id"] for outcome in gap.boot_many(cloud, "before", 8, 4, network=network)[0]]
    claims, began_s = books.list_claims(cloud, servers), time.monotonic()
    cloud_shell("halt neutron")
    try:
        during = [_boot(cloud, f"during{number}", network, limit_s=20) for number in range(2)]
        while time.monotonic() - began_s < NEUTRON_AWAY_S:
            assert books.list_claims(cloud, servers) == claims
            time.sleep(5)
    finally:
        cloud_shell(
            '"$INTEROP_SRC/serve.sh" neutron; wait_port "$NEUTRON_PORT" 120; curl -s -o /dev/null $NEUTRON_URL/'
        )
    agreed_s = world.agree(20)
    assert books.list_claims(cloud, servers) == claims
    outcomes, _ = gap.boot_many(cloud, "after", 3, 1, network=network)
    found = {"during": [outcome["status"] for outcome in during], "agreed_after_s": agreed_s, **_tally(outcomes)}
    found["agreed_at_last_s"] = world.agree()
    assert found["active"] == 3, found
    return found


def right_lost(world: World) -> dict[str, Any]:
    """A user that may no longer see all gives no claim back, and says so; with its right again the books agree."""
    cloud = world.fresh()
    network = cloud.routed_network(LARGE)
    world.agree()
    server, other = (gap.boot_one(cloud, name, network=network.network)["id"] for name in ("one", "two"))
    body = {"interfaceAttachment": {"net_id": network.network}}
    for _ in range(3):
        cloud.nova("POST", f"/servers/{server}/os-interface", body)
    world.agree()
    before = _used(world, network)
    found: dict[str, Any] = {"used": before}
    often = {"ROOST_NEUTRON_FULL_S": "5", "ROOST_NEUTRON_CLAIM_GRACE_S": "1"}
    world.restart_roost(**often)
    try:
        world.agree()
        for roles in (["reader", "service"], ["service"]):  # without `service` it may validate no token
            keystone_roles.set_roles(roles)
            keystone_roles.write_policy(granted=False)
            world.restart_roost(**often)  # with another token: Neutron believes one that it has seen for five minutes
            time.sleep(25)
            name = "+".join(roles) or "none"
            found[name] = {
                "used": _used(world, network), "readyz": world.roost.get("/readyz")[:300],
                "round_age_s": world.roost.metric("roost_neutron_round_age_seconds"),
            }  # fmt: skip
            assert found[name]["used"] == before, found
            assert (found[name]["round_age_s"] or 0) > 10 or "eutron" in found[name]["readyz"], found
            keystone_roles.set_roles()
            keystone_roles.write_policy()
            found[f"after {name}: agreed_after_s"] = world.agree(30)
        cloud.nova("DELETE", f"/servers/{other}")
        found["given_back_after_s"] = world.agree(30)
    finally:
        keystone_roles.set_roles()
        keystone_roles.write_policy()
        world.restart_roost()
    return found


def _used(world: World, network: Any) -> dict[str, int]:
    return {name: view["used"] for name, view in network.placement_view().items()}


def _boot(cloud: Any, name: str, network: str, limit_s: float = 240) -> dict[str, Any]:
    """Boot a server; one that Nova refused has the status REFUSED, one that waits on has BUILD."""
    try:
        uuid = cloud.boot(name, network=network)["id"]
    except (gap.Failed, gap.requests.RequestException) as error:
        return {"status": "REFUSED", "host": None, "fault": str(error)[:200]}
    cloud.watcher.wait([uuid], limit_s)
    return {**gap.describe(cloud.server(uuid)), "id": uuid}


def _tally(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    tally = gap.tally(outcomes)
    return {"active": tally["active"], "error": tally["error"], "faults": tally["faults"]}


@contextmanager
def _repeated(action: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Do it over and over beside the block; what one time raises is left to the next."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every_s):
            try:
                action()
            except OSError:
                continue

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
