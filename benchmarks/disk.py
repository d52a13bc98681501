"""Where measured data lies: what is said of a disk in memory says nothing of one that must keep it."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path("/var/tmp")
"""Where a machine keeps temporary files that outlive a restart: on a disk."""
MEMORY = ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Disk:
    """A mounted file system. device: as the kernel names it, such as /dev/vda."""

    filesystem: str
    device: str
    mount: str

    @property
    def in_memory(self) -> bool:
        """Whether nothing is left of it when the machine loses power."""
        return self.filesystem in MEMORY

    def __str__(self) -> str:
        """As one reads it under a table."""
        return f"{self.filesystem} on {self.device}, mounted at {self.mount}"


def disk_of(path: Path) -> Disk:
    """Return what a file or directory lies on. Source: proc(5), /proc/pid/mountinfo."""
    place = path.resolve()
    mounts = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        filesystem, device = after.split()[:2]
        mount = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])
        if place.is_relative_to(mount):
            mounts.append(Disk(filesystem, device, mount))
    return max(reversed(mounts), key=lambda disk: len(disk.mount))  # of two at one place the later one is seen


class InMemory(Exception):
    """The directory is held in memory."""


@dataclass
class Place:
    """Where this process puts what it measures. may_be_memory: for who looks at results, and not at times."""

    directory: Path = DIRECTORY
    may_be_memory: bool = False


PLACE = Place()


def choose(directory: Path, *, may_be_memory: bool) -> None:
    """Measure there from now on. Raises InMemory."""
    disk = disk_of(directory)
    if disk.in_memory and not may_be_memory:
        raise InMemory(f"{directory} is held in memory ({disk.filesystem}), where fsync costs nothing")
    PLACE.directory, PLACE.may_be_memory = directory, may_be_memory


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yield a directory for a data directory, which is gone afterwards. Raises InMemory."""
    choose(PLACE.directory, may_be_memory=PLACE.may_be_memory)
    with tempfile.TemporaryDirectory(
        prefix="roost-benchmark-", dir=PLACE.directory, ignore_cleanup_errors=True
    ) as name:
        directory = Path(name)
        directory.chmod(0o711)  # PostgreSQL's user passes through
        yield directory
