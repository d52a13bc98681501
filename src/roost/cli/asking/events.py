"""Events of a running Roost, read over its API: the last ones, and those that come."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roost.cli.asking.cloud_client import CloudClient, CloudRefused
from roost.cli.printing import print_note
from roost.platform.errors import BadRequest

PAGE = 1000
FOLLOW_S = 2.0
OVERLAP = timedelta(seconds=60)
"""How much later than its time an event may be committed: it is looked for again for so long."""
AGO = re.compile(r"(\d{1,9})([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class EventLine(Struct, frozen=True, kw_only=True):
    """What of an event is shown to people; the rest is in `raw`, as the API has it."""

    id: str
    at: datetime
    kind: str
    action: str = ""
    server_id: str | None = None
    server: str = ""
    host: str | None = None
    source_host: str | None = None
    network: str = ""
    segment: str = ""
    request_id: str | None = None
    reason: str = ""
    count: int = 1
    raw: Mapping[str, Any] = {}


class EventQuery(Struct, frozen=True, kw_only=True):
    """Which events are asked for; None leaves that condition out. limit: how many, the last ones; None for all."""

    server: str | None = None
    host: str | None = None
    segment: str | None = None
    request: str | None = None
    kind: str | None = None
    since: datetime | None = None
    limit: int | None = None


class _Page(Struct, frozen=True):
    events: list[dict[str, Any]]
    next: str | None = None


def read_since(text: str, now: datetime) -> datetime:
    """Return the time that `10m` ago was, or that the text says, in UTC where it names no zone. Raises BadRequest."""
    try:
        if match := AGO.fullmatch(text):
            return now - timedelta(**{UNITS[match[2]]: int(match[1])})
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"--since {text}: expected 30s, 10m, 2h or 7d, or a time such as 2026-01-31T12:00") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


async def read_events(client: CloudClient, query: EventQuery) -> list[EventLine]:
    """Return the events, the latest last. Raises CloudRefused."""
    parameters = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name in ("server", "host", "segment", "request", "kind", "since")
        if (value := getattr(query, name)) is not None
    }
    events: list[EventLine] = []
    marker: str | None = None
    while query.limit is None or len(events) < query.limit:
        limit = PAGE if query.limit is None else min(PAGE, query.limit - len(events))
        of_page = {**parameters, "limit": limit, **({"marker": marker} if marker else {})}
        page = msgspec.convert(await client.call("GET", f"/roost/v1/events?{urlencode(of_page)}"), _Page)
        events += map(_line, page.events)
        marker = page.next
        if marker is None:
            break
    return events[::-1]


def _line(event: dict[str, Any]) -> EventLine:
    return replace(msgspec.convert(event, EventLine), raw=event)


async def follow_events(
    client: CloudClient, query: EventQuery, show: Callable[[Sequence[EventLine]], None], *, pause_s: float = FOLLOW_S
) -> None:
    """Show the last events, and then those that come, until cancelled. A Roost that is away is waited for.

    Raises CloudRefused when it refuses.
    """
    events = await read_events(client, query)
    show(events)
    ids_shown = {event.id for event in events}
    since, is_away = query.since, False
    while True:
        if events:
            since = max(event.at for event in events) - OVERLAP
        await asyncio.sleep(pause_s)
        try:
            events = await read_events(client, replace(query, since=since, limit=None))
        except CloudRefused as error:
            if 0 < error.status < 500:
                raise
            if not is_away:
                print_note(f"roost: {error}; it is asked again")
            is_away = True
            continue
        is_away = False
        show([event for event in events if event.id not in ids_shown])
        ids_shown |= {event.id for event in events}
