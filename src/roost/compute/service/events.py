"""Writes what happened to servers and hosts, in the transaction of what did, and tells it once that is committed."""

from collections.abc import Sequence

from msgspec import Struct
from prometheus_client import Counter

from roost.compute.model.events import Occurrence
from roost.compute.rules.events import labels_of, make_events
from roost.compute.store import events as store
from roost.platform.database import Connection
from roost.platform.event_tables import EventTable, log_events
from roost.platform.events import Event, Subject
from roost.platform.request_ids import global_request_id, own_request_id

EVENTS = EventTable("compute")
"""Of servers and hosts."""

BOOTS_REFUSED = Counter(
    "roost_boots_refused_total",
    "Boots that ended in ERROR, by the requirement that no host met. network, segment: routed and shared ones by name.",
    ("requirement", "network", "segment"),
)


class Recorded(Struct, frozen=True):
    """What a transaction wrote, to be told after its commit."""

    events: Sequence[Event] = ()
    refused: Sequence[tuple[str, str, str]] = ()

    def tell(self) -> None:
        """Log the events, and count the boots that were refused; call it after the commit."""
        log_events(self.events)
        for labels in self.refused:
            BOOTS_REFUSED.labels(*labels).inc()


NOTHING_RECORDED = Recorded()


async def record(tx: Connection, occurrences: Sequence[Occurrence]) -> Recorded:
    """Write what happens in this transaction, while its servers and moves are there; `tell` it after the commit.

    Two statements, however many there are; none where nothing happened.
    """
    if not occurrences:
        return NOTHING_RECORDED
    server_ids = sorted({occurrence.server_id for occurrence in occurrences if occurrence.server_id is not None})
    subjects_by_id = await store.list_subjects(tx, server_ids) if server_ids else {}
    events = make_events(occurrences, subjects_by_id)
    await EVENTS.write(tx, events)
    return Recorded(events, [labels for each in occurrences if (labels := labels_of(each)) is not None])


def requested_now() -> Subject | None:
    """Return the request that is answered now as whose an event is; None where there is none."""
    request_id = own_request_id()
    return Subject(request_id=request_id, global_request_id=global_request_id()) if request_id else None
