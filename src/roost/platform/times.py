"""Times as the APIs write them, in UTC. Of a page's CPU, strftime would be a seventh."""

from datetime import UTC, datetime


def show_seconds(moment: datetime) -> str:
    """Return a time as YYYY-MM-DDTHH:MM:SSZ."""
    return f"{moment.astimezone(UTC).isoformat(timespec='seconds')[:-6]}Z"


def show_microseconds(moment: datetime) -> str:
    """Return a time as YYYY-MM-DDTHH:MM:SS.ffffff, which names no zone."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6]
