"""Holds the promise in a real cloud: an unmodified Nova and Neutron on `roost serve placement --with-neutron`.

INTEROP_DIR names such a cloud, made by the setup.sh of the folder that INTEROP_SRC names, which also has start.sh,
stop.sh, gap.py and lifecycle.py. Roost is started here with an empty ledger, the cloud is started on it, gap.py boots,
steps.py moves, and what they wrote is judged. Everybody logs in, and Neutron has its default policies: users.sh must
have been run before, with the roles "admin service" for the user roost. Exit status 0: every promise is kept;
1: not; 2: there is no such cloud.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOST = [sys.executable, "-c", "from roost.cli.entry import run_roost; run_roost()"]
STEPS = Path(__file__).parent / "steps.py"
START_S = 900
MEASURE_S = 3600
REFUSED_S = 1.0
"""A boot onto a full network is refused in under so long, as its user sees it."""
SCHEDULED_S = 1.0
"""Roost's part of one request for 48 servers."""


def main() -> int:
    """Run it all and print each promise; returns the exit status."""
    source, state = (Path(os.environ.get(name, "")) for name in ("INTEROP_SRC", "INTEROP_DIR"))
    if not (source / "gap.py").is_file() or not (state / "venv").is_dir():
        print("INTEROP_DIR must name a cloud that setup.sh made, INTEROP_SRC the folder of setup.sh.")  # noqa: T201
        return 2
    measured = sys.argv[1:] or ["gap", "steps"]
    results = state / "results"
    results.mkdir(exist_ok=True)
    log = results / "roost.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="roost-interop-") as directory:
        Path(directory).chmod(0o711)
        with _cloud(source, Path(directory), log) as environment:
            if "gap" in measured:
                command: list[str | Path] = [source / "run.sh", "gap.py", "exhaust", "full"]
                subprocess.run(command, env=environment, check=True, timeout=MEASURE_S)
            if "steps" in measured:
                shell = '. "$INTEROP_SRC/env.sh"; exec env PYTHONPATH="$INTEROP_SRC" "$VENV/bin/python" "$0" roost'
                subprocess.run(["bash", "-c", shell, STEPS], env=environment, check=True, timeout=MEASURE_S)
            # The next run's ledger is empty: who then deletes a network leaves its host aggregates in Nova.
            subprocess.run([source / "run.sh", "gap.py", "clean"], env=environment, check=True, timeout=MEASURE_S)
    promises = {}
    if "gap" in measured:
        promises |= _judge_boots(results) | _judge_scheduling(log)
    if "steps" in measured:
        steps = json.loads((results / "lifecycle-roost.json").read_text())["steps"]
        promises |= {f"step {name}": step["pass"] for name, step in steps.items()}
        refusal = steps["full: refuse"]
        promises["steps: refused in time"] = refusal["pass"] and refusal["said"]["said"] < REFUSED_S
    for promise, kept in promises.items():
        print(f"{'kept' if kept else 'BROKEN'}: {promise}")  # noqa: T201
    return 0 if all(promises.values()) else 1


@contextmanager
def _cloud(source: Path, directory: Path, log: Path) -> Iterator[Mapping[str, str]]:
    """Run Roost and the cloud on it; gives the environment of the cloud's programs."""
    base = int(os.environ.get("INTEROP_PORT_BASE", "17000"))
    listen = f"127.0.0.1:{base + 9}"
    named = {"INTEROP_SRC": str(source), "PLACEMENT_URL": f"http://{listen}", "INTEROP_PORT_BASE": str(base)}
    environment = {**os.environ, **named, "PLACEMENT_AUTH": "keystone", "NEUTRON_AUTH": "keystone"}
    settings = {"ROOST_NEUTRON_URL": f"http://127.0.0.1:{base + 2}", "ROOST_PLACEMENT_IMPLIED_ADDRESSES": "true"}
    password = os.environ.get("INTEROP_PASSWORD", "interop")
    keystone = {"AUTH_URL": f"http://127.0.0.1:{base}", "USERNAME": "roost", "PASSWORD": password}
    settings |= {f"ROOST_KEYSTONE_{name}": value for name, value in keystone.items()}
    serve = [
        "serve", "placement", "--with-neutron", "--auth=keystone", f"--listen={listen}", f"--data-dir={directory}",
        f"--log-file={log}", "--log-format=json",
    ]  # fmt: skip
    roost = subprocess.Popen([*ROOST, *serve], stdout=subprocess.PIPE, text=True, env={**os.environ, **settings})
    try:
        assert roost.stdout is not None
        assert roost.stdout.readline(), log.read_text()
        subprocess.run([source / "start.sh"], env=environment, check=True, timeout=START_S)
        yield environment
    finally:
        subprocess.run([source / "stop.sh"], env=environment, check=False, timeout=START_S)
        roost.terminate()
        roost.wait(60)


def _judge_boots(results: Path) -> dict[str, bool]:
    (exhausted,) = (json.loads(file.read_text()) for file in results.glob("exhaust-*-hosts.json"))
    full = json.loads((results / "full.json").read_text())
    promises = {"all refused in time": (full["seconds_to_error"] or {"max": 0.0})["max"] < REFUSED_S}
    for name in ("one_by_one", "eight_at_a_time", "one_request"):
        measured = exhausted[name]
        promises[f"{name}: 48 of 48 are ACTIVE"] = measured["active"] == 48
        promises[f"{name}: no try beyond the 48"] = sum(measured["tried_on"].values()) == 48
        promises[f"{name}: Placement counts what Neutron does"] = _agrees(measured)
    promises["full: tried only where addresses are"] = sum(full["tried_on"].values()) == full["active"]
    return promises


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
    by_request: dict[str, list[dict[str, Any]]] = {}
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "request" and "global_request_id" in event:
            by_request.setdefault(event["global_request_id"], []).append(event)
    longest = max(by_request.values(), key=lambda events: sum(map(_is_claim, events)))
    scheduling = longest[: max(number for number, event in enumerate(longest) if _is_claim(event)) + 1]
    seconds = sum(event["ms"] for event in scheduling) / 1000
    refused = sum(_is_claim(event) and event["status"] == 409 for event in scheduling)
    print(f"one request: {len(scheduling)} calls of the scheduler, {refused} claims refused, {seconds:.3f} s")  # noqa: T201
    return {
        f"one_request: Roost's part of scheduling below {SCHEDULED_S:g} s": seconds < SCHEDULED_S,
        "one_request: fewer than 2 refused claims for each server": refused < 2 * 48,
    }


def _is_claim(event: Mapping[str, Any]) -> bool:
    return event["method"] == "PUT" and event["path"].startswith("/allocations/")


if __name__ == "__main__":
    sys.exit(main())
