"""Servers in the Compute API's shapes.

Accepted and kept: imageRef, metadata, description, availability_zone. Accepted and without effect so far: the rest of
_ServerBody. Every other key is refused, as Nova does.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.requests import (
    Name,
    Whole,
    flag,
    links,
    next_link,
    page_limit,
    path_text,
    read_body,
    text_parameter,
)
from roost.compute.api.server_documents import show_brief, show_server
from roost.compute.errors import ServerNotFound
from roost.compute.model import NicAsked, Server, ServerFilter, ServerRequest
from roost.compute.servers import read_counts
from roost.compute.service import Compute
from roost.compute.service import servers as service
from roost.platform.errors import BadRequest
from roost.platform.http import Endpoint, canonical_uuid, is_uuid, json_response

Text = Annotated[str, Meta(max_length=255)]


class _NicBody(Struct, frozen=True, forbid_unknown_fields=True):
    uuid: str | None = None
    port: str | None = None
    fixed_ip: str | None = None
    tag: str | None = None


class _ServerBody(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    flavor_ref: Name | int = field(name="flavorRef")
    image_ref: Text | None = field(name="imageRef", default="")
    networks: list[_NicBody] | Literal["auto", "none"] | None = None
    min_count: Whole | None = None
    max_count: Whole | None = None
    metadata: Annotated[dict[Name, Text], Meta(max_length=128)] = {}
    description: Text | None = None
    availability_zone: Text | None = None
    return_reservation_id: Any = False
    disk_config: Any = field(name="OS-DCF:diskConfig", default=None)
    admin_password: Any = field(name="adminPass", default=None)
    access_ip_v4: Any = field(name="accessIPv4", default=None)
    access_ip_v6: Any = field(name="accessIPv6", default=None)
    block_device_mapping: Any = None
    block_device_mapping_v2: Any = None
    config_drive: Any = None
    key_name: Any = None
    personality: Any = None
    scheduler_hints: Any = field(name="OS-SCH-HNT:scheduler_hints", default=None)
    security_groups: Any = None
    user_data: Any = None


class _CreateBody(Struct, frozen=True):
    server: _ServerBody


def endpoints(compute: Compute) -> dict[str, Mapping[str, Endpoint]]:
    """Path below /v2.1 -> method -> endpoint."""

    async def create(request: Request) -> Response:
        asked = (await read_body(request, _CreateBody)).server
        reservation_only = flag(asked.return_reservation_id, "return_reservation_id", default=False)
        accepted = await service.create_servers(
            compute, _read_server(asked), project_id=compute.default_project, user_id=compute.default_user
        )
        if reservation_only:
            return json_response({"reservation_id": accepted.reservation_id}, 202)
        server_id = accepted.server_ids[0]
        where = links(request, "servers", server_id)
        shown = {
            "id": server_id,
            "links": where,
            "OS-DCF:diskConfig": "MANUAL",
            "security_groups": [{"name": "default"}],
        }
        return json_response({"server": shown}, 202, {"Location": where[0]["href"]})

    async def list_brief(request: Request) -> Response:
        page, more = await _page(compute, request)
        return json_response({"servers": [show_brief(request, server) for server in page]} | more)

    async def list_detail(request: Request) -> Response:
        page, more = await _page(compute, request)
        return json_response({"servers": [show_server(request, server) for server in page]} | more)

    async def show(request: Request) -> Response:
        return json_response({"server": show_server(request, await service.get_server(compute, _server_id(request)))})

    async def delete(request: Request) -> Response:
        await service.delete_server(compute, _server_id(request))
        return json_response(None, 204)

    return {
        "/servers": {"GET": list_brief, "POST": create},
        "/servers/detail": {"GET": list_detail},
        "/servers/{server_id}": {"GET": show, "DELETE": delete},
    }


def _server_id(request: Request) -> str:
    text = path_text(request, "server_id")
    if not is_uuid(text):
        raise ServerNotFound(f"Instance {text} could not be found.")
    return canonical_uuid(text)


def _read_server(asked: _ServerBody) -> ServerRequest:
    if not asked.name.strip():
        raise BadRequest("name: expected more than blanks")
    counts = read_counts(*(None if number is None else int(number) for number in (asked.min_count, asked.max_count)))
    if isinstance(counts, str):
        raise BadRequest(counts)
    return ServerRequest(
        name=asked.name.strip(),
        flavor_ref=str(asked.flavor_ref),
        nics=_read_nics(asked.networks),
        auto=asked.networks == "auto",
        image_ref=asked.image_ref or "",
        count=counts.most,
        metadata=asked.metadata,
        description=asked.description,
        availability_zone=asked.availability_zone,
    )


def _read_nics(networks: list[_NicBody] | str | None) -> tuple[NicAsked, ...] | None:
    if networks == "none":
        return ()
    if not networks or isinstance(networks, str):
        return None
    return tuple(
        NicAsked(
            network_id=_network_uuid(nic.uuid, "network uuid"),
            port_id=_network_uuid(nic.port, "port uuid"),
            fixed_ip=nic.fixed_ip,
            tag=nic.tag,
        )
        for nic in networks
    )


def _network_uuid(text: str | None, what: str) -> str | None:
    if text is None:
        return None
    if not is_uuid(text):
        raise BadRequest(f"Bad networks format: {what} is not in proper format ({text})")
    return canonical_uuid(text)


async def _page(compute: Compute, request: Request) -> tuple[list[Server], dict[str, Any]]:
    limit = page_limit(request)
    marker = text_parameter(request, "marker")
    if marker is not None and not is_uuid(marker):
        raise BadRequest(f"marker [{marker}] not found")
    page = await service.list_servers(
        compute,
        _read_filter(compute, request),
        marker=None if marker is None else canonical_uuid(marker),
        limit=limit,
        descending=_read_descending(request),
    )
    if len(page) < limit or not page:
        return page, {}
    return page, {"servers_links": next_link(request, page[-1].id, limit=limit)}


def _read_filter(compute: Compute, request: Request) -> ServerFilter:
    """What to list. Parameters that are not known are ignored, as Nova does below 2.75."""
    status, server_id = text_parameter(request, "status"), text_parameter(request, "uuid")
    if server_id is not None and not is_uuid(server_id):
        raise BadRequest(f"uuid={server_id}: expected a UUID")
    project_id = text_parameter(request, "project_id") or text_parameter(request, "tenant_id")
    if project_id is None and not flag(text_parameter(request, "all_tenants"), "all_tenants", default=False):
        project_id = compute.default_project
    return ServerFilter(
        project_id=project_id,
        name=text_parameter(request, "name"),
        status=None if status is None else status.upper(),
        host=text_parameter(request, "host"),
        flavor_id=text_parameter(request, "flavor"),
        reservation_id=text_parameter(request, "reservation_id"),
        server_id=None if server_id is None else canonical_uuid(server_id),
    )


def _read_descending(request: Request) -> bool:
    key, direction = text_parameter(request, "sort_key"), text_parameter(request, "sort_dir")
    if key not in (None, "created_at"):
        raise BadRequest(f"sort_key={key}: only created_at is supported")
    if direction not in (None, "asc", "desc"):
        raise BadRequest(f"sort_dir={direction}: expected asc or desc")
    return direction != "asc"
