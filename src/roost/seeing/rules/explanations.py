"""Says whether servers would find hosts, and if not, why, which hosts come nearest, and what would help.

All by the search and the choice with which the conductor boots, on copies of the index: nothing is claimed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from roost.placement.search.funnel import explain as find_funnel
from roost.placement.search.index import Index
from roost.scheduling.explain import (
    ALL_OPEN,
    ClosedHosts,
    Usages,
    addresses_asked,
    explain,
    joined,
    show_funnel,
)
from roost.scheduling.request import build_query
from roost.scheduling.settings import SchedulingSettings
from roost.seams.placement import Candidate
from roost.seeing.rules.nearest import Near, find_nearest
from roost.seeing.rules.questions import Question
from roost.seeing.rules.remedies import Remedy, find_remedies
from roost.seeing.rules.trials import Tried, place, search


class Surroundings(Struct, frozen=True, kw_only=True):
    """What an explanation says of the cloud beside what the index knows; see scheduling.explain."""

    closed: ClosedHosts = ALL_OPEN
    empty_aggregates: frozenset[str] = frozenset()
    addresses_held: Mapping[str, int] = {}


NOTHING_AROUND = Surroundings()


class SegmentServed(Struct, frozen=True):
    """How many addresses of a segment the servers would have."""

    network: str
    segment: str
    addresses: int


class Explained(Struct, frozen=True, kw_only=True):
    """What became of so many servers of one request.

    served: how many of `count` found a host. funnel: (requirement, hosts left), as it is before the first. nearest:
    what hosts lack for the next server. remedies: changes that make all of them fit; none beside `tried` where no
    single change helps, nor two. hosts: name -> servers there. segments: where they would have addresses.
    """

    count: int
    served: int
    message: str
    funnel: tuple[tuple[str, int], ...] = ()
    nearest: tuple[Near, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    hosts: Mapping[str, int] = {}
    segments: tuple[SegmentServed, ...] = ()


def explain_servers(
    index: Index,
    question: Question,
    random: Random,
    settings: SchedulingSettings,
    *,
    count: int = 1,
    around: Surroundings = NOTHING_AROUND,
) -> Explained:
    """Return what would become of `count` servers, by the index, which is left as it is."""
    if missing := _find_missing(index, question):
        return Explained(count=count, served=0, message=missing)
    after = index.copy()
    placed = place(after, question.requests, count, random, settings)
    explained = Explained(
        count=count,
        served=len(placed),
        message="It fits." if count == 1 else f"All {count} fit.",
        funnel=_funnel(index, question, around),
        hosts=_count_hosts(index, placed),
        segments=_count_segments(question, placed),
    )
    if len(placed) == count:
        return explained
    reason = _explain(after, search(after, question.requests, random), around)
    nearest = find_nearest(after, question.requests, servers=count - len(placed))
    remedies = find_remedies(index, question.requests, nearest, random, settings, servers=count)
    message = reason if not placed else f"{len(placed)} of {count} fit. Of the next: {reason}"
    return replace(explained, message=message, nearest=tuple(nearest), remedies=tuple(remedies))


def _find_missing(index: Index, question: Question) -> str | None:
    """Return the sentence of resource classes that no provider has at all."""
    groups = [group for request in question.possible[:1] for group in build_query(request, limit=1).groups]
    missing = sorted({name for group in groups for name in group.resources if not index.has_class(name)})
    if not missing:
        return None
    return f"No host has any {joined(missing)}, which {question.name} asks for."


def _funnel(index: Index, question: Question, around: Surroundings) -> tuple[tuple[str, int], ...]:
    """Return the funnel of the alternative that comes furthest."""
    funnels = [
        show_funnel(request, find_funnel(index, build_query(request, limit=1)), around.closed)
        for request in question.possible
    ]
    return max(funnels, key=lambda funnel: sum(hosts > 0 for _, hosts in funnel), default=())


def _explain(index: Index, tried: Sequence[Tried], around: Surroundings) -> str:
    providers = addresses_asked(tried[0][0])
    explanation = explain(
        tried,
        _usages(index, providers),
        closed=around.closed,
        empty_aggregates=around.empty_aggregates,
        held=around.addresses_held,
    )
    return explanation.message


def _usages(index: Index, uuids: Sequence[str]) -> Usages:
    rows = {uuid: row for uuid in uuids if (row := index.find_row(uuid)) is not None}
    return {
        uuid: {name: (had.capacity, index.used[row][name]) for name, had in index.inventories[row].items()}
        for uuid, row in rows.items()
    }


def _count_hosts(index: Index, placed: Sequence[Candidate]) -> dict[str, int]:
    counts = Counter(candidate.root_uuid for candidate in placed)
    return dict(sorted((index.names[index.row_by_uuid[uuid]], servers) for uuid, servers in counts.items()))


def _count_segments(question: Question, placed: Sequence[Candidate]) -> tuple[SegmentServed, ...]:
    networks = {nic.network.id: nic.network for request in question.possible for nic in request.nics}
    addresses: Counter[str] = Counter()
    for candidate in placed:
        for uuid, resources in candidate.allocations.items():
            addresses[uuid] += max(resources.values())
    return tuple(
        SegmentServed(network.name, segment.name, addresses[segment.provider_uuid])
        for network in networks.values()
        for segment in sorted(network.segments, key=lambda segment: segment.name)
        if addresses[segment.provider_uuid]
    )
