"""Holds the promise in a real cloud: an unmodified Nova and Neutron on `roost serve placement --with-neutron`.

INTEROP_DIR names such a cloud, made by the setup.sh of the folder that INTEROP_SRC names, which also has start.sh,
stop.sh and gap.py. Roost is started here with an empty ledger, the cloud is started on it, gap.py boots, and what it
wrote is judged. Exit status 0: every promise is kept; 1: not; 2: there is no such cloud.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOST = [sys.executable, "-c", "from roost.cli.entry import run_roost; run_roost()"]
START_S = 900
MEASURE_S = 3600
REFUSED_S = 1.5
"""A boot onto a full network is refused in under one second, and the cloud tells of it in half of one."""


def main() -> int:
    """Run it all and print each promise; returns the exit status."""
    source, state = (Path(os.environ.get(name, "")) for name in ("INTEROP_SRC", "INTEROP_DIR"))
    if not (source / "gap.py").is_file() or not (state / "venv").is_dir():
        print("INTEROP_DIR must name a cloud that setup.sh made, INTEROP_SRC the folder of setup.sh.")  # noqa: T201
        return 2
    with tempfile.TemporaryDirectory(prefix="roost-interop-") as directory:
        Path(directory).chmod(0o711)
        return _run(source, state, Path(directory))


def _run(source: Path, state: Path, directory: Path) -> int:
    base = int(os.environ.get("INTEROP_PORT_BASE", "17000"))
    listen = f"127.0.0.1:{base + 9}"
    environment = {**os.environ, "PLACEMENT_URL": f"http://{listen}", "INTEROP_PORT_BASE": str(base)}
    settings = {"ROOST_NEUTRON_URL": f"http://127.0.0.1:{base + 2}", "ROOST_PLACEMENT_IMPLIED_ADDRESSES": "true"}
    serve = ["serve", "placement", "--with-neutron", "--auth=noauth2", f"--listen={listen}", f"--data-dir={directory}"]
    log = (directory / "roost.log").open("w")
    roost = subprocess.Popen(
        [*ROOST, *serve], stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **settings}
    )
    try:
        assert roost.stdout is not None
        if not roost.stdout.readline():
            print((directory / "roost.log").read_text())  # noqa: T201
            return 1
        subprocess.run([source / "start.sh"], env=environment, check=True, timeout=START_S)
        subprocess.run([source / "run.sh", "gap.py", "exhaust", "full"], env=environment, check=True, timeout=MEASURE_S)
    finally:
        subprocess.run([source / "stop.sh"], env=environment, check=False, timeout=START_S)
        roost.terminate()
        roost.wait(60)
        log.close()
    return _judge(state / "results")


def _judge(results: Path) -> int:
    (exhausted,) = (json.loads(file.read_text()) for file in results.glob("exhaust-*-hosts.json"))
    full = json.loads((results / "full.json").read_text())
    promises = {"all refused in time": (full["seconds_to_error"] or {"max": 0.0})["max"] < REFUSED_S}
    for name in ("one_by_one", "eight_at_a_time", "one_request"):
        measured = exhausted[name]
        promises[f"{name}: 48 of 48 are ACTIVE"] = measured["active"] == 48
        promises[f"{name}: no try beyond the 48"] = sum(measured["tried_on"].values()) == 48
        promises[f"{name}: Placement counts what Neutron does"] = _agrees(measured)
    promises["full: tried only where addresses are"] = sum(full["tried_on"].values()) == full["active"]
    for promise, kept in promises.items():
        print(f"{'kept' if kept else 'BROKEN'}: {promise}")  # noqa: T201
    return 0 if all(promises.values()) else 1


def _agrees(measured: Mapping[str, Any]) -> bool:
    """Whether both count the same addresses of every segment; Neutron counts no gateway without a port."""
    return all(
        measured["placement_after"][segment]["used"] == counted["used"]
        for segment, counted in measured["neutron_after"].items()
    )


if __name__ == "__main__":
    sys.exit(main())
