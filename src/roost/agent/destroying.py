"""How guests go: again and again until nothing is left of them.

What a list of guests says is to go does so beside everything else: one that cannot go yet, such as a QEMU that waits
for a dead file server, keeps no other guest of the host waiting. Its NICs are down until then.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

import structlog

from roost.agent.drivers import Driver
from roost.seams.agent import GuestAttempt, GuestKey

RETRY_S = 5.0

log = structlog.get_logger()


class Destroying:
    """The guests of one agent that are to go because their servers are elsewhere, or were made anew."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._tasks: dict[GuestAttempt, asyncio.Task[None]] = {}

    def begin(self, group: asyncio.TaskGroup, guests: Sequence[GuestAttempt]) -> None:
        """Begin to destroy these, and take their NICs down. One that goes already is fine.

        Raises OSError where it cannot be written that NICs are down: the next agent would have them up (R40).
        """
        for guest in guests:
            if guest not in self._tasks:
                log.info("destroying a guest whose server is elsewhere", server_id=guest.server_id, host=guest.host)
                task = self._tasks[guest] = group.create_task(self.destroy(guest.key, guest.attempt))
                task.add_done_callback(partial(self._forget, guest))
        for guest in guests:
            self._driver.cut_off(guest.key, attempt=guest.attempt)

    def _forget(self, guest: GuestAttempt, _done: asyncio.Task[None]) -> None:
        del self._tasks[guest]

    def list_tasks(self, key: GuestKey) -> list[asyncio.Task[None]]:
        """Return what is at work on a guest, and is out of the way before anything else begins with it."""
        return [task for guest, task in self._tasks.items() if guest.key == key]

    async def destroy(self, key: GuestKey, attempt: int, *, disk: bool = False) -> None:
        """Have nothing left of the guest. disk: of its root disk neither, which no later attempt here goes on with."""
        while True:
            try:
                return await self._driver.destroy(key, attempt=attempt, disk=disk)
            except Exception:
                log.exception("a guest could not be destroyed", server_id=key[0], host=key[1])
                await asyncio.sleep(RETRY_S)
