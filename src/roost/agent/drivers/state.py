"""What every driver keeps in its state directory beside guests: who the agent is, its mark, and the kernel's start.

One agent at a time works with a directory, which is locked while it does.
"""

import errno
import fcntl
import os
import secrets
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from roost.platform.structs import copy_as
from roost.seams.agent import Desired, GuestNic, GuestOrder, ListedGuest, PowerState

SECRET_BYTES = 32
BLOCK_BYTES = 512
"""Source: stat(2), st_blocks."""
KERNEL = Path("/proc/sys/kernel/random/boot_id")
POWER_STATES: Mapping[Desired, PowerState] = {
    "running": "running",
    "stopped": "shutdown",
    "paused": "paused",
    "suspended": "suspended",
}


Listed = TypeVar("Listed", bound=ListedGuest)


class StateInUse(Exception):
    """Another agent works with this state directory."""


class AgentState:
    """A state directory that this agent has locked. mode: its access rights."""

    def __init__(self, directory: Path, *, mode: int = 0o700) -> None:
        """Lock the directory, which is made if it is missing. Raises StateInUse."""
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(mode)
        self._lock_fd = os.open(directory / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock_fd)
            raise StateInUse(f"another agent works with {directory}") from None
        self.instance_id = _read_instance_id(directory / "agent.id")
        self.secret = _read_secret(directory / "agent.secret")

    def read_mark(self) -> str:
        """Return the mark that was kept last; "" for none."""
        path = self.directory / "mark"
        return path.read_text() if path.exists() else ""

    def keep_mark(self, mark: str) -> None:
        """Keep the mark, whole or not at all."""
        write_whole(self.directory / "mark", mark.encode())

    def is_kernel_new(self) -> bool:
        """Return whether the host's kernel was started anew since that was noted last."""
        file = self.directory / "kernel"
        return file.exists() and file.read_text() != self._read_kernel()

    def note_kernel(self) -> None:
        """Note the start of the kernel that the guests run under."""
        file, kernel = self.directory / "kernel", self._read_kernel()
        if not file.exists() or file.read_text() != kernel:
            write_whole(file, kernel.encode())

    def unlock(self) -> None:
        """Let another agent have the directory."""
        os.close(self._lock_fd)

    def _read_kernel(self) -> str:
        stand_in = self.directory / "kernel-now"
        source = stand_in if stand_in.exists() else KERNEL
        return source.read_text().strip() if source.exists() else ""


def describe_guest(order: GuestOrder, kind: type[Listed], *, nics_up: bool = True, **other: Any) -> Listed:
    """Return what there is to say of a guest that is as it was ordered. other: what only its driver knows."""
    return copy_as(
        kind,
        order,
        nics=tuple(
            GuestNic(
                mac_address=port.mac_address,
                addresses=port.addresses,
                up=nics_up,
                port_id=port.port_id,
                network_id=port.network_id,
            )
            for port in order.ports
            if port.mac_address
        ),
        **other,
    )


def write_whole(path: Path, content: bytes) -> None:
    """Write the file whole or not at all, also where the host loses power; on a full disk in the room that it has."""
    new = path.with_suffix(".new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        new.unlink(missing_ok=True)
        if not path.exists() or len(content) > path.stat().st_blocks * BLOCK_BYTES:
            raise
        with path.open("r+b") as file:
            file.write(content.ljust(path.stat().st_size))  # at once: what is read may end in spaces
            file.truncate(len(content))


def _write_kept(path: Path, content: bytes) -> None:
    """Write the file whole, for nobody else to read, so that it is there after a loss of power too."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, content)
        os.fsync(fd)
    finally:
        os.close(fd)
    new.rename(path)
    folder_fd = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)


def _read_instance_id(path: Path) -> str:
    """Return the id in the file, which is made if it is missing; whole or not at all."""
    if not path.exists():
        _write_kept(path, str(uuid.uuid4()).encode())
    return str(uuid.UUID(path.read_text().strip()))


def _read_secret(path: Path) -> str:
    """Return the secret in the file, which is drawn if it is missing."""
    if not path.exists():
        _write_kept(path, secrets.token_urlsafe(SECRET_BYTES).encode())
    return path.read_text().strip()
