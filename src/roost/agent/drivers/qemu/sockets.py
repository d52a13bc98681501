"""Connecting to what QEMU listens at, in a folder that its account can write.

A guest that has broken out of its QEMU may put a link there, to a socket that only root reaches.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def socket_name(path: Path) -> Iterator[str]:
    """Give a name under which the socket itself is connected to, whatever takes its place meanwhile.

    Raises OSError, also where a link or anything else is in its place.
    """
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise OSError(f"{path} is no socket")
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
