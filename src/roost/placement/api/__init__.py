"""The Placement API over HTTP: decode, call one service function, encode."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.placement.api.allocations import allocation_routes
from roost.placement.api.candidates import candidate_routes
from roost.placement.api.providers import provider_routes
from roost.placement.api.reads import API, MICROVERSIONS
from roost.placement.service import Ledger
from roost.platform.http import json_response, show


async def _versions(_request: Request) -> Response:
    """The version document, which clients read before they have a token."""
    version = {
        "id": "v1.0",
        "max_version": show(MICROVERSIONS.highest),
        "min_version": show(MICROVERSIONS.lowest),
        "status": "CURRENT",
        "links": [{"rel": "self", "href": ""}],
    }
    return json_response({"versions": [version]})


def routes(ledger: Ledger) -> list[Route]:
    """Every route, to be mounted at the root or below a name."""
    return [
        API.route("/", {"GET": _versions}),
        *provider_routes(ledger),
        *allocation_routes(ledger),
        *candidate_routes(ledger),
        API.not_found(),
    ]
