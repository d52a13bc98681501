"""The Network API: decode, call one service function, encode."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.network.api.availability import availability_endpoints
from roost.network.api.errors import PROBLEMS, neutron_error
from roost.network.api.ports import port_endpoints
from roost.network.api.resources import network_endpoints, segment_endpoints, subnet_endpoints
from roost.network.service import Networks
from roost.platform.errors import NotFound
from roost.platform.http import Api, json_response, root_url

EXTENSIONS: dict[str, str] = {
    "binding": "Port Binding",
    "ip_allocation": "IP Allocation",
    "l2_adjacency": "L2 Adjacency",
    "multi-provider": "Multi Provider Network",
    "network-ip-availability": "Network IP Availability",
    "network-ip-availability-details": "Network IP Availability Details Extension",
    "pagination": "Pagination support",
    "project-id": "project_id field enabled",
    "provider": "Provider Network",
    "revision-if-match": "If-Match constraints based on revision_number",
    "segment": "Segment",
    "sorting": "Sorting support",
    "standard-attr-description": "standard-attr-description",
    "standard-attr-revisions": "Resource revision numbers",
    "standard-attr-segment": "Standard Attr Extension for Segment",
    "standard-attr-timestamp": "Resource timestamps",
}
"""Alias -> name, of what is served."""


def routes(networks: Networks) -> list[Route]:
    """Everything below the API's root; whoever serves it mounts it at /network."""
    api = Api(problems=PROBLEMS, dialect=neutron_error)
    collections = {
        "networks": network_endpoints(networks),
        "segments": segment_endpoints(networks),
        "subnets": subnet_endpoints(networks),
        "ports": port_endpoints(networks),
        "network-ip-availabilities": availability_endpoints(networks),
    }
    found: list[Route] = [
        api.route("/", {"GET": _versions}),
        api.route("/v2.0", {"GET": _resources}),
        api.route("/v2.0/", {"GET": _resources}),
        api.route("/v2.0/extensions", {"GET": _extensions}),
        api.route("/v2.0/extensions/{alias}", {"GET": _extension}),
    ]
    for name, (collection, one) in collections.items():
        found += [api.route(f"/v2.0/{name}", collection), api.route(f"/v2.0/{name}/{{id}}", one)]
    return [*found, api.not_found()]


async def _versions(request: Request) -> Response:
    links = [{"rel": "self", "href": f"{root_url(request)}/v2.0/"}]
    return json_response({"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]})


async def _resources(request: Request) -> Response:
    root = f"{root_url(request)}/v2.0"
    shown = [
        {"name": name[:-1], "collection": name, "links": [{"rel": "self", "href": f"{root}/{name}"}]}
        for name in ("networks", "segments", "subnets", "ports")
    ]
    return json_response({"resources": shown})


async def _extensions(_request: Request) -> Response:
    return json_response({"extensions": [_shown(alias) for alias in sorted(EXTENSIONS)]})


async def _extension(request: Request) -> Response:
    alias = request.path_params["alias"]
    if alias not in EXTENSIONS:
        raise NotFound(f"Extension with alias {alias} does not exist")
    return json_response({"extension": _shown(alias)})


def _shown(alias: str) -> dict[str, Any]:
    name = EXTENSIONS[alias]
    return {"alias": alias, "name": name, "description": name, "updated": "2026-01-01T00:00:00-00:00", "links": []}
