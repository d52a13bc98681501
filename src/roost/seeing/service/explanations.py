"""Why servers would find no host, and what would help: tried on a copy of the ledger's index, beside its requests."""

import asyncio
from collections.abc import Mapping
from functools import partial
from random import Random

from msgspec import Struct

from roost.compute.model.cloud import Host
from roost.compute.service.hosts import list_hosts
from roost.platform.errors import NotFound
from roost.platform.events import FAILURE, REFUSAL, EventFilter, KeptEvent, Subject
from roost.seeing.rules.changes import ChangeKind
from roost.seeing.rules.explanations import Explained, explain_servers
from roost.seeing.rules.questions import ServersAsked
from roost.seeing.service.context import Seeing
from roost.seeing.service.events import list_events
from roost.seeing.service.questions import copy_index, read_question, read_surroundings

NEAREST_SHOWN = 20
EVENTS_OF_REQUEST_MAX = 100


class Explanation(Struct, frozen=True):
    """What became of the servers; hosts: by name, those that it says something of and that are closed."""

    explained: Explained
    closed_hosts: Mapping[str, Host]


class Refusal(Struct, frozen=True):
    """A server that was refused, or a request for any, and the event that keeps why."""

    subject: Subject
    event: KeptEvent


async def explain(seeing: Seeing, asked: ServersAsked, *, count: int) -> Explanation:
    """Return what would become of `count` such servers. Raises what read_question raises, and LedgerElsewhere."""
    question = await read_question(seeing, asked)
    surroundings = await read_surroundings(seeing, question.requests[0].nics)
    index, random = await copy_index(seeing), Random(seeing.env.random.randrange(2**32))
    work = partial(explain_servers, index, question, random, seeing.placing, count=count, around=surroundings)
    explained = await asyncio.to_thread(work)
    changes = [lack.change for near in explained.nearest[:NEAREST_SHOWN] for lack in near.lacks]
    changes += [change for remedy in explained.remedies for change in remedy]
    names = sorted({change.place for change in changes if change and change.kind is ChangeKind.OPEN_HOST})
    hosts = await list_hosts(seeing.compute, names) if names else []
    return Explanation(explained, {host.name: host for host in hosts})


async def list_refusals(seeing: Seeing, request_id: str) -> list[Refusal]:
    """Return why servers of a request of the past were refused, by either of its ids. Raises NotFound."""
    refusals = [
        Refusal(subject, event)
        for kind in (REFUSAL, FAILURE)
        for event in await list_events(
            seeing.sources, EventFilter(request_id=request_id, kind=kind), marker=None, limit=EVENTS_OF_REQUEST_MAX
        )
        for subject in event.subjects
        if request_id in (subject.request_id, subject.global_request_id)
    ]
    if not refusals:
        raise NotFound(f"No refusal of request {request_id} is kept.")
    return refusals
