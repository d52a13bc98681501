"""Where tests keep what a disk need not: data directories that go with the test.

Whatever a test kills, the kernel stays, and keeps these files as well as it keeps those that no disk has yet.
"""

import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 2 << 30


def roomy_memory() -> Path | None:
    """Where files are held in memory, if there is room for a few servers: a busy disk would double the time."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES else None
