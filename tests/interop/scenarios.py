"""Runs scenarios in the cloud, by its own Python: `python -m tests.interop.scenarios NAME...`.

What each found is in results/scenario-NAME.json, with `pass`. Those of swap.py begin on upstream Placement with a cloud
of their own; the others share one.
"""

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.interop import keystone_roles, processes

RESULTS = Path(os.environ["INTEROP_DIR"]) / "results"
Scenario = Callable[[Any], Any]


def main() -> None:
    """Run those that are named, in the order in which they are known."""
    from tests.interop import boots, faults, steps, swap

    named = sys.argv[1:]  # what is measured may have other arguments
    on_roost: dict[str, Scenario] = {
        "gap": exhaust, "full": fill, "steps": lambda _world: steps.walk("roost"),
        **_named(boots.several_schedulers, boots.service_subnets, boots.anti_affinity, boots.two_nics),
        **_named(
            faults.notifications, faults.database_switched_over, faults.poller_killed, faults.neutron_away,
            faults.right_lost,
        ),
    }  # fmt: skip
    on_upstream = _named(swap.adopted, swap.way_back)
    with tempfile.TemporaryDirectory(prefix="roost-interop-") as directory:
        Path(directory).chmod(0o711)
        for number, (opened, scenarios) in enumerate(((_on_roost, on_roost), (_on_upstream, on_upstream))):
            chosen = {name: scenario for name, scenario in scenarios.items() if name in named}
            if chosen:
                with opened(Path(directory, str(number))) as world:
                    for name, scenario in chosen.items():
                        _run(name, scenario, world)
                    # The next run's ledger is empty: who then deletes a network leaves its host aggregates in Nova.
                    world.fresh()


def exhaust(_world: Any) -> None:
    """Have gap.py boot 48 servers on a network of which one segment is small, in three ways."""
    import gap  # type: ignore[import-not-found]

    gap.exhaust()


def fill(_world: Any) -> None:
    """Have gap.py boot more servers than a network has addresses."""
    import gap

    gap.full()


def _named(*scenarios: Scenario) -> dict[str, Scenario]:
    return {scenario.__name__: scenario for scenario in scenarios}


def _run(name: str, scenario: Scenario, world: Any) -> None:
    began_s = time.monotonic()
    found: dict[str, Any]
    try:
        found = {"pass": True, "said": scenario(world)}
    except (Exception, SystemExit) as error:  # one that fails is a finding
        at = traceback.format_exc().splitlines()[-14:-1]
        found = {"pass": False, "said": f"{type(error).__name__}: {error}"[:3000], "at": at}
    found["seconds"] = round(time.monotonic() - began_s, 1)
    (RESULTS / f"scenario-{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    print("ok  " if found["pass"] else "FAIL", name, json.dumps(found), flush=True)  # noqa: T201


@contextmanager
def _on_roost(directory: Path) -> Iterator[Any]:
    """Run the cloud on a Roost whose ledger is empty."""
    from tests.interop.world import World

    with _cloud_and_database(directory) as database:
        roost = processes.Roost(database, RESULTS / "roost.log")
        try:
            roost.start()
            processes.start_cloud()
            yield World(roost, database)
        finally:
            roost.stop()


@contextmanager
def _on_upstream(directory: Path) -> Iterator[Any]:
    """Run the cloud on upstream Placement behind a balancer, with a Roost that does not run yet beside."""
    from tests.interop.balancer import Balancer
    from tests.interop.swap import UPSTREAM_PORT, SwapWorld, start_upstream

    with _cloud_and_database(directory) as database:
        start_upstream()
        roost = processes.Roost(database, RESULTS / "roost-swapped.log", processes.SECOND_PORT)
        try:
            balancer = Balancer(processes.PLACEMENT_PORT, UPSTREAM_PORT)
            processes.start_cloud()
            yield SwapWorld(roost, database, balancer)
        finally:
            roost.stop()


@contextmanager
def _cloud_and_database(directory: Path) -> Iterator[processes.Database]:
    """Run Keystone with its users, and Roost's database; all of the cloud is stopped afterwards."""
    keystone_roles.write_policy()
    processes.start_keystone()
    keystone_roles.set_roles()
    database = processes.Database(directory)
    try:
        yield database
    finally:
        processes.stop_cloud()
        database.close()


if __name__ == "__main__":
    main()
