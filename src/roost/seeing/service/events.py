"""Events of all services as one list: each service has its own, and time alone orders them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice

from roost.platform.database import Database
from roost.platform.errors import BadRequest
from roost.platform.event_tables import EventTable
from roost.platform.events import EventFilter, KeptEvent

NUMBER_MAX = 2**63 - 1


@dataclass(frozen=True)
class EventSource:
    """The events of one service, and the database that has them."""

    table: EventTable
    database: Database


def event_id(event: KeptEvent) -> str:
    """Return what clients call an event."""
    return f"{event.service}-{event.number}"


async def list_events(
    sources: Sequence[EventSource], only: EventFilter, *, marker: str | None, limit: int
) -> list[KeptEvent]:
    """Return a page of all services' events, the latest first, behind the event `marker`. Raises BadRequest."""
    at = None if marker is None else await _find_time(sources, marker)
    pages = []
    for source in sources:
        before = None if marker is None or at is None else _bound(source.table.schema, marker, at)
        async with source.database.connection() as connection:
            pages.append(await source.table.list(connection, only, before=before, limit=limit))
    in_order = merge(*pages, key=lambda event: (event.at, event.service, event.number), reverse=True)
    return list(islice(in_order, limit))


async def _find_time(sources: Sequence[EventSource], marker: str) -> datetime:
    service, _, number = marker.rpartition("-")
    for source in sources:
        if source.table.schema == service and number.isdecimal() and int(number) <= NUMBER_MAX:
            async with source.database.connection() as connection:
                at = await source.table.find_time(connection, int(number))
            if at is not None:
                return at
    raise BadRequest(f"marker={marker}: expected the id of an event that is kept")


def _bound(service: str, marker: str, at: datetime) -> tuple[datetime, int]:
    """Return below which time and number the service's events come after the marker's, of which `at` is the time.

    Of events of one time those of services later in the alphabet come first.
    """
    marked, _, number = marker.rpartition("-")
    if service == marked:
        return at, int(number)
    return at, NUMBER_MAX if service < marked else 0
