"""GET and POST /explain: why servers would find no host, and what would help; or why they found none in the past."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from roost.platform.bodies import read_json
from roost.platform.errors import BadRequest
from roost.platform.operations import Operation, Operations, Rule
from roost.seeing.api.policies import SERVICE
from roost.seeing.api.questions import TEXT, query_schema, read_query
from roost.seeing.rules.changes import Change, ChangeKind
from roost.seeing.rules.closed_hosts import how_to_open, why_closed
from roost.seeing.rules.nearest import Lack, Near
from roost.seeing.rules.questions import COUNT_MAX, ServersAsked, Text
from roost.seeing.rules.remedies import Remedy, describe
from roost.seeing.service import explanations as service
from roost.seeing.service.context import Seeing
from roost.seeing.service.explanations import NEAREST_SHOWN, Explanation, Refusal

HOSTS_SHOWN = 20


class ExplainBody(ServersAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Servers, and how many. request: of the past instead, by its id: nothing else is said then."""

    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    request: Text | None = None


class RequirementShown(Struct, frozen=True):
    """One line of the funnel."""

    requirement: str
    hosts: int


class LackShown(Struct, frozen=True):
    """What a host or a segment lacks."""

    place: str
    words: str


class NearShown(Struct, frozen=True):
    """Hosts that lack the same. hosts: the first of them; hosts_total: how many there are."""

    lacks: list[LackShown]
    hosts: tuple[str, ...]
    hosts_total: int


class ChangeShown(Struct, frozen=True):
    """One change of a host or a segment. amounts: by resource class. segment: that a host is to reach."""

    kind: str
    place: str
    words: str
    amounts: dict[str, int] = {}
    network: str = ""
    segment: str = ""


class RemedyShown(Struct, frozen=True):
    """Changes that help together: they were tried, by the search itself."""

    words: str
    changes: list[ChangeShown]


class HostServed(Struct, frozen=True):
    """Where servers would be."""

    host: str
    servers: int


class SegmentServed(Struct, frozen=True):
    """Where servers would have addresses."""

    network: str
    segment: str
    addresses: int


class RefusalShown(Struct, frozen=True):
    """A server that was refused, or a request for any, as it was said then."""

    server_id: str | None
    name: str
    message: str
    funnel: list[RequirementShown]
    host: str | None
    created_at: str


class ExplainAnswer(Struct, frozen=True, kw_only=True):
    """fits: all `count` found a host. remedies_tried: whether changes were looked for. refusals: of a past request."""

    fits: bool
    message: str
    count: int | UnsetType = UNSET
    served: int | UnsetType = UNSET
    funnel: list[RequirementShown] | UnsetType = UNSET
    nearest: list[NearShown] | UnsetType = UNSET
    remedies: list[RemedyShown] | UnsetType = UNSET
    hosts: list[HostServed] | UnsetType = UNSET
    segments: list[SegmentServed] | UnsetType = UNSET
    refusals: list[RefusalShown] | UnsetType = UNSET


def explain_operations(seeing: Seeing) -> Operations:
    """Return the operations of explanations, by path below /v1."""

    async def explain(body: ExplainBody) -> ExplainAnswer:
        if body.request is not None:
            if body != ExplainBody(request=body.request):
                raise BadRequest("request: of a request of the past nothing else is asked")
            return _show_refusals(await service.list_refusals(seeing, body.request))
        return _show(await service.explain(seeing, body, count=body.count))

    async def explain_query(request: Request) -> ExplainAnswer:
        return await explain(read_query(request, ExplainBody, "count"))

    async def explain_body(request: Request) -> ExplainAnswer:
        return await explain(await read_json(request, ExplainBody))

    rule, summary = Rule("roost:explain", SERVICE), "why servers would find no host, and what would help"
    query = query_schema({"count": {"type": "integer", "minimum": 1, "maximum": COUNT_MAX}, "request": TEXT})
    errors = (400, 404, 409)
    return {
        "/explain": {
            "GET": Operation(
                summary=summary, endpoint=explain_query, rule=rule, query=query, result=ExplainAnswer, errors=errors
            ),
            "POST": Operation(
                summary=summary, endpoint=explain_body, rule=rule, body=ExplainBody, result=ExplainAnswer, errors=errors
            ),
        }
    }


def _show(explanation: Explanation) -> ExplainAnswer:
    explained = explanation.explained
    hosts = sorted(explained.hosts.items(), key=lambda host: (-host[1], host[0]))
    return ExplainAnswer(
        fits=explained.served == explained.count,
        message=explained.message,
        count=explained.count,
        served=explained.served,
        funnel=[RequirementShown(*line) for line in explained.funnel],
        nearest=[_show_near(explanation, near) for near in explained.nearest[:NEAREST_SHOWN]],
        remedies=[_show_remedy(explanation, remedy) for remedy in explained.remedies],
        hosts=[HostServed(*host) for host in hosts],
        segments=[SegmentServed(s.network, s.segment, s.addresses) for s in explained.segments],
    )


def _show_near(explanation: Explanation, near: Near) -> NearShown:
    lacks = [LackShown(lack.place, _lack_words(explanation, lack)) for lack in near.lacks]
    return NearShown(lacks, near.hosts[:HOSTS_SHOWN], len(near.hosts))


def _lack_words(explanation: Explanation, lack: Lack) -> str:
    if lack.change is not None and lack.change.kind is ChangeKind.OPEN_HOST:
        return why_closed(explanation.closed_hosts.get(lack.place))
    return lack.words


def _show_remedy(explanation: Explanation, remedy: Remedy) -> RemedyShown:
    changes = [_show_change(explanation, change) for change in remedy]
    return RemedyShown(" and ".join(change.words for change in changes), changes)


def _show_change(explanation: Explanation, change: Change) -> ChangeShown:
    words = describe(change)
    if change.kind is ChangeKind.OPEN_HOST:
        words = how_to_open(explanation.closed_hosts.get(change.place), change.place)
    return ChangeShown(
        kind=change.kind.value,
        place=change.place,
        words=words,
        amounts=dict(change.amounts),
        network=change.network,
        segment=change.segment,
    )


def _show_refusals(refusals: list[Refusal]) -> ExplainAnswer:
    shown = [
        RefusalShown(
            server_id=refusal.subject.server_id,
            name=refusal.subject.name,
            message=refusal.event.reason,
            funnel=[RequirementShown(*line) for line in refusal.event.funnel],
            host=refusal.event.host,
            created_at=refusal.event.at.isoformat(),
        )
        for refusal in refusals
    ]
    return ExplainAnswer(fits=False, message=shown[0].message, refusals=shown)
