"""The root disks of guests: sparse files of their own, whose format is stated wherever they are named."""

import os
from pathlib import Path

import msgspec

from roost.agent.drivers.programs import run_program
from roost.agent.drivers.qemu.command import Account

FORMAT = "qcow2"
GIB = 1024**3


def create_command(disk: Path, size_gb: int, *, image: Path | None = None, image_format: str = "raw") -> list[str]:
    """Return what makes a disk, over an image or empty."""
    backing = [] if image is None else ["-b", str(image), "-F", image_format]
    return ["qemu-img", "create", "-q", "-f", FORMAT, *backing, str(disk), f"{size_gb}G"]


def resize_command(disk: Path, size_gb: int) -> list[str]:
    """Return what makes a disk as large as that, if its guest does not run."""
    return ["qemu-img", "resize", "-q", "-f", FORMAT, str(disk), f"{size_gb}G"]


async def ensure_disk(disk: Path, size_gb: int, account: Account | None) -> None:
    """Have a disk of that size; one that is there is kept, and only grows. Raises ProgramFailed."""
    if size_gb == 0:
        return
    if not disk.exists():
        half = disk.with_suffix(".new")
        await run_program(*create_command(half, size_gb))
        if account is not None:
            os.chown(half, account.uid, account.gid)
        half.rename(disk)
        return
    printed = await run_program("qemu-img", "info", "-f", FORMAT, "--output=json", str(disk))
    if msgspec.json.decode(printed)["virtual-size"] < size_gb * GIB:
        await run_program(*resize_command(disk, size_gb))
