"""The tutorial, followed literally."""

import shutil
from pathlib import Path

import pytest
from tests.cluster import _template
from tests.howto.rehearsal import rehearsal
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(600)

INSTALLED = {
    "git clone <this repository> roost && cd roost": "what is tested is this tree",
    "python3 -m venv .venv": "the packages are installed already",
    ". .venv/bin/activate": "the programs are on the path",
    "pip install '.[standalone]'": "the packages are installed already",
    "roost demo": "has tests of its own",
}


def test_the_tutorial_is_as_it_is_printed(data_dir: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    shutil.copytree(ROOT / "examples", data_dir / "examples")
    api = f"--api http://{address}"
    replaced = {
        "127.0.0.1:8778": address,
        "roost dev examples/three-racks.yaml": f"roost dev examples/three-racks.yaml --listen {address}",
        "roost status": f"roost status {api}",
        "roost servers": f"roost servers {api}",
        "three-racks.yaml --servers": f"three-racks.yaml --servers {api}",
    }
    with rehearsal(data_dir, replaced=replaced, skipped=INSTALLED, ROOST_PG_TEMPLATE=_template()) as reader:
        reader.follow(ROOT / "docs" / "tutorial" / "first-cloud.md")
