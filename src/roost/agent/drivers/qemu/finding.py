"""What a new agent finds: the guests that the one before left, and what is right for each of them."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.programs import ProgramFailed
from roost.agent.drivers.qemu.command import GuestFiles
from roost.agent.drivers.qemu.guest import Guest, GuestMeta, OnChange
from roost.agent.drivers.qemu.mirror import end_leftovers
from roost.agent.drivers.qemu.nics import plan_nics
from roost.agent.drivers.qemu.qmp import QmpError
from roost.platform.errors import reason_of
from roost.seams.agent import NICS_UP, Desired, GuestKey

UNKNOWN = "unknown"
WITHOUT_MEMORY = ("", "inmigrate")
"""What is said of a guest whose memory has not come: nobody sends it any more."""
HALTED = ("paused", "prelaunch", "postmigrate", "finish-migrate", "save-vm")
"""What QEMU says of a guest that an agent halted: by itself one halts for an error."""
ASK_S = 5.0

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


async def find_guest(guest: Guest, settle: Settle, remove: Callable[[Guest], Awaitable[None]]) -> None:
    """Take a guest as it is; what is half made goes. What fails is logged: other guests are found all the same."""
    try:
        with guest.at_work():
            status = await find_status(guest)
            is_awaited = guest.meta.state == "incoming" and status in WITHOUT_MEMORY
            await (settle(guest, status) if guest.meta.is_made and not is_awaited else remove(guest))
    except (LaunchFailed, OSError) as error:
        log.error("a guest is not found again", server_id=guest.meta.order.server_id, error=reason_of(error))
        await guest.disconnect()


async def find_again(guest: Guest, settle: Settle, *, desired: str) -> None:
    """Have a guest of which something is ordered be known, if its QEMU runs: it is stopped all the same.

    Raises LaunchFailed where its QEMU does not answer: who started another one would kill the guest.
    """
    is_silent = guest.meta.state in NICS_UP and not guest.is_alive and guest.find_process() is not None
    if is_silent and not await _ask_again(guest, settle) and desired != "stopped":
        raise LaunchFailed("the guest's QEMU runs and does not answer: the guest stays as it is until it does")


async def wait_answer(guest: Guest, guests: Mapping[GuestKey, Guest], settle: Settle) -> None:
    """Ask a QEMU that did not answer until it does: what its guest does by itself is told from then on.

    guests: those that are here.
    """
    state, key = guest.meta.state, guest.meta.order.key
    is_silent = state in NICS_UP or (state != "incoming" and guest.find_process() is not None)
    while is_silent and not guest.is_alive and guests.get(key) is guest:
        is_silent = not await _ask_again(guest, settle)
        await asyncio.sleep(ASK_S)


async def _ask_again(guest: Guest, settle: Settle) -> bool:
    """Take a guest as it is whose QEMU did not answer; return whether it is known now."""
    async with guest.finding:
        if guest.is_alive or guest.works:
            return guest.is_alive
        try:
            if (status := await find_status(guest)) == UNKNOWN:
                return False
            await settle(guest, status)
        except (LaunchFailed, OSError) as error:
            log.error("a guest is not found again", server_id=guest.meta.order.server_id, error=reason_of(error))
            await guest.disconnect()
            return False
        return True
