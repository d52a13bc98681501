"""How `roost events` shows events: a line each, which can be cut and searched, or JSON."""

from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from roost.cli.asking.events import EventLine, EventQuery
from roost.cli.asking.status_output import printable
from roost.cli.serving.option_checks import UUID

KIND_WIDTH, SUBJECT_WIDTH = 8, 24


def print_events(console: Console, events: Sequence[EventLine]) -> None:
    """Print a line for each event, the latest last; their times are UTC."""
    for event in events:
        console.print(Text(event_text(event)), soft_wrap=True)


def no_event_text(query: EventQuery) -> str:
    """Return what is said where no event is like that."""
    if query == EventQuery(limit=query.limit):
        return "There is no event."
    is_name = query.server is not None and not UUID.fullmatch(query.server)
    return "There is no such event" + (": --server takes an id, which `roost servers` shows." if is_name else ".")


def event_text(event: EventLine) -> str:
    """Return the event in a line: when, what, to whom, where, why, and by which request."""
    subject = event.server or event.server_id or event.host or "-"
    others = f" (+{event.count - 1})" if event.count > 1 else ""
    where = _where(event)
    words = [
        f"{event.at:%Y-%m-%d %H:%M:%S}",
        event.kind.ljust(KIND_WIDTH),
        f"{subject}{others}".ljust(SUBJECT_WIDTH),
        *([f"{event.action}:"] if event.action else []),
        *([where] if where else []),
        event.reason,
        *([f"[{event.request_id}]"] if event.request_id else []),
    ]
    return printable(" ".join(words))


def _where(event: EventLine) -> str:
    """Return the host, or from which to which, unless the event is the host's own."""
    if event.source_host and event.source_host != event.host:
        return f"{event.source_host} -> {event.host or '-'};"
    is_own = not (event.server or event.server_id)
    return f"on {event.host};" if event.host and not is_own and event.host not in event.reason else ""


def event_json(event: EventLine) -> bytes:
    """Return one event for a program that follows them, in a line."""
    return msgspec.json.encode(event.raw)


def events_json(events: Sequence[EventLine]) -> bytes:
    """Return the events for a program, as the API has them; docs/reference/command-line.md."""
    return msgspec.json.encode({"events": [event.raw for event in events]})
