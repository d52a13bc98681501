"""How to make flat networks, to evacuate, to get hosts empty and to audit, followed literally on a `roost dev`.

The commands of docs/howto/openstack-clients.md are run in tests/clients/, in one process.
"""

import shutil
from pathlib import Path

import pytest
from tests.cluster import _template
from tests.howto.rehearsal import BLOCK, rehearsal
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "docs" / "howto"
pytestmark = pytest.mark.timeout(600)


def test_flat_networks_evacuations_and_an_audit_are_as_they_are_printed(data_dir: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    shutil.copytree(ROOT / "examples", data_dir / "examples")
    replaced = {"127.0.0.1:8778": address, "/var/lib/roost": "roost"}
    environment = {"ROOST_PG_TEMPLATE": _template(), "OS_CLOUD": "roost"}
    with rehearsal(data_dir, replaced=replaced, **environment) as reader:
        clouds = next(
            text for kind, text in BLOCK.findall((HOWTO / "openstack-clients.md").read_text()) if kind == "yaml"
        )
        (data_dir / "clouds.yaml").write_text(reader.at_home(clouds))
        reader.do(f"roost dev examples/three-racks.yaml --listen {address}")
        reader.follow(HOWTO / "flat-networks.md")
        reader.follow(HOWTO / "evacuate.md")
        reader.follow(HOWTO / "drain.md")
        reader.follow(HOWTO / "audit.md")
        assert "Nothing has drifted." in reader.printed
