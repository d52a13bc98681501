"""How tests run `openstack` on a cluster: with the how-to's clouds.yaml, in one process for each cluster."""

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
    text = block[1].replace("http://127.0.0.1:8778", roost.url)
    file.write_text(text.replace(f"{roost.url}/placement", roost.upstream_url or f"{roost.url}/placement"))
    _clients[file] = _start(file)
    roost.processes.append(_clients[file])
    return file


_clients: dict[Path, subprocess.Popen[str]] = {}


def _start(clouds_file: Path) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    with clouds_file.with_name("openstack.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("openstack_commands.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**environment, "OS_CLIENT_CONFIG_FILE": str(clouds_file), "OS_CLOUD": "roost"},
        )


def openstack(clouds_file: Path, *lines: str) -> list[str]:
    """What the commands print; all must end well."""
    done = run_openstack(clouds_file, lines)
    failed = [one for one in done if one["status"] != 0]
    assert not failed, "\n".join(f"{one['line']}: {one['err']}" for one in failed)
    return [str(one["out"]) for one in done]


def refused(clouds_file: Path, line: str) -> str:
    """What the command, which must end badly, says."""
    [one] = run_openstack(clouds_file, [line])
    assert one["status"] == 1, one
    return str(one["err"])


def run_openstack(clouds_file: Path, lines: Sequence[str]) -> list[dict[str, Any]]:
    """What each of the lines says and prints, and its status."""
    client = _clients[clouds_file]
    assert client.stdin is not None
    assert client.stdout is not None
    print(json.dumps(list(lines)), file=client.stdin, flush=True)
    answer = client.stdout.readline()
    assert answer, clouds_file.with_name("openstack.log").read_text()
    results: list[dict[str, Any]] = json.loads(answer)
    return results
