"""Networks, segments and subnets over HTTP."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import bodies, documents, listing
from roost.network.api.documents import Document
from roost.network.errors import NetworkNotFound, SegmentNotFound, SubnetNotFound
from roost.network.service import Networks, subnets
from roost.network.service import networks as service
from roost.platform.errors import NotFound
from roost.platform.http import Endpoint, canonical_uuid, is_uuid, json_response, read_json

T = TypeVar("T")


def network_endpoints(context: Networks) -> tuple[dict[str, Endpoint], dict[str, Endpoint]]:
    """Of the collection, and of one network."""

    async def create(request: Request) -> Response:
        body = await read_json(request, bodies.NetworkEnvelope)
        made = await service.create_network(context, bodies.network(body.network, context.env, context.default_project))
        return json_response({"network": documents.network(made)}, 201)

    return (
        {"GET": _list(context, "networks", service.list_networks, documents.network), "POST": create},
        {
            "GET": _show(context, "network", service.list_networks, documents.network, NetworkNotFound),
            "DELETE": _delete(context, "Network", service.delete_network, NetworkNotFound),
        },
    )


def segment_endpoints(context: Networks) -> tuple[dict[str, Endpoint], dict[str, Endpoint]]:
    """Of the collection, and of one segment."""

    async def create(request: Request) -> Response:
        body = await read_json(request, bodies.SegmentEnvelope)
        made = await service.create_segment(context, bodies.segment(body.segment, context.env))
        return json_response({"segment": documents.segment(made)}, 201)

    return (
        {"GET": _list(context, "segments", service.list_segments, documents.segment), "POST": create},
        {
            "GET": _show(context, "segment", service.list_segments, documents.segment, SegmentNotFound),
            "DELETE": _delete(context, "Segment", service.delete_segment, SegmentNotFound),
        },
    )


def subnet_endpoints(context: Networks) -> tuple[dict[str, Endpoint], dict[str, Endpoint]]:
    """Of the collection, and of one subnet."""

    async def create(request: Request) -> Response:
        body = await read_json(request, bodies.SubnetEnvelope)
        made = await subnets.create_subnet(context, bodies.subnet(body.subnet, context.env, context.default_project))
        return json_response({"subnet": documents.subnet(made)}, 201)

    return (
        {"GET": _list(context, "subnets", subnets.list_subnets, documents.subnet), "POST": create},
        {
            "GET": _show(context, "subnet", subnets.list_subnets, documents.subnet, SubnetNotFound),
            "DELETE": _delete(context, "Subnet", subnets.delete_subnet, SubnetNotFound),
        },
    )


def path_id(request: Request, kind: str, missing: type[NotFound]) -> str:
    """The id in the path; what is no UUID names nothing."""
    text: str = request.path_params["id"]
    if not is_uuid(text):
        raise missing(f"{kind} {text} could not be found.")
    return canonical_uuid(text)


def _list(
    context: Networks,
    key: str,
    find: Callable[[Networks, Sequence[str] | None], Awaitable[list[T]]],
    show: Callable[[T], Document],
) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        named = request.query_params.getlist("id")
        ids = [canonical_uuid(text) for text in named if is_uuid(text)] if named else None
        shown = [show(item) for item in await find(context, ids)]
        return json_response({key: listing.select(shown, request, ATTRIBUTES[key])})

    return endpoint


def _show(
    context: Networks,
    key: str,
    find: Callable[[Networks, Sequence[str] | None], Awaitable[list[T]]],
    show: Callable[[T], Document],
    missing: type[NotFound],
) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        wanted = path_id(request, key.capitalize(), missing)
        found = await find(context, [wanted])
        if not found:
            raise missing(f"{key.capitalize()} {wanted} could not be found.")
        return json_response({key: listing.show_fields(show(found[0]), request)})

    return endpoint


def _delete(
    context: Networks, kind: str, delete: Callable[[Networks, str], Awaitable[None]], missing: type[NotFound]
) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        await delete(context, path_id(request, kind, missing))
        return Response(status_code=204)

    return endpoint


def _attributes(*names: str) -> frozenset[str]:
    return frozenset((*names, "id", "name", "description", "revision_number", "created_at", "updated_at"))


ATTRIBUTES: dict[str, frozenset[str]] = {
    "networks": _attributes(
        "tenant_id", "project_id", "admin_state_up", "status", "shared", "router:external", "mtu",
        "provider:network_type", "provider:physical_network", "provider:segmentation_id",
    ),
    "segments": _attributes("network_id", "network_type", "physical_network", "segmentation_id"),
    "subnets": _attributes(
        "tenant_id", "project_id", "network_id", "segment_id", "ip_version", "cidr", "gateway_ip", "enable_dhcp",
        "subnetpool_id", "ipv6_ra_mode", "ipv6_address_mode",
    ),
    "ports": _attributes(
        "tenant_id", "project_id", "network_id", "mac_address", "admin_state_up", "status", "device_id",
        "device_owner", "fixed_ips", "ip_allocation", "binding:host_id", "binding:vnic_type", "binding:vif_type",
    ),
}  # fmt: skip
"""By what each collection may be filtered and sorted."""
