"""What an agent knows of its leases: for how long it may trust them, and which of its hosts another agent serves.

Guests that run go on running whatever becomes of the leases; without one nothing is begun and nothing is reported.
"""

import asyncio
import time

import structlog

from roost.seams.agent import Polled

log = structlog.get_logger()


def now_s() -> float:
    """Return a time that goes on while the process is stopped and the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """The leases of one agent, which its polls take and renew."""

    def __init__(self) -> None:
        self._until_s = float("-inf")
        self._renewed = asyncio.Event()
        self._elsewhere: frozenset[str] = frozenset()
        self.ever_held = False

    @property
    def until_s(self) -> float:
        """Return when the leases run out."""
        return self._until_s

    @property
    def hosts_elsewhere(self) -> frozenset[str]:
        """Return the agent's hosts that another one serves."""
        return self._elsewhere

    @property
    def is_held(self) -> bool:
        """Return whether the leases have not run out."""
        return now_s() < self._until_s

    def renew(self, polled: Polled, *, asked_s: float) -> bool:
        """Take note of an answer to a poll that was asked at asked_s; return whether hosts came back to this agent."""
        self._until_s = max(self._until_s, asked_s + polled.held_s + polled.lease_s)
        self.ever_held = True
        self._renewed.set()
        elsewhere = frozenset(item.host for item in polled.elsewhere)
        for item in polled.elsewhere:
            if item.host not in self._elsewhere:
                log.error("a host is served by another agent", host=item.host, agent=item.holder, since=item.since)
        came_back = self._elsewhere - elsewhere
        self._elsewhere = elsewhere
        return bool(came_back)

    async def wait(self) -> None:
        """Wait until the leases are held."""
        while not self.is_held:
            self._renewed.clear()
            await self._renewed.wait()
