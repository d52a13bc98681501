"""The root disks of a host's guests: sparse files, whose format is stated wherever they are named.

A disk is its server's, not its attempt's. In the folder it has a name for each host that has a guest of the server;
hosts that have one folder see each other's. A name is a hard link: the disk goes with its last name, and whoever
deletes one takes it from nobody else.
"""

import asyncio
import contextlib
import fcntl
import os
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.programs import run_program
from roost.agent.drivers.qemu.command import Account, account_command
from roost.agent.drivers.qemu.moves import MeetingPoint
from roost.platform.crash import crash_point
from roost.seams.agent import GuestOrder

FORMAT = "qcow2"
GIB = 1024**3
T = TypeVar("T")


def size_command(verb: str, disk: Path, size_gb: int) -> list[str]:
    """Return what makes an empty disk of that size (`create`), or one as large as that (`resize`)."""
    return ["qemu-img", verb, "-q", "-f", FORMAT, str(disk), f"{size_gb}G"]


def find_folder_lack(folder: Path, account: Account) -> str | None:
    """Return what disks need and no file can have in a folder, and why; None if nothing."""
    lack = "a place"
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".roost-") as file:
            lack = "QEMU's account for its owner"
            os.chown(file.name, account.uid, account.gid)
            lack = "a second name"
            os.link(file.name, f"{file.name}-2")
            os.unlink(f"{file.name}-2")
            lack = "a lock"
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        return f"{lack}: {error.strerror}"
    return None


async def _in_thread(work: Callable[..., T], *arguments: object) -> T:
    """Return what is returned in a thread. Whoever is cancelled waits for its end: it must not write later."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


def _replace(own: Path, path: Path) -> None:
    """Have a name be one of another disk."""
    own.unlink(missing_ok=True)
    own.hardlink_to(path)


class Disks:
    """The folder of the disks. host: whose guests' they are. account: QEMU's.

    It is looked into in threads: where its server has vanished, a look ends once that is back.
    """

    def __init__(self, folder: Path, host: str, account: Account) -> None:
        self._folder, self._host, self._account = folder, host, account

    def path(self, server_id: str, host: str | None = None) -> Path:
        """Return the name that a server's disk has for a host; None for this one."""
        return self._folder / f"{server_id}.{quote(host or self._host, safe='')}.{FORMAT}"

    async def is_awaited(self, order: GuestOrder) -> bool:
        """Return whether a guest can only go on with a disk that is not to be seen from here."""
        if not order.disk_gb or order.disk is None or not order.disk.needed:
            return False
        return await _in_thread(self._find, order) is None

    async def have(self, order: GuestOrder, point: MeetingPoint | None = None) -> bool:
        """Have the disk be what the order says; return whether it was to be seen from here.

        One that was not is sent to the point, if the guest goes on with it; else it is a new one.
        Raises LaunchFailed, OSError.
        """
        if not order.disk_gb:
            return False
        own, path = self.path(order.server_id), await _in_thread(self._find, order)
        if path is not None:
            if path != own:
                await _in_thread(_replace, own, path)
            await self._grow(own, order.disk_gb)
            return True
        half, is_sent = self._half(order.server_id), False
        if point is not None and order.disk is not None and order.disk.needed:
            if order.keeps_disk:
                raise LaunchFailed("the server's root disk is not on this host any more: a rebuild begins it anew")
            is_sent = await point.get(order.key).receive_disk(half)
            await _in_thread(self._give, half)
        await (self._grow if is_sent else self._create)(half, order.disk_gb)
        await _in_thread(self._finish, order.server_id)
        if point is not None:
            point.forget(order.key)
        return False

    def delete(self, server_id: str) -> None:
        """Have no disk of the server for this host."""
        for path in (self.path(server_id), self._half(server_id)):
            path.unlink(missing_ok=True)

    def _find(self, order: GuestOrder) -> Path | None:
        if order.disk is None:
            return None
        path = self.path(order.server_id, order.disk.host)
        if not path.exists():
            self._look_anew()
        return path if path.exists() else None

    def _look_anew(self) -> None:
        """Change the folder, for a client of NFS to see it as it is: it remembers for 30 s what it did not find."""
        seen = self._folder / f".{quote(self._host, safe='')}.look"
        with contextlib.suppress(OSError):
            seen.touch()
            seen.unlink()

    def _half(self, server_id: str) -> Path:
        return self.path(server_id).with_suffix(".new")

    def _finish(self, server_id: str) -> None:
        """Have what was made be the disk, whole or not at all."""
        half = self._half(server_id)
        self._give(half)
        crash_point("disk.before-name")
        half.rename(self.path(server_id))
        crash_point("disk.after-name")

    def _give(self, disk: Path) -> None:
        os.chown(disk, self._account.uid, self._account.gid)

    @staticmethod
    async def _create(disk: Path, size_gb: int) -> None:
        await run_program(*size_command("create", disk, size_gb))

    async def _grow(self, disk: Path, size_gb: int) -> None:
        """Have the disk be at least so large. Its guest may run on another host, where it is as large already.

        A QEMU may have written what other files it consists of, so this is done with no more rights than its own.
        """
        account = account_command(self._account)
        printed = await run_program(*account, "qemu-img", "info", "-U", "-f", FORMAT, "--output=json", str(disk))
        if msgspec.json.decode(printed)["virtual-size"] < size_gb * GIB:
            await run_program(*account, *size_command("resize", disk, size_gb))
