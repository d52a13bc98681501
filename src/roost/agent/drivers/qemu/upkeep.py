"""What is done for a guest that nobody orders, as long as its host has it."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import structlog

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu.guest import Guest
from roost.agent.drivers.qemu.plugs import replug
from roost.platform.errors import reason_of

UPKEEP_S = 2.0
SETTLE_MOST_S = 60.0
"""Before a guest's NICs are looked at again, at most: it may never let one go."""

log = structlog.get_logger()


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
