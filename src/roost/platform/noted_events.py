"""Notes events of what changed nothing, so that there is no transaction to write them in, such as refusals of an API.

A process writes what it noted together, every second and when it ends; those that are alike are one row. A flood costs
a row a second.
"""

from contextlib import suppress

from roost.platform.database import Database
from roost.platform.errors import DatabaseUnavailable
from roost.platform.event_tables import EventTable
from roost.platform.events import Event, join_alike
from roost.platform.repeat import repeat

KEEP_S = 1.0
NOTED_MAX = 10_000
"""Events that wait in one process. Of those above it only the log tells."""


class NotedEvents:
    """What one service of a process noted and has not written yet."""

    def __init__(self, database: Database, table: EventTable) -> None:
        self._database = database
        self._table = table
        self._events: list[Event] = []

    def __len__(self) -> int:
        return len(self._events)

    def note(self, event: Event) -> None:
        """Have the event written soon."""
        if len(self._events) < NOTED_MAX:
            self._events.append(event)

    async def keep(self) -> None:
        """Write what was noted since this was done last, in one statement; where that fails it stays noted."""
        count = len(self._events)
        if count:
            async with self._database.transaction() as tx:
                await self._table.write(tx, join_alike(self._events[:count]))
            del self._events[:count]

    async def keep_always(self) -> None:
        """Write what is noted, again and again, and at the end what was noted since."""
        try:
            await repeat(self.keep, "keeping refusals", interval_s=KEEP_S)
        finally:
            with suppress(DatabaseUnavailable):
                await self.keep()
