"""Ports over HTTP."""

from collections.abc import Sequence

from roost.network.api import bodies_ports as bodies
from roost.network.api import documents
from roost.network.api.documents import PortDocument
from roost.network.api.resources import Resource
from roost.network.errors import PortNotFound
from roost.network.model import Port, PortFilter
from roost.network.service import Networks
from roost.network.service import ports as service
from roost.platform.operations import Operations


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

    async def create(items: Sequence[bodies.PortBody]) -> list[Port]:
        return await service.create_ports(context, [bodies.port(item, context.default_project) for item in items])

    async def update(port_id: str, body: bodies.PortUpdateBody, revision: int | None) -> Port:
        return await service.update_port(context, port_id, bodies.port_changes(body, revision))

    return PORT.operations(
        context,
        create=create,
        create_body=bodies.PortEnvelope,
        update=update,
        update_body=bodies.PortUpdateEnvelope,
        delete=service.delete_port,
    )
