"""What a run of real hosts leaves behind when it is killed: its mark says so to the next run, which removes it.

A mark is a file with the name of the run's namespaces, locked for as long as the run lives: the kernel unlocks it,
whatever ends the run.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from roost.agent.drivers.programs import find_process, run_program
from roost.agent.drivers.qemu.dhcp import SegmentFiles
from roost.cli.asking.real_network import NAMESPACES, delete_namespace

MARKS = Path("/run/roost")
LOOK_S = 0.05
UNLOCK_S = 30.0
"""How long the processes of a dead run may take to end, which they do by themselves."""


def mark_of(hosts: Path, log: Path, *, temporary: Path | None) -> "Mark":
    """Return the mark of a run; its paths may be relative."""
    whole = None if temporary is None else str(temporary.absolute())
    return Mark(hosts=str(hosts.absolute()), log=str(log.absolute()), temporary=whole)


class Mark(Struct, frozen=True, kw_only=True):
    """What a run has besides namespaces. hosts: the folder of its hosts' states. log: locked while a process lives.

    temporary: the folder that is to go with it; None if its owner chose it.
    """

    hosts: str
    log: str
    temporary: str | None


@contextlib.contextmanager
def marked(prefix: str, mark: Mark, *, folder: Path = MARKS) -> Iterator[None]:
    """Have the run be marked while the block runs, and as long as there are its namespaces. Raises OSError.

    prefix: of the namespaces' names.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{prefix}.json"
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(msgspec.json.encode(mark))
        file.flush()
        new.rename(path)  # locked before anyone finds it
        try:
            yield
        finally:
            if not any(NAMESPACES.glob(f"{prefix}-*")):
                path.unlink()


async def remove_leftovers(*, folder: Path = MARKS) -> list[str]:
    """Remove what runs left behind that live no more; return their prefixes. Raises OSError, ProgramFailed."""
    prefixes = []
    for path in _list_marks(folder):
        with path.open("rb") as file:
            if not _is_unlocked(file):
                continue
            await _remove(path.stem, msgspec.json.decode(file.read(), type=Mark))
            path.unlink()
            prefixes.append(path.stem)
    return prefixes


def _list_marks(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _is_unlocked(file: BinaryIO) -> bool:
    """Lock a file, if nobody else has; return whether that is so."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _remove(prefix: str, mark: Mark) -> None:
    namespaces = sorted(path.name for path in NAMESPACES.glob(f"{prefix}-*"))
    for namespace in namespaces:
        await kill_all(namespace, Path(mark.hosts, namespace.removeprefix(f"{prefix}-")))
    for namespace in namespaces:
        await delete_namespace(namespace)
    await _wait_until_unlocked(Path(mark.log))
    if mark.temporary is not None:
        shutil.rmtree(mark.temporary, ignore_errors=True)


async def _wait_until_unlocked(path: Path) -> None:
    """Wait until nobody has a file locked, or it takes too long."""
    with contextlib.suppress(OSError, TimeoutError), path.open("rb") as file:
        async with asyncio.timeout(UNLOCK_S):
            while not _is_unlocked(file):
                await asyncio.sleep(LOOK_S)


async def kill_all(namespace: str, state: Path) -> None:
    """Kill all that runs on a host, until nothing does. state: of its agent. Raises ProgramFailed."""
    while pids := {*await _list_processes(namespace), *_find_dhcp(state)}:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                group = os.getpgid(pid)
                (os.killpg if group == pid else os.kill)(pid, signal.SIGKILL)  # with the programs that it runs
        await asyncio.sleep(LOOK_S)


async def _list_processes(namespace: str) -> list[int]:
    return [int(pid) for pid in (await run_program("ip", "netns", "pids", namespace)).split()]


def _find_dhcp(state: Path) -> Iterator[int]:
    """Yield the servers of addresses, which are in namespaces of their own."""
    for folder in state.glob("segments/*"):
        files = SegmentFiles(folder)
        pid = find_process(files.pid, "dnsmasq", f"--conf-file={files.configuration}")
        if pid is not None:
            yield pid
