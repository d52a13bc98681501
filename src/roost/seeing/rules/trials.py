"""Places servers on a copy of the index as the conductor would: by its queries, the search, and its choice of hosts.

Nothing is claimed. The index that is given changes: pass a copy.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from msgspec import Struct

from roost.placement.model import Usage
from roost.placement.search.index import Delta, Index
from roost.placement.search.matching import find_in
from roost.platform.garbage import without_collecting
from roost.platform.grouping import grouped
from roost.scheduling.filters import narrow
from roost.scheduling.request import Request, build_queries, build_query
from roost.scheduling.selection import join, select
from roost.scheduling.settings import SchedulingSettings
from roost.seams.placement import Candidate, CandidateQuery, Candidates

ROUNDS_MAX = 4
"""How often servers that found no place go first, before they are said to have none."""
CANDIDATES_MAX = 20_000
"""Of a search for as many servers as fit: each host once, in all but the largest clouds."""

SERVERS_MAX = 100_000
"""Of one request, placed to see how many fit: beyond that it is said that there are so many."""

Tried = tuple[Request, Candidates | None]
"""A narrowed request, with what was answered; None where it was not asked."""


def search(index: Index, requests: Sequence[Request], random: Random, *, servers: int = 1) -> list[Tried]:
    """Return the answers to a request's alternatives, as a boot of so many servers gets them."""
    possible = [request for request in requests if request.impossible is None]
    if not possible:
        return [(request, None) for request in requests]
    queries = build_queries(possible, servers=servers)
    start = random.randrange(2**16)
    return [(request, find_in(index, query, start=start)) for request, query in zip(possible, queries, strict=True)]


def has_room(tried: Sequence[Tried]) -> bool:
    """Return whether a server may go somewhere, by what its request's alternatives were answered."""
    return any(
        answer is not None
        and any(answer.summaries[c.root_uuid].name not in request.excluded_hosts for c in answer.candidates)
        for request, answer in tried
    )


def place(
    index: Index, requests: Sequence[Request], count: int, random: Random, settings: SchedulingSettings
) -> list[Candidate]:
    """Place up to `count` servers of one request, and return where; fewer are returned where no more fit.

    requests: its alternatives, narrowed. Cost: a search for each round of servers that fit together.
    """
    possible = [request for request in requests if request.impossible is None]
    placed: list[Candidate] = []
    while possible and len(placed) < count:
        queries = build_queries(possible, servers=count - len(placed))
        placed_now = _choose(index, possible, queries, count - len(placed), random, settings)
        if not placed_now:
            break
        placed += placed_now
    return placed


def boot_all(
    index: Index, requests: Sequence[Request], random: Random, settings: SchedulingSettings
) -> list[Candidate]:
    """Place servers of one request one by one, as boots come, until one is refused, and return where."""
    placed: list[Candidate] = []
    while placed_now := place(index, requests, 1, random, settings):
        placed += placed_now
    return placed


def place_all(
    index: Index, requests: Sequence[Request], random: Random, settings: SchedulingSettings
) -> list[Candidate]:
    """Place servers of one request as one bulk boot of all that fit, SERVERS_MAX at most; return where."""
    possible = [request for request in requests if request.impossible is None]
    queries = [build_query(request, limit=CANDIDATES_MAX) for request in possible]
    placed: list[Candidate] = []
    while possible and (rest := SERVERS_MAX - len(placed)):
        placed_now = _choose(index, possible, queries, rest, random, settings)
        if not placed_now:
            break
        placed += placed_now
    return placed


def _choose(
    index: Index, requests: Sequence[Request], queries: Sequence[CandidateQuery], count: int, random: Random,
    settings: SchedulingSettings,
) -> list[Candidate]:  # fmt: skip
    start = random.randrange(2**16)
    answer = join([find_in(index, query, start=start) for query in queries])
    with without_collecting():  # a sixth of the time, where tens of thousands are placed
        chosen = select(answer, count, random, settings, excluded=requests[0].excluded_hosts)
    _take(index, chosen)
    return chosen


def count_alike(placed: Sequence[Candidate]) -> list[tuple[Candidate, int]]:
    """Return each candidate once, with how many servers have it: a selection gives the same one many times."""
    counts = Counter(map(id, placed))
    candidates = {id(candidate): candidate for candidate in placed}
    return [(candidate, counts[key]) for key, candidate in candidates.items()]


def _take(index: Index, placed: Sequence[Candidate]) -> None:
    """Count what placed servers take as used."""
    taken: dict[str, dict[str, int]] = {}
    for candidate, servers in count_alike(placed):
        for uuid, resources in candidate.allocations.items():
            amounts = taken.setdefault(uuid, {})
            for name, amount in resources.items():
                amounts[name] = amounts.get(name, 0) + amount * servers
    usages = []
    for uuid, amounts in taken.items():
        row = index.row_by_uuid[uuid]
        together = {name: amount + amounts.get(name, 0) for name, amount in index.used[row].items()}
        usages.append(Usage(index.ids[row], index.generations[row], together))
    index.apply(Delta(usages=usages))


class Leaving(Struct, frozen=True, kw_only=True):
    """A server that is to leave its host. request: what it asks of another one, before it is narrowed."""

    server_id: str
    request: Request


class Elsewhere(Struct, frozen=True):
    """Where servers that leave would go. hosts: server id -> host name. refused: those that find no place beside the
    others, with what the search for them was answered then. index: with those that found one.
    """

    hosts: Mapping[str, str]
    refused: Mapping[str, tuple[Tried, ...]]
    index: Index

    @property
    def fits(self) -> bool:
        """Return whether all find a place, together."""
        return not self.refused


def fit_elsewhere(index: Index, leaving: Sequence[Leaving], random: Random, settings: SchedulingSettings) -> Elsewhere:
    """Return whether these servers fit elsewhere as a whole, and where each would go.

    index: a copy, in which the hosts that they leave are closed already (`changes.close_hosts`); what the servers hold
    there counts nowhere else. It is left as it was. Servers of equal requests are placed together; those with the
    fewest hosts go first. Those that find no place go before all others, ROUNDS_MAX times: then a place for all, if it
    was not found, is hardly there, though nobody can promise that: unlike sizes are a bin packing.
    Cost: a search for each request that is unlike the others, in each round.
    """
    groups = grouped((server.request, server.server_id) for server in leaving)
    kinds = {request: narrow(request, settings) for request in groups}
    tightness = {request: _tightness(index, kinds[request], random) for request in groups}
    order = sorted(groups, key=lambda request: tightness[request])
    best: Elsewhere | None = None
    for _ in range(ROUNDS_MAX):
        answer, stuck = _place_groups(index.copy(), groups, kinds, order, random, settings)
        if best is None or len(answer.refused) < len(best.refused):
            best = answer
        if answer.fits or stuck == set(order[: len(stuck)]):
            break
        order = [*(request for request in order if request in stuck), *(r for r in order if r not in stuck)]
    assert best is not None
    return best


def _tightness(index: Index, requests: Sequence[Request], random: Random) -> tuple[int, ...]:
    """Return a key by which servers go first that have few hosts, then large ones."""
    answers = [answer for _, answer in search(index, requests, random) if answer is not None]
    hosts = {candidate.root_uuid for answer in answers for candidate in answer.candidates}
    return len(hosts), *(-amount for _, amount in sorted(requests[0].resources))


def _place_groups(
    index: Index,
    groups: Mapping[Request, Sequence[str]],
    kinds: Mapping[Request, Sequence[Request]],
    order: Sequence[Request],
    random: Random,
    settings: SchedulingSettings,
) -> tuple[Elsewhere, set[Request]]:
    """Return where servers go in this order, and the requests of those that have no place."""
    hosts: dict[str, str] = {}
    waiting: dict[Request, Sequence[str]] = {}
    for request in order:
        placed = place(index, kinds[request], len(groups[request]), random, settings)
        for server_id, candidate in zip(groups[request], placed, strict=False):
            hosts[server_id] = index.names[index.row_by_uuid[candidate.root_uuid]]
        if rest := groups[request][len(placed) :]:
            waiting[request] = rest
    refused: dict[str, tuple[Tried, ...]] = {}
    for request, server_ids in waiting.items():
        refused |= dict.fromkeys(server_ids, tuple(search(index, kinds[request], random)))
    return Elsewhere(hosts, refused, index), set(waiting)
