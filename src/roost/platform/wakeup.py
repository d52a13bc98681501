"""Wake-ups between processes: they only save time, without them everything is still right.

NOTIFY inside a claim would serialise the commits, so a process sends one after its commits, and many of them as one.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from roost.platform.database import Connection, Database
from roost.platform.errors import DatabaseUnavailable

COALESCE_S = 0.002
RECONNECT_S = 0.5


class Wakeups:
    """Sends and hears wake-ups on the given channels. Run `run()` in a TaskGroup."""

    def __init__(self, database: Database, channels: Sequence[str]) -> None:
        self._database = database
        self._counts = dict.fromkeys(channels, 0)
        self._events = {channel: asyncio.Event() for channel in channels}
        self._due: set[str] = set()
        self._due_event = asyncio.Event()

    def send(self, channel: str) -> None:
        """Wake who waits for the channel, here at once and in other processes soon. Call it after the commit."""
        self._wake(channel)
        self._due.add(channel)
        self._due_event.set()

    def count(self, channel: str) -> int:
        """Return how many wake-ups were heard so far: read it before looking for work, and give it to `wait`."""
        return self._counts[channel]

    async def wait(self, channel: str, timeout_s: float, *, since: int) -> int:
        """Wait until more than `since` wake-ups were heard, or for timeout_s seconds; returns the count then."""
        if self._counts[channel] == since:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._events[channel].wait(), timeout_s)
        return self._counts[channel]

    async def run(self) -> None:
        """Send and listen until cancelled, over whatever happens to the database."""
        while True:
            try:
                async with self._database.connection() as connection:
                    for channel in self._counts:
                        await connection.add_listener(channel, self._hear)
                    try:
                        await self._send_due(connection)
                    finally:
                        for channel in self._counts:
                            await connection.remove_listener(channel, self._hear)
            except DatabaseUnavailable:
                await asyncio.sleep(RECONNECT_S)

    async def _send_due(self, connection: Connection) -> None:
        while True:
            try:
                await asyncio.wait_for(self._due_event.wait(), 5)
            except TimeoutError:
                await connection.execute("SELECT 1")  # notices a dead server
                continue
            await asyncio.sleep(COALESCE_S)
            self._due_event.clear()
            due, self._due = self._due, set()
            for channel in due:
                await connection.execute(f"NOTIFY {channel}")

    def _hear(self, _connection: Connection, _pid: int, channel: str, _payload: str) -> None:
        self._wake(channel)

    def _wake(self, channel: str) -> None:
        self._counts[channel] += 1
        self._events[channel].set()
        self._events[channel] = asyncio.Event()
