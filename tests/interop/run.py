"""Holds the promise in a real cloud: an unmodified Nova and Neutron on `roost serve placement --with-neutron`.

INTEROP_DIR names such a cloud, made by the setup.sh of the folder that INTEROP_SRC names, which also has start.sh,
stop.sh, gap.py and lifecycle.py. Everybody logs in to Keystone, and Neutron has its own default policies; INTEROP_ROLES
are the roles of Roost's user. The cloud's own Python runs scenarios.py: gap.py boots, steps.py moves, and others.
What they wrote is judged. Exit status 0: every promise is kept; 1: not; 2: there is no such cloud.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCENARIOS = (
    "gap", "full", "steps", "several_schedulers", "service_subnets", "anti_affinity", "two_nics", "notifications",
    "database_switched_over", "poller_killed", "neutron_away", "right_lost", "adopted", "way_back",
)  # fmt: skip
RUN_S = 3 * 3600
REFUSED_S = 1.0
"""A boot onto a full network is refused in under so long, as its user sees it."""
SCHEDULED_S = 1.0
"""Roost's part of one request for 48 servers."""


def main() -> int:
    """Run the scenarios that are named, or all, and print each promise; returns the exit status."""
    source, state = (Path(os.environ.get(name, "")) for name in ("INTEROP_SRC", "INTEROP_DIR"))
    if not (source / "gap.py").is_file() or not (state / "venv").is_dir():
        print("INTEROP_DIR must name a cloud that setup.sh made, INTEROP_SRC the folder of setup.sh.")  # noqa: T201
        return 2
    names = sys.argv[1:] or SCENARIOS
    if unknown := sorted(set(names).difference(SCENARIOS)):
        print(f"{', '.join(unknown)}: expected some of {', '.join(SCENARIOS)}.")  # noqa: T201
        return 2
    results = state / "results"
    results.mkdir(exist_ok=True)
    for old in (*results.glob("roost*.log"), *results.glob("scenario-*.json")):
        old.unlink()
    _run(source, names)
    promises: dict[str, bool] = {}
    for name in names:
        file = results / f"scenario-{name}.json"
        found = json.loads(file.read_text()) if file.exists() else {"pass": False, "said": "it did not run"}
        promises[f"{name}: {found['said']}"] = found["pass"]
    if "gap" in names:
        promises |= _judge_boots(results) | _judge_scheduling(results / "roost.log")
    if "full" in names:
        promises |= _judge_full(results)
    if "steps" in names:
        promises |= _judge_steps(results)
    for promise, kept in promises.items():
        print(f"{'kept' if kept else 'BROKEN'}: {promise}")  # noqa: T201
    return 0 if all(promises.values()) else 1


def _run(source: Path, names: Sequence[str]) -> None:
    """Run the scenarios by the cloud's Python; one that was cut off leaves no result."""
    port = int(os.environ.get("INTEROP_PORT_BASE", "17000"))
    environment = {
        "INTEROP_SRC": str(source), "INTEROP_PORT_BASE": str(port), "PLACEMENT_URL": f"http://127.0.0.1:{port + 9}",
        "PLACEMENT_AUTH": "keystone", "NEUTRON_AUTH": "keystone", "NEUTRON_NOTIFY": "messagingv2",
        "INTEROP_ROOST_PYTHON": sys.executable,
        "PYTHONPATH": f"{source}:{ROOT}",
    }  # fmt: skip
    shell = '. "$INTEROP_SRC/env.sh"; exec "$VENV/bin/python" -m tests.interop.scenarios "$@"'
    command = ["bash", "-c", shell, "scenarios", *names]
    subprocess.run(command, env={**os.environ, **environment}, check=False, timeout=RUN_S)


def _judge_steps(results: Path) -> dict[str, bool]:
    file = results / "lifecycle-roost.json"
    steps = json.loads(file.read_text())["steps"]
    promises = {f"step {name}": step["pass"] for name, step in steps.items()}
    refusal = steps["full: refuse"]
    promises["steps: refused in time"] = refusal["pass"] and refusal["said"]["said"] < REFUSED_S
    return promises


def _judge_boots(results: Path) -> dict[str, bool]:
    (exhausted,) = (json.loads(file.read_text()) for file in results.glob("exhaust-*-hosts.json"))
    promises: dict[str, bool] = {}
    for name in ("one_by_one", "eight_at_a_time", "one_request"):
        measured = exhausted[name]
        promises[f"{name}: 48 of 48 are ACTIVE"] = measured["active"] == 48
        promises[f"{name}: no try beyond the 48"] = sum(measured["tried_on"].values()) == 48
        promises[f"{name}: Placement counts what Neutron does"] = _agrees(measured)
    return promises


def _judge_full(results: Path) -> dict[str, bool]:
    full = json.loads((results / "full.json").read_text())
    refused_s = full["seconds_to_error"] or {"median": 0.0, "max": 0.0}
    print(f"full: {full['active']} ACTIVE, {full['error']} refused after {refused_s} s")  # noqa: T201
    return {
        "full: all refused in time": refused_s["max"] < REFUSED_S,
        "full: tried only where addresses are": sum(full["tried_on"].values()) == full["active"],
    }


def _agrees(measured: Mapping[str, Any]) -> bool:
    """Whether both count the same addresses of every segment; Neutron counts no gateway without a port."""
    return all(
        measured["placement_after"][segment]["used"] == counted["used"]
        for segment, counted in measured["neutron_after"].items()
    )


def _judge_scheduling(log: Path) -> dict[str, bool]:
    """Judge Roost's part of the request with the most claims: the one for 48 servers.

    All that Nova asks for a request bears one global request id. The scheduler is done with its last claim; what the
    computes ask while they build comes afterwards.
    """
    by_request = _read_requests(log)
    _print_refusals(by_request.values())
    longest = max(by_request.values(), key=lambda events: sum(map(_is_claim, events)))
    scheduling = longest[: max(number for number, event in enumerate(longest) if _is_claim(event)) + 1]
    seconds = sum(event["ms"] for event in scheduling) / 1000
    refused = sum(_is_claim(event) and event["status"] == 409 for event in scheduling)
    print(f"one request: {len(scheduling)} calls of the scheduler, {refused} claims refused, {seconds:.3f} s")  # noqa: T201
    return {
        f"one_request: Roost's part of scheduling below {SCHEDULED_S:g} s": seconds < SCHEDULED_S,
        "one_request: fewer than 2 refused claims for each server": refused < 2 * 48,
    }


def _read_requests(log: Path) -> dict[str, list[dict[str, Any]]]:
    """Return global request id -> what was asked of Roost for it, in the order of the answers."""
    by_request: dict[str, list[dict[str, Any]]] = {}
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "request" and "global_request_id" in event:
            by_request.setdefault(event["global_request_id"], []).append(event)
    return by_request


def _print_refusals(requests: Iterable[Sequence[Mapping[str, Any]]]) -> None:
    """Print Roost's part of boots that were refused by their search: all else of their time is Nova's."""
    seconds = [
        sum(event["ms"] for event in events) / 1000
        for events in requests
        if any(event["path"].startswith("/allocation_candidates") for event in events)
        and not any(map(_is_claim, events))
    ]
    if seconds:
        print(f"refused: {len(seconds)} boots, Roost's part is at most {max(seconds):.3f} s")  # noqa: T201


def _is_claim(event: Mapping[str, Any]) -> bool:
    return event["method"] == "PUT" and event["path"].startswith("/allocations/")


if __name__ == "__main__":
    sys.exit(main())
