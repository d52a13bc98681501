"""The words of how long servers have run, and how much they took meanwhile."""

from datetime import datetime

from msgspec import Struct

from roost.compute.model.cloud import Flavor


class ServerUsage(Struct, frozen=True, kw_only=True):
    """A server that was launched, with the flavor that it has or had last. ended_at: None while it is there."""

    id: str
    name: str
    project_id: str
    flavor: Flavor
    state: str
    launched_at: datetime
    ended_at: datetime | None


class UsageFilter(Struct, frozen=True, kw_only=True):
    """Which servers' usage to read: of those that were there between start and stop. project_id: None for all."""

    start: datetime
    stop: datetime
    project_id: str | None = None
