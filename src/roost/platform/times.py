"""Times as the APIs write and read them, in UTC. Of a page's CPU, strftime would be a seventh."""

from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from roost.platform.errors import BadRequest


def show_seconds(moment: datetime) -> str:
    """Return a time as YYYY-MM-DDTHH:MM:SSZ."""
    return f"{moment.astimezone(UTC).isoformat(timespec='seconds')[:-6]}Z"


def show_microseconds(moment: datetime) -> str:
    """Return a time as YYYY-MM-DDTHH:MM:SS.ffffff, which names no zone."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6]


def read_time(text: str | None, name: str) -> datetime | None:
    """Return the time that a parameter says, in UTC where it names no zone; None for none. Raises BadRequest."""
    if text is None:
        return None
    for suffix in ("", "Z"):
        try:
            moment = msgspec.convert(text.replace(" ", "+") + suffix, datetime)
        except msgspec.ValidationError:
            continue
        if moment.tzinfo is not None:
            with suppress(OverflowError):  # in UTC it is before the year 1, or after 9999
                return moment.astimezone(UTC)
    raise BadRequest(f"{name}={text}: expected a time such as 2026-01-31T12:00:00Z")
