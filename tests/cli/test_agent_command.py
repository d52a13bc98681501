"""What `roost agent` refuses before it asks anybody."""

import pytest
from typer.testing import CliRunner

from roost.cli.main import app

QEMU = ("--bridge", "rack1=br0"), ("--reserve-memory", "512"), ("--accel", "tcg"), ("--disks", "/srv/disks")
FAKE = ("--fake-fail", "always"), ("--fake-disks",), ("--fake-refuse", "running")


@pytest.mark.parametrize(
    ("words", "driver"), [*((words, "qemu") for words in QEMU), *((words, "fake") for words in FAKE)]
)
def test_an_option_of_the_other_driver_is_refused(words: tuple[str, ...], driver: str) -> None:
    other = "fake" if driver == "qemu" else "qemu"
    done = CliRunner().invoke(app, ["agent", "--driver", other, "--host", "h", "--api", "http://127.0.0.1:1", *words])
    assert done.exit_code == 2
    said = " ".join(done.output.replace("│", " ").split())
    assert f"{words[0]}: expected --driver {driver}, of which it is an option" in said
