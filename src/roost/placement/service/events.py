"""Keeps what the ledger refused its callers: claims for which there is no room, and searches that found nothing.

Neither changes anything, so there is no transaction to write it in: see platform/noted_events.py.
"""

from roost.placement.service.ledger import Ledger
from roost.platform.event_tables import EventTable
from roost.platform.events import REFUSAL, Event, Subject
from roost.platform.request_ids import global_request_id, own_request_id
from roost.seams.placement import ADDRESS_CLASSES, SEGMENT_NAME, ClaimGroup, Funnel, Refused

EVENTS = EventTable("placement")
"""Of claims, searches and repairs."""


def note_claim(ledger: Ledger, group: ClaimGroup, refused: Refused, reason: str) -> None:
    """Note that a claim was refused. reason: as it was answered."""
    first = refused.shortfalls[0]
    name = ledger.index.find_name(first.provider_uuid) or first.provider_uuid
    is_segment = first.resource_class in ADDRESS_CLASSES
    consumers = {claim.consumer_uuid: claim.project_id for claim in group.consumers if claim.allocations}
    ledger.refusals.note(
        Event(
            kind=REFUSAL,
            action="claim",
            requirement=first.rule.value,
            project_id=next(iter(consumers.values()), None),
            host=None if is_segment else name,
            segment_id=name.removeprefix(SEGMENT_NAME.format("")) if is_segment else None,
            reason=reason,
            subjects=tuple(_subject(uuid) for uuid in consumers),
        ),
    )


def note_search(ledger: Ledger, funnel: Funnel, reason: str) -> None:
    """Note that a search of a client found no candidates. reason: as it was answered."""
    empty = next((step for step in funnel.steps if step.hosts_left == 0), None)
    ledger.refusals.note(
        Event(
            kind=REFUSAL,
            action="candidates",
            requirement=empty.requirement.name.lower() if empty else "",
            reason=reason,
            funnel=tuple((step.describe(), step.hosts_left) for step in funnel.steps),
            subjects=(_subject(None),),
        ),
    )


def _subject(server_id: str | None) -> Subject:
    return Subject(server_id=server_id, request_id=own_request_id(), global_request_id=global_request_id())
