"""Time and chance as arguments: the one place where they come from."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Env:
    """The clock, the UUID maker and the random numbers that a service or the conductor may use.

    Leases and expiries never use this clock but the database's.
    """

    now: Callable[[], datetime] = _utc_now
    new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())
    random: Random = field(default_factory=Random)
