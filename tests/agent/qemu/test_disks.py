"""Commands about disks, and the ring of a console."""

from pathlib import Path

import pytest

from roost.agent.drivers.qemu.disks import create_command, resize_command
from roost.agent.drivers.qemu.guest import append_ring
from roost.agent.drivers.qemu.moves import BOUND, RATE_LEAST, RATE_MOST, rate_of


def test_the_format_of_a_disk_is_always_stated() -> None:
    assert create_command(Path("/d"), 2) == ["qemu-img", "create", "-q", "-f", "qcow2", "/d", "2G"]
    over = create_command(Path("/d"), 2, image=Path("/i"), image_format="raw")
    assert over == ["qemu-img", "create", "-q", "-f", "qcow2", "-b", "/i", "-F", "raw", "/d", "2G"]
    assert resize_command(Path("/d"), 3) == ["qemu-img", "resize", "-q", "-f", "qcow2", "/d", "3G"]


def test_a_console_is_a_ring(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    for number in range(100):
        append_ring(path, f"{number:09}\n".encode(), 200)
        assert path.stat().st_size <= 200
    assert path.read_text().endswith("000000099\n")
    assert path.stat().st_size >= 100


@pytest.mark.parametrize(
    ("remaining", "rate"),
    [
        (0, RATE_LEAST),
        (BOUND, RATE_LEAST),
        (BOUND + RATE_LEAST + 1, RATE_LEAST + 1),
        (96 << 20, (96 << 20) - BOUND),
        (1 << 50, RATE_MOST),
    ],
)
def test_the_copy_of_memory_slows_down_before_its_end(remaining: int, rate: int) -> None:
    assert rate_of(remaining) == rate
