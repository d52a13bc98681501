"""Ports over HTTP."""

from collections.abc import Sequence

from roost.network.api import bodies_ports as bodies
from roost.network.api import documents
from roost.network.api.documents import PortDocument
from roost.network.api.policies import OWN, OWN_UNUSED_PORT, SEEN_PORT
from roost.network.api.resources import Resource
from roost.network.errors import InvalidInput, PortNotFound
from roost.network.model.ports import Port, PortFilter
from roost.network.service import Networks, agent_ports
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
    page=service.list_page,
    show=documents.port,
    defaults={"get": SEEN_PORT, "create": OWN, "update": OWN, "delete": OWN_UNUSED_PORT},
)


def port_operations(context: Networks) -> Operations:
    """Of the collection, and of one port."""

    async def create(items: Sequence[bodies.PortBody]) -> list[Port]:
        tags = [bodies.nic_tag(item.profile) for item in items]
        if len(items) == 1 and tags[0] is not None:
            wanted = bodies.new_agent_port(items[0], tags[0], context.default_project)
            return [await agent_ports.take_port(context, wanted)]
        if any(tags):
            raise InvalidInput(f"binding:profile: {bodies.NIC_KEY}: an agent makes one port at a time.")
        return await service.create_ports(context, [bodies.port(item, context.default_project) for item in items])

    async def update(port_id: str, body: bodies.PortUpdateBody, revision: int | None) -> Port:
        if (tag := bodies.nic_tag(body.profile)) is not None:
            there = await service.get_port(context, port_id)
            return await agent_ports.take_port(context, bodies.agent_port(body, tag, there, revision))
        return await service.update_port(context, port_id, bodies.port_changes(body, revision))

    return PORT.operations(
        context,
        create=create,
        create_body=bodies.PortEnvelope,
        update=update,
        update_body=bodies.PortUpdateEnvelope,
        delete=service.delete_port,
    )
