"""The words of a recovery: the records went back in time, and follow what the hosts say."""

from datetime import datetime

from msgspec import Struct


class MarkRow(Struct, frozen=True, kw_only=True):
    """An agent's mark in the records, the key that proves marks, and whether the records are believed.

    value: 0 where the records do not know the agent. key: None proves nothing. recovering: they recover, or are in
    another database that nobody has looked at yet.
    """

    agent_id: str
    value: int
    key: bytes | None
    recovering: bool


class PendingHosts(Struct, frozen=True):
    """The hosts for which there are orders, and those whose guests are to be listed now."""

    with_orders: frozenset[str]
    to_list: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """Return all of them."""
        return self.with_orders | self.to_list


class Recovery(Struct, frozen=True, kw_only=True):
    """The records went back in time. mark_told: what proved it; mark_known: the same agent's in the records.

    Both are None where the database is another one than before, so that they may have. agent_label: who told it.
    age_s: seconds since it was noticed. hosts_silent: how many have listed nothing since, and are silent.
    hosts_missing: those that are alive and have listed nothing since, by name, at most NAMES_MAX of them; missing: how
    many there are.
    """

    id: int
    noticed_at: datetime
    agent_label: str
    mark_told: int | None
    mark_known: int | None
    age_s: float
    missing: int
    hosts_missing: tuple[str, ...]
    hosts_silent: int


NAMES_MAX = 10
