"""docs/upgrade/agents.md, followed literally: agents of version 1, 2 and 3, and back, with servers of each order."""

from pathlib import Path

import pytest
from tests.cluster import QUICK, _template
from tests.howto.rehearsal import BLOCK, rehearsal
from tests.ports import free_port
from tests.upgrade.kept import ROOT

DOCUMENT = ROOT / "docs" / "upgrade" / "agents.md"
CLIENTS = ROOT / "docs" / "howto" / "openstack-clients.md"
# tests/faults/test_rolling_agents.py has a fleet upgraded in each run.
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


def test_agents_are_replaced_there_and_back_as_it_is_printed(data_dir: Path) -> None:
    replaced = {"127.0.0.1:8778": f"127.0.0.1:{free_port()}", "/var/lib/roost": "roost"}
    environment = {**QUICK, "ROOST_PG_TEMPLATE": _template(), "OS_CLOUD": "roost"}
    with rehearsal(data_dir, replaced=replaced, **environment) as reader:
        clouds = next(text for kind, text in BLOCK.findall(CLIENTS.read_text()) if kind == "yaml")
        (data_dir / "clouds.yaml").write_text(reader.at_home(clouds))
        reader.follow(DOCUMENT)
        assert reader.printed.split() == ["mine"], "ports that were made went with their servers"
