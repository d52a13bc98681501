"""The search on a Placement service over HTTP: its candidates; and where it has none, why not.

The API says nothing of an empty answer. So all providers are read then, and the ledger's own funnel counts them: a
provider that did not change since it was read last costs one request (its use), another one four.
"""

from collections.abc import Sequence

import structlog
from msgspec.structs import replace

from roost.clients.placement_bodies import CandidateAnswer, Usages, query_string
from roost.clients.placement_http import Answer
from roost.clients.placement_providers import read_names
from roost.clients.placement_reads import Elsewhere, list_heads, read_each, read_shape
from roost.placement.model import ProviderRow
from roost.placement.search.funnel import explain
from roost.placement.search.index import Delta, Index
from roost.seams.placement import CandidateQuery, Candidates, RequestGroup

log = structlog.get_logger()

EXPLAINED_PROVIDERS_MAX = 2000
"""With more providers a refusal comes without its funnel: reading them would take longer than a lease."""

NAMES_AT_ONCE = 8
"""Of more providers without a known name, all names are listed in one request."""


async def candidates(elsewhere: Elsewhere, queries: Sequence[CandidateQuery]) -> list[Candidates]:
    """See ClaimClient.candidates. Which host comes first is as the service orders them."""
    numbers = [str(number) for number in range(len(queries))]
    answers = await read_each(numbers, lambda number: _search(elsewhere, queries[int(number)]))
    index = None
    candidates_found: list[Candidates] = []
    for number, query in zip(numbers, queries, strict=True):
        answer = answers[number]
        if answer is not None and answer.allocation_requests:
            names = await _names(elsewhere, answer)
            candidates_found.append(Candidates(tuple(answer.candidates(query.distinct)), answer.summaries(names)))
            continue
        if index is None:
            index = await _read_index(elsewhere) or _TOO_MANY
        funnel = None if index is _TOO_MANY else explain(index, query)
        candidates_found.append(Candidates((), {}, funnel))
    return candidates_found


_TOO_MANY = Index()


async def _search(elsewhere: Elsewhere, query: CandidateQuery) -> CandidateAnswer | None:
    """Return the answer, None where the service refuses the query: nothing there is as it asks."""
    answer = await _ask(elsewhere, query)
    if answer.status == 400:
        await read_names(elsewhere)
        known = _as_known(elsewhere, query)
        if known is None:
            return None
        if known != query:
            answer = await _ask(elsewhere, known)
        if answer.status == 400:
            log.warning("the Placement service refuses a search", reason=answer.detail)
            return None
    return answer.read(CandidateAnswer)


async def _ask(elsewhere: Elsewhere, query: CandidateQuery) -> Answer:
    return await elsewhere.http.ask("GET", "/allocation_candidates", query=query_string(query))


def _as_known(elsewhere: Elsewhere, query: CandidateQuery) -> CandidateQuery | None:
    """Return the query without names that the service refuses; None where a name that is needed is one of them."""
    groups: list[RequestGroup] = []
    for group in query.groups:
        required = tuple(traits & elsewhere.traits for traits in group.required)
        if not all(required) or not set(group.resources) <= elsewhere.classes:
            return None
        groups.append(replace(group, required=required, forbidden=group.forbidden & elsewhere.traits))
    if not query.root_required <= elsewhere.traits:
        return None
    return replace(query, groups=tuple(groups), root_forbidden=query.root_forbidden & elsewhere.traits)


async def _names(elsewhere: Elsewhere, answer: CandidateAnswer) -> dict[str, str]:
    """Return the names of the providers of candidates, most of them remembered."""
    unknown = [uuid for uuid in answer.provider_summaries if uuid not in elsewhere.names]
    if len(unknown) > NAMES_AT_ONCE:
        await list_heads(elsewhere)
    elif unknown:
        await read_each(unknown, lambda uuid: list_heads(elsewhere, uuid=uuid))
    return elsewhere.names


async def _read_index(elsewhere: Elsewhere) -> Index | None:
    """Return all providers as a search sees them; None if there are too many."""
    heads = {head.uuid: head for head in await list_heads(elsewhere)}
    if len(heads) > EXPLAINED_PROVIDERS_MAX:
        return None
    ids = {uuid: number for number, uuid in enumerate(heads, 1)}

    async def read(uuid: str) -> ProviderRow | None:
        head = heads[uuid]
        shape = await read_shape(elsewhere, uuid, head.generation)
        usages = await elsewhere.http.get(f"/resource_providers/{uuid}/usages", Usages)
        if shape is None or usages is None:
            return None
        return ProviderRow(
            id=ids[uuid],
            uuid=uuid,
            name=head.name,
            generation=head.generation,
            parent_id=_id_of(ids, head.parent_provider_uuid),
            root_id=_id_of(ids, head.root_provider_uuid) or ids[uuid],
            inventories=shape.inventories,
            used={name: usages.usages.get(name, 0) for name in shape.inventories},
            traits=shape.traits,
            placement_aggregates=shape.placement_aggregates,
        )

    rows = await read_each(heads, read)
    index = Index()
    index.apply(Delta(providers=[row for row in rows.values() if row is not None]))
    return index


def _id_of(ids: dict[str, int], uuid: str | None) -> int | None:
    return ids.get(uuid) if uuid else None
