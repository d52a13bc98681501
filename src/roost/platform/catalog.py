"""Keystone's catalogue, as a token has it: where a service is, by its type, interface and region.

Source: Identity API v3, POST /v3/auth/tokens, `catalog`; keystoneauth, for which endpoint is chosen.
"""

from collections.abc import Sequence

from msgspec import Struct

from roost.platform.errors import RoostError


class EndpointMissing(RoostError):
    """The catalogue does not say where the service is."""


class Endpoint(Struct, frozen=True):
    """Where a service is, for some of its clients. region_id: empty for an endpoint of no region."""

    interface: str = ""
    region_id: str | None = None
    url: str = ""


class CatalogService(Struct, frozen=True):
    """A service of the catalogue."""

    type: str = ""
    endpoints: tuple[Endpoint, ...] = ()


def find_endpoint(catalog: Sequence[CatalogService], service_type: str, *, interface: str, region: str) -> str:
    """Return the address of a service. region: "" where there is only one.

    Raises EndpointMissing, which says what the catalogue has.
    """
    endpoints = [
        endpoint
        for service in catalog
        if service.type == service_type
        for endpoint in service.endpoints
        if endpoint.url
    ]
    fitting = [
        endpoint
        for endpoint in endpoints
        if endpoint.interface == interface and region in ("", endpoint.region_id or "")
    ]
    if len({endpoint.url for endpoint in fitting}) == 1:
        return fitting[0].url
    present = sorted({f"{endpoint.interface} in {endpoint.region_id or 'no region'}" for endpoint in endpoints})
    sought = f"{interface} in {region}" if region else interface
    amount = "several endpoints, name a region:" if fitting else "no endpoint"
    raise EndpointMissing(
        f"Keystone's catalogue has {amount} {sought} of the type {service_type}; "
        f"it has {', '.join(present) if present else 'none of this type'}"
    )
