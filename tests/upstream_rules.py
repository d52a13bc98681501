"""The policy rules of Nova, Neutron and Placement, as their own packages have them.

`python -m tests.upstream_rules FOLDER` fetches the packages, without what they need to run.
"""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

FOLDER = Path(sys.prefix) / "upstream-policies"
PACKAGES = ("nova==34.*", "neutron==29.*", "neutron-lib==5.*", "pecan==1.*")
"""Placement is among the packages that tests need anyway. Neutron's rules use neutron-lib, which imports pecan."""

PRINT_RULES = """
import json, sys, types
sys.path.insert(0, sys.argv[1])
neutron = types.ModuleType("neutron")  # Neutron's own would choose how its service runs
neutron.__path__ = [sys.argv[1] + "/neutron"]
sys.modules["neutron"] = neutron
import nova.policies, placement.policies, neutron.conf.policies
modules = {"compute": nova.policies, "placement": placement.policies, "network": neutron.conf.policies}
print(json.dumps({
    service: [{"name": one.name, "check": one.check_str, "scope_types": one.scope_types} for one in module.list_rules()]
    for service, module in modules.items()
}))
"""


class UpstreamRule(Struct, frozen=True):
    """A rule of a package: its check, as oslo.policy reads it, and the scopes that it is for."""

    name: str
    check: str
    scope_types: list[str] | None


def read_rules() -> dict[str, list[UpstreamRule]]:
    """Return the rules of each service: compute, network and placement."""
    command = [sys.executable, "-c", PRINT_RULES, str(FOLDER)]
    printed = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, env={**os.environ, "PYTHONWARNINGS": "ignore"}
    )
    return msgspec.json.decode(printed.stdout, type=dict[str, list[UpstreamRule]])


def main() -> None:
    """Fetch the packages; what cannot be had is said, and the test that wants it is skipped."""
    folder = Path(sys.argv[1]).resolve()
    pip = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-compile",
    )
    if not (folder / "neutron").exists():
        done = subprocess.run([*pip, "--target", str(folder), *PACKAGES], check=False)
        if done.returncode != 0:
            print("the policies of Nova, Neutron and Placement cannot be had from PyPI", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
