"""What a guest is, whatever was written of it: a new agent finds it so, and it is looked after while it is here."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.programs import ProgramFailed
from roost.agent.drivers.qemu.command import GuestFiles
from roost.agent.drivers.qemu.guest import Guest, GuestMeta, OnChange
from roost.agent.drivers.qemu.nics import plan_nics
from roost.agent.drivers.qemu.plugs import replug
from roost.agent.drivers.qemu.qmp import QmpError
from roost.agent.drivers.qemu.sending import end_leftovers
from roost.platform.errors import reason_of
from roost.seams.agent import NICS_UP, Desired

UNKNOWN = "unknown"
WITHOUT_MEMORY = ("", "inmigrate")
"""What is said of a guest whose memory has not come: nobody sends it any more."""
HALTED = ("paused", "prelaunch", "postmigrate", "finish-migrate", "save-vm")
"""What QEMU says of a guest that an agent halted: by itself one halts for an error."""

UPKEEP_S = 2.0
SETTLE_MOST_S = 60.0
"""Before a guest's NICs are looked at again, at most: it may never let one go."""

log = structlog.get_logger()


def read_guest(files: GuestFiles, bridges: Mapping[str, str], on_change: OnChange) -> Guest | None:
    """Return a guest whose folder is there, as it was written; None where nothing was made in it, and it is deleted.

    Raises ProgramFailed where what is known of it cannot be read, or this host reaches its networks no longer.
    """
    if not files.meta.exists():
        shutil.rmtree(files.folder)
        return None
    try:
        meta = msgspec.json.decode(files.meta.read_bytes(), type=GuestMeta)
        guest = Guest(meta, files, plan_nics(meta.order, bridges), on_change)
    except (LaunchFailed, OSError, msgspec.MsgspecError) as error:
        why = error if isinstance(error, LaunchFailed) else f"{files.meta} cannot be read: {reason_of(error)}"
        raise ProgramFailed(f"server {files.folder.name} is on this host, and {why}") from error
    guest.nics_up = meta.is_made and meta.state in NICS_UP
    return guest


async def find_status(guest: Guest) -> str:
    """Return what its QEMU says of a guest, which is connected then: "" without one, UNKNOWN if it does not answer."""
    if guest.find_process() is None:
        return ""
    try:
        await guest.connect()
        status: str = (await guest.qmp.execute("query-status"))["status"]
    except QmpError as error:  # it may run all the same: whoever orders something of it is told
        log.error("a guest's QEMU does not answer", server_id=guest.meta.order.server_id, error=str(error))
        await guest.disconnect()
        return UNKNOWN
    return status


async def settle_guest(guest: Guest, status: str) -> Desired:
    """Have a guest be what it was reported last, where its QEMU still can; return what it is. What runs goes on.

    status: as find_status returns it. Raises LaunchFailed.
    """
    state: Desired = guest.meta.state
    if status == UNKNOWN:
        return state
    await asyncio.to_thread(guest.files.memory_half.unlink, missing_ok=True)
    if not status:
        await guest.kill()
        return "suspended" if guest.files.memory.exists() and state != "stopped" else "stopped"
    if guest.meta.leaving or state == "paused":
        await end_leftovers(guest)
        await guest.qmp.execute("stop")
    elif state == "running" and status in HALTED:  # half-way to another state, which is ordered again
        await end_leftovers(guest)
        try:
            await guest.qmp.execute("cont")
        except QmpError as error:  # its shared disk is its destination's, until that lets go of it
            log.warning("a guest does not go on", server_id=guest.meta.order.server_id, error=str(error))
            state = "paused"
    elif state == "running" and status != "running":
        state = "paused"
    elif state in ("stopped", "suspended", "incoming") and status == "running":
        state = "running"
    elif state in ("stopped", "suspended"):
        await guest.kill()
    if state in NICS_UP:
        await asyncio.to_thread(guest.files.memory.unlink, missing_ok=True)
    return state


Settle = Callable[[Guest, str], Awaitable[None]]
"""Takes a guest as its QEMU says it is."""


async def find_guest(guest: Guest, settle: Settle, remove: Callable[[Guest], Awaitable[None]]) -> bool:
    """Take a guest as its QEMU says it is, and delete what is half made; return whether its QEMU answers, or is gone.

    What fails is logged: other guests are found all the same.
    """
    try:
        async with guest.finding:
            if guest.is_alive or guest.works:
                return guest.is_alive
            with guest.at_work():
                status = await find_status(guest)
                is_awaited = guest.meta.state == "incoming" and status in WITHOUT_MEMORY
                is_whole = guest.meta.is_made and not is_awaited
                if is_whole and status != UNKNOWN:
                    await settle(guest, status)
        if not is_whole:
            await remove(guest)
        return status != UNKNOWN
    except (LaunchFailed, OSError) as error:
        log.error("a guest is not found again", server_id=guest.meta.order.server_id, error=reason_of(error))
        await guest.disconnect()
        return False


async def keep_up(
    guest: Guest,
    find: Callable[[Guest], Awaitable[bool]],
    *,
    is_known: Callable[[], bool],
    may_plug: Callable[[], bool],
) -> None:
    """Ask a QEMU that does not answer, write what the guest says, and have its NICs become its order's.

    find: as find_guest. is_known: whether it is still this host's. may_plug: whether its memory stays here now.
    """
    settle_s, due_s = UPKEEP_S, 0.0
    while is_known():
        await asyncio.sleep(UPKEEP_S)
        if guest.is_silent:
            await find(guest)
        if not guest.is_alive:
            continue
        with contextlib.suppress(LaunchFailed):
            await guest.drain_console()
        if guest.is_settled:
            settle_s, due_s = UPKEEP_S, 0.0
        elif time.monotonic() >= due_s and not guest.works and may_plug():
            try:
                await replug(guest)  # which is no work: what the guest does meanwhile, it does by itself
            except (LaunchFailed, OSError) as error:
                server_id = guest.meta.order.server_id
                log.warning("a guest's NICs are not its order's", server_id=server_id, error=reason_of(error))
            settle_s = min(2 * settle_s, SETTLE_MOST_S)
            due_s = time.monotonic() + settle_s
