"""The 33 steps of a cloud's lifecycle.py, and moves while no address is free; after each, Placement and Neutron agree.

To agree is, of each segment and within a poll: as many addresses are used in Placement as servers' ports have, and as
many are free as Neutron could still give. Run it by the cloud's own Python with lifecycle.py on the path, and with the
settings of its env.sh, as run.py does: steps.py NAME; what was found is in results/lifecycle-NAME.json.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from ipaddress import ip_address
from typing import Any

import gap  # type: ignore[import-not-found]
import lifecycle  # type: ignore[import-not-found]

AGREES_S = 8.0
"""`[neutron] poll_s`, a round, and what the cloud's own background work takes beside six computes on two cores."""
NICS = 5

Step = Callable[[Any], Any]


def main() -> None:
    """Walk through all steps."""
    steps = [
        *lifecycle.STEPS,
        *_named("hot_plug", lifecycle.routed_network, lifecycle.plain_network, hot_plug_nics, *LAST),
        *_named("full", fill_network, lifecycle.plain_network, refuse, *MOVES, *LAST),
        *_named("one_segment_full", fill_network_of_one_segment, lifecycle.plain_network, *MOVES, *LAST),
    ]
    lifecycle.STEPS[:] = [_agreeing(step) for step in steps]
    lifecycle.main()


def hot_plug_nics(w: Any) -> float:
    """Five NICs are plugged into a running server, and counted within a poll."""
    uuid = w.make("plugged", network=w.net.network)
    for _ in range(NICS):
        body = {"interfaceAttachment": {"net_id": w.net.network}}
        w.cloud.nova("POST", f"/servers/{uuid}/os-interface", body)
    assert len(w.cloud.neutron("GET", f"/ports?device_id={uuid}")["ports"]) == NICS + 1
    return _agree(w)


def fill_network(w: Any) -> None:
    """A network of three segments, and a server on each of its addresses."""
    _fill(w, ["10.30.1.0/29", "10.30.2.0/29", "10.30.3.0/29"])


def fill_network_of_one_segment(w: Any) -> None:
    """A network of one segment, and a server on each of its addresses."""
    _fill(w, ["10.31.1.0/29"])


def refuse(w: Any) -> float:
    """A boot onto it ends without a try; returns after how many seconds."""
    outcome = gap.boot_one(w.cloud, "refused", network=w.net.network)
    tried = gap.scheduled(w.cloud, [outcome])
    w.cloud.delete_servers("refused")
    assert outcome["status"] == "ERROR", outcome
    assert not tried, tried
    return round(outcome["seconds"], 2)


def _fill(w: Any, cidrs: list[str]) -> None:
    w.net = w.cloud.routed_network(cidrs)
    _agree(w)
    outcomes, _ = gap.boot_multi(w.cloud, "full", NICS * len(cidrs), network=w.net.network)
    assert all(outcome["status"] == "ACTIVE" for outcome in outcomes), outcomes
    # lifecycle.py moves servers by these names.
    w.ids = {name: outcome["id"] for name, outcome in zip(("routed", "plain", "port", "two"), outcomes, strict=False)}
    w.spare = outcomes[4]["id"]


def make_room(w: Any) -> None:
    """Delete one server, for the one that is evacuated next is another."""
    w.cloud.nova("DELETE", f"/servers/{w.spare}")
    while any(server["id"] == w.spare for server in w.cloud.servers()):
        time.sleep(0.5)


def delete_all_servers(w: Any) -> None:
    """No claim is left of deleted servers; those of their ports go with the next poll."""
    w.cloud.delete_servers()
    _agree(w)
    lifecycle.delete_all_servers(w)


MOVES: tuple[Step, ...] = (
    lifecycle.resize_confirm, lifecycle.resize_revert, lifecycle.cold_migrate, lifecycle.live_migrate,
    lifecycle.shelve_unshelve, make_room, lifecycle.evacuate,
)  # fmt: skip
LAST: tuple[Step, ...] = (delete_all_servers, lifecycle.network_deleted)


def _named(prefix: str, *steps: Step) -> list[Step]:
    """Return the steps under names of their own, for lifecycle.py keeps what it found by name."""

    def again(step: Step) -> Step:
        def run(w: Any) -> Any:
            return step(w)

        run.__name__ = f"{prefix}: {step.__name__}"
        return run

    return [again(step) for step in steps]


def _agreeing(step: Step) -> Step:
    @wraps(step)
    def agreeing(w: Any) -> Any:
        said = step(w)
        return {"said": said, "agreed_after_s": _agree(w)}

    return agreeing


def _agree(w: Any) -> float:
    """Wait until both agree of every segment; returns the seconds. Raises AssertionError when they do not in time."""
    began_s = time.monotonic()
    while True:
        neutron, placement = _neutron(w.cloud), {}
        for segment in neutron:
            placement[segment] = _placement(w.cloud, segment)
        waited_s = time.monotonic() - began_s
        if neutron == placement:
            return round(waited_s, 1)
        assert waited_s < AGREES_S, f"(used, free) by segment: Neutron {neutron}, Placement {placement}"
        time.sleep(0.25)


def _neutron(cloud: Any) -> dict[str, tuple[int, int]]:
    """Return segment -> (addresses of servers, free ones)."""
    listed = cloud.neutron("GET", "/subnets?ip_version=4")["subnets"]
    subnets = {subnet["id"]: subnet["segment_id"] for subnet in listed if subnet["segment_id"]}
    used, free = Counter(dict.fromkeys(subnets.values(), 0)), Counter[str]()
    # Neutron's own count of an availability takes addresses outside of the pools for used ones of them.
    pools = {subnet["id"]: _addresses(subnet["allocation_pools"]) for subnet in listed if subnet["id"] in subnets}
    for port in cloud.neutron("GET", "/ports")["ports"]:
        ips = [ip for ip in port["fixed_ips"] if ip["subnet_id"] in subnets]
        if port["device_owner"].startswith("compute:"):
            used.update(subnets[ip["subnet_id"]] for ip in ips)
        for ip in ips:
            pools[ip["subnet_id"]].discard(int(ip_address(ip["ip_address"])))
    for subnet_id, addresses in pools.items():
        free[subnets[subnet_id]] += len(addresses)
    return {segment: (amount, free[segment]) for segment, amount in used.items()}


def _addresses(pools: list[dict[str, str]]) -> set[int]:
    spans = [(int(ip_address(pool["start"])), int(ip_address(pool["end"]))) for pool in pools]
    return {address for first, last in spans for address in range(first, last + 1)}


def _placement(cloud: Any, segment: str) -> tuple[int, int] | None:
    """Return the same of a segment's provider; None without one."""
    path = f"/resource_providers/{segment}"
    try:
        inventories: Mapping[str, Any] = cloud.placement("GET", f"{path}/inventories")["inventories"]
        used = cloud.placement("GET", f"{path}/usages")["usages"].get("IPV4_ADDRESS", 0)
    except gap.Failed:
        return None
    inventory = inventories.get("IPV4_ADDRESS")
    return None if inventory is None else (used, inventory["total"] - inventory["reserved"] - used)


if __name__ == "__main__":
    main()
