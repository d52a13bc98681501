"""GET /allocation_candidates, and Roost's own GET /explain, which says why it is empty. Source: Placement API 1.39."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api import answer_schemas
from roost.placement.api.policies import ADMIN_OR_SERVICE
from roost.placement.api.protocol import answer, answer_bytes
from roost.placement.search.answers import encode
from roost.placement.search.query import read_candidates
from roost.placement.search.query_schema import CANDIDATE_PARAMETERS, LONG_SUFFIXES_SINCE, candidate_schema
from roost.placement.service import events as events_service
from roost.placement.service import reads as reads_service
from roost.placement.service.ledger import Ledger
from roost.platform.operations import Operation, Operations, Rule, Versions, version_of
from roost.platform.request_log import note_reason
from roost.seams.placement import CandidateQuery, Funnel

CANDIDATES_SINCE = (1, 10)
CANDIDATE_QUERY = Versions(
    {
        since: candidate_schema(since)
        for since in sorted({LONG_SUFFIXES_SINCE, *(since for since, _, _ in CANDIDATE_PARAMETERS)})
    }
)
EXPLAIN_HEADER = "X-Roost-Explain"
EXPLAIN_CHARACTERS_MAX = 500
RULE = Rule("placement:allocation_candidates:list", ADMIN_OR_SERVICE)


@dataclass(frozen=True)
class CandidateOperations:
    """The operations of candidates."""

    ledger: Ledger

    async def list_candidates(self, request: Request) -> Response:
        version = version_of(request)
        matches = await reads_service.match_candidates(self.ledger, _query(request))
        body = encode(matches.index, matches.plan, matches.candidates, version)
        if matches.funnel is None:
            return answer_bytes(request, body, headers={})
        why = _short(describe(matches.funnel))
        note_reason(request.scope, why)
        events_service.note_search(self.ledger, matches.funnel, why)
        return answer_bytes(request, body, headers={EXPLAIN_HEADER: why})

    async def explain(self, request: Request) -> Response:
        funnel = await reads_service.explain_candidates(self.ledger, _query(request))
        steps = [
            {
                "requirement": step.requirement.name.lower(), "description": step.describe(), "group": step.suffix,
                "names": step.names, "amount": step.amount, "hosts_left": step.hosts_left,
            }
            for step in funnel.steps
        ]  # fmt: skip
        shortages = [
            {
                "has": shortage.has.describe(), "lacks": shortage.lacks.describe(), "hosts": shortage.hosts,
                "member_of": shortage.placement_aggregates,
            }
            for shortage in funnel.shortages
        ]  # fmt: skip
        return answer(request, {"explanation": describe(funnel), "steps": steps, "shortages": shortages})

    def operations(self) -> Operations:
        """Return the operations, by path and method."""
        return {
            "/allocation_candidates": {
                "GET": Operation(
                    summary="the ways to satisfy a request, with granular groups", endpoint=self.list_candidates,
                    result=answer_schemas.CANDIDATES, rule=RULE, since=CANDIDATES_SINCE, query=CANDIDATE_QUERY,
                )
            },
            "/explain": {
                "GET": Operation(
                    summary="Roost's own: how many hosts each requirement of a query for candidates leaves",
                    endpoint=self.explain, result=answer_schemas.EXPLANATION, rule=RULE, since=CANDIDATES_SINCE,
                    query=CANDIDATE_QUERY,
                )
            },
        }  # fmt: skip


def describe(funnel: Funnel) -> str:
    """Return the requirement that the last hosts did not meet, and what is short in different places, in one line."""
    before = funnel.steps[0]
    for step in funnel.steps:
        if step.hosts_left == 0:
            empty = f"none of {before.hosts_left} hosts left: {step.describe()}"
            return "; ".join([empty, *(shortage.describe() for shortage in funnel.shortages)])
        before = step
    return f"{before.hosts_left} hosts left"


def _short(text: str) -> str:
    """Return as much as a header may have: proxies bound them, and `/explain` has the whole."""
    return text if len(text) <= EXPLAIN_CHARACTERS_MAX else f"{text[:EXPLAIN_CHARACTERS_MAX]}..."


def _query(request: Request) -> CandidateQuery:
    return read_candidates(request.scope["query_string"], version_of(request))
