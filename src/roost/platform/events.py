"""Words for events: what operators ask for when it is over. event_tables.py keeps them."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from roost.platform.drift import Drift

REFUSAL, FAILURE, RETRY, MOVE = "refusal", "failure", "retry", "move"
DRAIN, FENCE, REPAIR, LOSS, HOST = "drain", "fence", "repair", "loss", "host"
SENTENCES = {
    REFUSAL: "what was asked for is refused",
    FAILURE: "a server could not be launched",
    RETRY: "a server is tried on another host",
    MOVE: "a move is over",
    DRAIN: "a host is drained",
    FENCE: "guests are fenced",
    REPAIR: "something is repaired",
    LOSS: "something is lost",
    HOST: "a host is in another state",
}
"""Kind -> its log line."""


class Subject(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server that an event is about, and the request that the event follows from; each may be unknown.

    server_id: of a repair the key of what had drifted, such as a port's UUID. request_id: as Roost named the request;
    global_request_id: as its caller did.
    """

    server_id: str | None = None
    name: str = ""
    request_id: str | None = None
    global_request_id: str | None = None


class Event(Struct, frozen=True, kw_only=True):
    """What happened. action: what was being done, such as `boot`; of a host, the state that it is in now.

    requirement: what could not be met, in one word. network, segment: where that was, by name. source_host: of a move.
    funnel: (requirement, hosts left), in order. subjects: the servers; count: how often, where not every one is named.
    """

    kind: str
    action: str = ""
    requirement: str = ""
    project_id: str | None = None
    host: str | None = None
    source_host: str | None = None
    network_id: str | None = None
    network: str = ""
    segment_id: str | None = None
    segment: str = ""
    reason: str = ""
    funnel: tuple[tuple[str, int], ...] = ()
    subjects: tuple[Subject, ...] = ()
    count: int = 1


class KeptEvent(Event, frozen=True, kw_only=True):
    """An event as it is kept. service: whose. number: of that service's, ascending."""

    service: str
    number: int
    at: datetime


class EventFilter(Struct, frozen=True, kw_only=True):
    """Which events to list; None leaves that condition out. host: also of a move that left it. segment: id or name."""

    kind: str | None = None
    host: str | None = None
    segment: str | None = None
    server_id: str | None = None
    request_id: str | None = None
    since: datetime | None = None


def join_alike(events: Iterable[Event]) -> list[Event]:
    """Return the events with those as one that differ in their subjects alone."""
    subjects: dict[Event, list[Subject]] = defaultdict(list)
    counts: dict[Event, int] = defaultdict(int)
    for event in events:
        alike = replace(event, subjects=(), count=0)
        subjects[alike] += event.subjects
        counts[alike] += event.count
    return [replace(alike, subjects=tuple(of), count=counts[alike]) for alike, of in subjects.items()]


def repair_events(drifts: Iterable[Drift]) -> list[Event]:
    """Return what was repaired, by the kind of each drift as its action. A drift's key is its subject."""
    return join_alike(
        Event(
            kind=REPAIR,
            action=drift.kind.code,
            reason="; ".join([drift.kind.sentence, *([drift.says] if drift.says else []), drift.kind.repair]),
            subjects=(Subject(server_id=drift.key, name=drift.name),),
        )
        for drift in drifts
    )
