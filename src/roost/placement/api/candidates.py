"""GET /allocation_candidates. Source: Placement API 1.39."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.placement import service_read
from roost.placement.api.protocol import Operation, Operations, answer
from roost.placement.candidates import amounts_of, rows_by_suffix
from roost.placement.index import NO_ROW, Index
from roost.placement.query import parse_candidates
from roost.placement.service_ledger import Ledger
from roost.placement.service_read import Matches


def candidate_operations(ledger: Ledger) -> Operations:
    """The operation of candidates."""

    async def list_candidates(request: Request) -> Response:
        query = parse_candidates(request.query_params.multi_items())
        matches = await service_read.match_candidates(ledger, query)
        return answer(request, encode_matches(matches))

    return {
        "/allocation_candidates": {
            "GET": Operation(
                summary="the ways to satisfy a request, with granular groups",
                endpoint=list_candidates,
                rule="placement:allocation_candidates:list",
                since=(1, 10),
            )
        }
    }


def encode_matches(matches: Matches) -> dict[str, Any]:
    """The answer's body: the candidates, and every provider of the trees that they touch."""
    index, plan = matches.index, matches.plan
    uuids = index.uuids
    requests = [
        {
            "allocations": {uuids[row]: {"resources": taken} for row, taken in amounts_of(plan, found).items()},
            "mappings": {suffix: [uuids[row] for row in rows] for suffix, rows in rows_by_suffix(plan, found).items()},
        }
        for found in matches.found
    ]
    roots = dict.fromkeys(int(index.root_row[row]) for found in matches.found for row in found.rows)
    rows = [row for root in roots for row in index.trees().rows_of(root)]
    return {
        "allocation_requests": requests,
        "provider_summaries": {uuids[row]: _summary(index, row) for row in rows},
    }


def _summary(index: Index, row: int) -> dict[str, Any]:
    used = index.used[row]
    parent = int(index.parent_row[row])
    return {
        "resources": {
            name: {"capacity": inventory.capacity, "used": used[name]}
            for name, inventory in index.inventories[row].items()
        },
        "traits": sorted(index.traits[row]),
        "parent_provider_uuid": None if parent == NO_ROW else index.uuids[parent],
        "root_provider_uuid": index.uuids[index.root_row[row]],
    }
