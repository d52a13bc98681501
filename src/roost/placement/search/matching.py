"""The whole search of one query over an index: its candidates, or the funnel that says why there are none."""

from msgspec import Struct
from msgspec.structs import replace

from roost.placement.search.candidates import Gathered, gather, to_candidates
from roost.placement.search.funnel import explain
from roost.placement.search.implied import add_addresses, find_nics, imply
from roost.placement.search.index import Index
from roost.placement.search.narrowing import Plan, make_plan
from roost.placement.settings import PlacementSettings
from roost.seams.placement import CandidateQuery, Candidates, Funnel


class Matches(Struct, frozen=True):
    """The candidates of a query by rows of the index, which holds until the next await. funnel: if there are none."""

    index: Index
    plan: Plan
    candidates: Gathered
    funnel: Funnel | None


WHOLE_QUERIES = PlacementSettings(randomize_allocation_candidates=True)
"""How Roost's own queries are matched: they name each address, and their limit has room for hosts that are excluded. A
smaller one could leave only those, and one host before all others would have every conductor meet there."""


def find_in(index: Index, query: CandidateQuery, *, start: int = 0) -> Candidates:
    """Return the candidates of one of Roost's own queries by UUIDs, or the funnel that says why there are none."""
    matches = match(index, query, WHOLE_QUERIES, start=start)
    if matches.funnel is not None:
        return Candidates((), {}, matches.funnel)
    return to_candidates(index, query, matches.plan, matches.candidates)


def match(
    index: Index, query: CandidateQuery, settings: PlacementSettings, *, start: int, counted_only: bool = False
) -> Matches:
    """Return the candidates of one query. start: which hosts come first, where that is for chance to say.

    counted_only: see imply.
    """
    plan = make_plan(index, query)
    limit = settings.limit(query.limit)
    nics = find_nics(index, query) if settings.implied_addresses else []
    implied = None
    if nics:
        implied = imply(
            index,
            nics,
            plan.viable,
            hosts_per_address=settings.hosts_per_address,
            limit=limit,
            start=start,
            counted_only=counted_only,
        )
        plan = replace(plan, viable=implied.viable)
    first = start if settings.randomize_allocation_candidates else 0
    candidates = gather(index, plan, limit=limit, start=first, depth_first=settings.depth_first)
    if not len(candidates):
        return Matches(index, plan, candidates, explain(index, query, nics, counted_only=counted_only))
    if implied is not None:
        plan, candidates = add_addresses(index, plan, candidates, implied)
    return Matches(index, plan, candidates, None)
