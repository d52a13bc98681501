"""How tests run `openstack` on a cluster: with the how-to's clouds.yaml, in a process of its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster import Cluster

ROOT = Path(__file__).parents[2]
HOWTO = (ROOT / "docs" / "howto" / "openstack-clients.md").read_text()


def write_clouds_file(roost: Cluster) -> Path:
    """The how-to's clouds.yaml, with the cluster's address."""
    block = re.search(r"```yaml\n(.*?)```", HOWTO, re.DOTALL)
    assert block is not None
    file = roost.directory / "clouds.yaml"
    file.write_text(block[1].replace("http://127.0.0.1:8778", roost.url))
    return file


def run_openstack(clouds_file: Path, lines: Sequence[str]) -> list[dict[str, Any]]:
    """What each of the lines says and prints, and its status."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("openstack_commands.py"))],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        timeout=240,
        env={**environment, "OS_CLIENT_CONFIG_FILE": str(clouds_file), "OS_CLOUD": "roost"},
    )
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results
