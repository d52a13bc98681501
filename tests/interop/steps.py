"""The 33 steps of a cloud's lifecycle.py, and moves while no address is free; after each, Placement and Neutron agree.

What was found is in results/lifecycle-NAME.json.
"""

import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import gap  # type: ignore[import-not-found]
import lifecycle  # type: ignore[import-not-found]
from tests.interop import books

NICS = 5

Step = Callable[[Any], Any]


def walk(name: str) -> None:
    """Walk through all steps."""
    steps = [
        *lifecycle.STEPS,
        *_named("hot_plug", lifecycle.routed_network, lifecycle.plain_network, hot_plug_nics, *LAST),
        *_named("full", fill_network, lifecycle.plain_network, refuse, *MOVES, *LAST),
        *_named("one_segment_full", fill_network_of_one_segment, lifecycle.plain_network, *MOVES, *LAST),
    ]
    lifecycle.STEPS[:] = [_agreeing(step) for step in steps]
    sys.argv[1:] = [name]
    lifecycle.main()


def hot_plug_nics(w: Any) -> float:
    """Five NICs are plugged into a running server, and counted within a poll."""
    uuid = w.make("plugged", network=w.net.network)
    for _ in range(NICS):
        body = {"interfaceAttachment": {"net_id": w.net.network}}
        w.cloud.nova("POST", f"/servers/{uuid}/os-interface", body)
    assert len(w.cloud.neutron("GET", f"/ports?device_id={uuid}")["ports"]) == NICS + 1
    return books.agree(w.cloud)


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
    books.agree(w.cloud)
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
    books.agree(w.cloud)
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
        return {"said": said, "agreed_after_s": books.agree(w.cloud)}

    return agreeing
