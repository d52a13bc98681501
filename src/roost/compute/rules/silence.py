"""When a host's silence counts: only as long as somebody listened.

After a restart, a stop, an outage of the database or a jump of its clock no host was heard of lately, and none is to
blame. Times are the database's.
"""

from datetime import datetime, timedelta

from msgspec import Struct


class Listening(Struct, frozen=True):
    """Since when agents could be heard without a gap, and when that was last looked at."""

    since: datetime
    last: datetime


def listen_on(before: Listening | None, now: datetime, *, gap_max_s: float) -> Listening:
    """Go on listening, or begin anew after a gap, or where the clock went back. before: None at the first look."""
    if before is None or not before.last <= now <= before.last + timedelta(seconds=gap_max_s):
        return Listening(since=now, last=now)
    return Listening(since=before.since, last=now)


def listened_s(listening: Listening) -> float:
    """Return for how many seconds agents could be heard without a gap."""
    return (listening.last - listening.since).total_seconds()


def has_listened(listening: Listening, *, for_s: float) -> bool:
    """Return whether a host that was not heard of for for_s would have been heard, had it said anything."""
    return listened_s(listening) >= for_s
