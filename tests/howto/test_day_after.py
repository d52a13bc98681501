"""How to go on the day after, followed literally: a lost host, one that is back empty, a restore, a guest that died."""

import shutil
from pathlib import Path

import pytest
from tests.cluster import _template
from tests.howto.rehearsal import BLOCK, rehearsal
from tests.howto.test_operators import HOWTO, ROOT
from tests.ports import free_port

pytestmark = pytest.mark.timeout(600)


def test_the_day_after_is_as_it_is_printed(data_dir: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    shutil.copytree(ROOT / "examples", data_dir / "examples")
    replaced = {
        "roost serve ": f"roost serve --listen {address} --agent-listen 127.0.0.1:{free_port()} ",
        "127.0.0.1:8778": address,
        "/var/lib/roost": "roost-data",
    }
    environment = {"ROOST_PG_TEMPLATE": _template(), "OS_CLOUD": "roost"}
    with rehearsal(data_dir, replaced=replaced, **environment) as reader:
        clouds = next(
            text for kind, text in BLOCK.findall((HOWTO / "openstack-clients.md").read_text()) if kind == "yaml"
        )
        (data_dir / "clouds.yaml").write_text(reader.at_home(clouds))
        reader.follow(HOWTO / "day-after.md")
