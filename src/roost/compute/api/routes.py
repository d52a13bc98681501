"""Every path of the Compute API with its endpoints; mounted under /compute by who wires the services."""

from starlette.routing import Route

from roost.compute.api import aggregates, builds, declared_hosts, extensions, flavors, hosts, servers, versions, zones
from roost.compute.api.errors import API, UNVERSIONED
from roost.compute.service import Compute


def routes(compute: Compute) -> list[Route]:
    """The version documents at `/` and `/v2.1`, Roost's own, all else below `/v2.1`; last, a 404 in Nova's words."""
    tables = (
        flavors.endpoints(compute),
        servers.endpoints(compute),
        hosts.endpoints(compute),
        aggregates.endpoints(compute),
        zones.endpoints(compute),
        extensions.ENDPOINTS,
    )
    own = (builds.endpoints(compute), declared_hosts.endpoints(compute))
    return [
        *(UNVERSIONED.route(path, {"GET": endpoint}) for path, endpoint in versions.ENDPOINTS.items()),
        *(UNVERSIONED.route(path, methods) for table in own for path, methods in table.items()),
        *(API.route(f"/v2.1{path}", methods) for table in tables for path, methods in table.items()),
        API.not_found(),
    ]
