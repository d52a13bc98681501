"""GET /allocation_candidates, and Roost's own GET /explain, which says why it is empty. Source: Placement API 1.39."""

from email.utils import format_datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.placement import service_read
from roost.placement.answers import encode
from roost.placement.api.reads import API, fresh_response
from roost.placement.query import read_candidates
from roost.placement.service import Ledger
from roost.platform.errors import NotFound
from roost.platform.http import Version
from roost.seams.placement import CandidateQuery, Funnel

CANDIDATES_SINCE = (1, 10)
FRESH_SINCE = (1, 15)
EXPLAIN_HEADER = "X-Roost-Explain"


def candidate_routes(ledger: Ledger) -> list[Route]:
    """The routes of candidates."""

    async def list_candidates(request: Request) -> Response:
        version, query = _read(request)
        matches = await service_read.match_candidates(ledger, query)
        headers = {}
        if version >= FRESH_SINCE:
            headers = {"Cache-Control": "no-cache", "Last-Modified": format_datetime(ledger.env.now(), usegmt=True)}
        if matches.funnel is not None:
            headers[EXPLAIN_HEADER] = describe(matches.funnel)
        body = encode(matches.index, matches.plan, matches.found, version)
        return Response(body, headers=headers, media_type="application/json")

    async def explain(request: Request) -> Response:
        _, query = _read(request)
        funnel = await service_read.explain_candidates(ledger, query)
        steps = [
            {
                "requirement": step.requirement.name.lower(), "description": step.describe(), "group": step.suffix,
                "names": step.names, "amount": step.amount, "hosts_left": step.hosts_left,
            }
            for step in funnel.steps
        ]  # fmt: skip
        return fresh_response(ledger, {"explanation": describe(funnel), "steps": steps})

    return [
        API.route("/allocation_candidates", {"GET": list_candidates}),
        API.route("/explain", {"GET": explain}),
    ]


def describe(funnel: Funnel) -> str:
    """The requirement that the last hosts did not meet, in one line."""
    before = funnel.steps[0]
    for step in funnel.steps:
        if step.hosts_left == 0:
            return f"none of {before.hosts_left} hosts left: {step.describe()}"
        before = step
    return f"{before.hosts_left} hosts left"


def _read(request: Request) -> tuple[Version, CandidateQuery]:
    version: Version = request.state.microversion
    if version < CANDIDATES_SINCE:
        raise NotFound("The resource could not be found.")
    return version, read_candidates(request.scope["query_string"], version)
