"""Ports over HTTP."""

import ipaddress
from collections.abc import Sequence

from starlette.requests import Request

from roost.network.api import bodies_ports as bodies
from roost.network.api import documents, listing
from roost.network.api.access import access_of
from roost.network.api.documents import PortDocument
from roost.network.api.resources import Resource
from roost.network.errors import PortNotFound
from roost.network.model import Port, PortFilter
from roost.network.service import Networks
from roost.network.service import ports as service
from roost.platform.http import is_uuid
from roost.platform.operations import Operations

NARROWED = frozenset({
    "id", "network_id", "device_id", "device_owner", "project_id", "name", "binding:host_id", "mac_address",
    "fixed_ips",
})  # fmt: skip
"""The filters that the database applies wholly."""


async def _find(context: Networks, ids: Sequence[str]) -> list[Port]:
    return await service.list_ports(context, PortFilter(ids=tuple(ids)))


PORT = Resource(
    one="port",
    many="ports",
    document=PortDocument,
    missing=PortNotFound,
    find=_find,
    show=documents.port,
)


def port_operations(context: Networks) -> Operations:
    """Of the collection, and of one port."""

    async def list_narrowed(request: Request) -> list[Port]:
        return await service.list_ports(context, _filter(request))

    async def create(items: Sequence[bodies.PortBody]) -> list[Port]:
        return await service.create_ports(context, [bodies.port(item, context.default_project) for item in items])

    async def update(port_id: str, body: bodies.PortUpdateBody, revision: int | None) -> Port:
        return await service.update_port(context, port_id, bodies.port_changes(body, revision))

    return PORT.operations(
        context,
        list_narrowed=list_narrowed,
        create=create,
        create_body=bodies.PortEnvelope,
        update=update,
        update_body=bodies.PortUpdateEnvelope,
        delete=service.delete_port,
    )


def _filter(request: Request) -> PortFilter:
    """What the database can narrow down; `listing` filters by everything again."""
    fixed_ips = listing.fixed_ip_filters(request)
    addresses, subnet_ids = fixed_ips.get("ip_address"), fixed_ips.get("subnet_id")
    macs = listing.texts(request, "mac_address")
    narrowed = NARROWED if "ip_address_substr" not in fixed_ips else NARROWED - {"fixed_ips"}
    after, limit = listing.page_by_id(request, narrowed)
    access = access_of(request)
    scoped = None if access is None or access.privileged else access
    return PortFilter(
        ids=listing.uuids(request, "id"),
        network_ids=listing.uuids(request, "network_id"),
        device_ids=listing.texts(request, "device_id"),
        device_owners=listing.texts(request, "device_owner"),
        project_ids=listing.texts(request, "project_id"),
        names=listing.texts(request, "name"),
        hosts=listing.texts(request, "binding:host_id"),
        mac_addresses=None if macs is None else tuple(map(listing.shown_mac, macs)),
        addresses=None if addresses is None else tuple(text for text in addresses if _is_address(text)),
        subnet_ids=None if subnet_ids is None else tuple(text for text in subnet_ids if is_uuid(text)),
        after=after,
        limit=limit,
        seen_by=None if scoped is None else scoped.caller.project_id or "",
        seen_networks=() if scoped is None else scoped.own_networks,
    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text
