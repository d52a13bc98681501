"""GET /events: what happened, by server, host, segment, request, kind and time; the latest first."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from starlette.requests import Request

from roost.platform.errors import BadRequest
from roost.platform.events import SENTENCES, EventFilter, KeptEvent, Subject
from roost.platform.http import canonical_uuid, integer_parameter, is_uuid
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.times import read_time
from roost.seeing.api.policies import SERVICE
from roost.seeing.service.events import EventSource, event_id, list_events

PAGE, PAGE_MAX = 100, 1000
WORD_MAX = 255
WORD: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": WORD_MAX}
PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "server": WORD,
    "host": WORD,
    "segment": WORD,
    "request": WORD,
    "kind": {"type": "string", "enum": sorted(SENTENCES)},
    "since": {"type": "string", "format": "date-time"},
    "marker": WORD,
    "limit": {"type": "integer", "minimum": 1, "maximum": PAGE_MAX},
}


class FunnelLine(Struct, frozen=True):
    """How many hosts a requirement left, after those before it."""

    requirement: str
    hosts_left: int


class EventServer(Struct, frozen=True):
    """A server of an event, with the request that it follows from."""

    server_id: str | None
    name: str
    request_id: str | None
    global_request_id: str | None


class SeenEvent(Struct, frozen=True, kw_only=True):
    """An event. server_id, request_id, global_request_id: of the server that was asked for, or else of the first.

    count: to how many servers it happened, or how often. servers: all of them.
    """

    id: str
    at: datetime
    kind: str
    action: str
    requirement: str
    project_id: str | None
    server_id: str | None
    server: str
    host: str | None
    source_host: str | None
    network_id: str | None
    network: str
    segment_id: str | None
    segment: str
    request_id: str | None
    global_request_id: str | None
    reason: str
    funnel: list[FunnelLine]
    count: int
    servers: list[EventServer]


class SeenEvents(Struct, frozen=True):
    """A page. next: the marker of the next one, None behind the last."""

    events: list[SeenEvent]
    next: str | None


def event_operations(sources: Callable[[], Sequence[EventSource]]) -> Operations:
    """Return the operation of events. sources: asked at each request."""

    async def show_events(request: Request) -> SeenEvents:
        _check_parameters(request)
        limit = integer_parameter(request, "limit", default=PAGE, lowest=1, highest=PAGE_MAX)
        only = _read_filter(request)
        events = await list_events(sources(), only, marker=request.query_params.get("marker"), limit=limit)
        following = event_id(events[-1]) if len(events) == limit else None
        return SeenEvents([_show(event, only) for event in events], following)

    return {
        "/events": {
            "GET": Operation(
                summary="what was refused, retried, moved, drained, fenced, repaired and lost; the latest first",
                endpoint=show_events,
                rule=Rule("roost:events:list", SERVICE),
                query={"type": "object", "properties": PARAMETERS, "additionalProperties": False},
                result=SeenEvents,
            )
        }
    }


def _check_parameters(request: Request) -> None:
    for name in request.query_params:
        if name not in PARAMETERS:
            raise BadRequest(f"{name}: Roost does not serve this parameter here: expected {', '.join(PARAMETERS)}")
        values = request.query_params.getlist(name)
        if len(values) > 1 or not 1 <= len(values[0]) <= WORD_MAX or "\x00" in values[0]:
            raise BadRequest(f"{name}: expected once, with 1 to {WORD_MAX} characters")


def _read_filter(request: Request) -> EventFilter:
    """Return which events are asked for. Raises BadRequest."""
    parameters = request.query_params
    server_id, kind = parameters.get("server"), parameters.get("kind")
    if kind is not None and kind not in SENTENCES:
        raise BadRequest(f"kind={kind}: expected one of {', '.join(sorted(SENTENCES))}")
    if server_id is not None and is_uuid(server_id):
        server_id = canonical_uuid(server_id)
    return EventFilter(
        kind=kind,
        host=parameters.get("host"),
        segment=parameters.get("segment"),
        server_id=server_id,
        request_id=parameters.get("request"),
        since=read_time(parameters.get("since"), "since"),
    )


def _show(event: KeptEvent, only: EventFilter) -> SeenEvent:
    subjects = event.subjects or (Subject(),)
    first = next((subject for subject in subjects if _is_asked_for(subject, only)), subjects[0])
    return SeenEvent(
        id=event_id(event), at=event.at, kind=event.kind, action=event.action, requirement=event.requirement,
        project_id=event.project_id, server_id=first.server_id, server=first.name, host=event.host,
        source_host=event.source_host, network_id=event.network_id, network=event.network,
        segment_id=event.segment_id, segment=event.segment, request_id=first.request_id,
        global_request_id=first.global_request_id, reason=event.reason,
        funnel=[FunnelLine(*line) for line in event.funnel], count=event.count,
        servers=[
            EventServer(subject.server_id, subject.name, subject.request_id, subject.global_request_id)
            for subject in event.subjects
        ],
    )  # fmt: skip


def _is_asked_for(subject: Subject, only: EventFilter) -> bool:
    ids = (subject.request_id, subject.global_request_id)
    return (only.server_id in (None, subject.server_id)) and (only.request_id is None or only.request_id in ids)
