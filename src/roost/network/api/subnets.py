"""Subnets over HTTP."""

from collections.abc import Sequence

from roost.network.api import bodies_subnets as bodies
from roost.network.api import documents
from roost.network.api.bodies import refuse_many
from roost.network.api.documents import SubnetDocument
from roost.network.api.policies import OWN_NETWORK, OWN_OR_NETWORK, SEEN_SUBNET
from roost.network.api.resources import Resource
from roost.network.errors import SubnetNotFound
from roost.network.model.networks import Subnet
from roost.network.service import Networks
from roost.network.service import subnets as service
from roost.platform.operations import Operations

SUBNET = Resource(
    one="subnet",
    many="subnets",
    document=SubnetDocument,
    missing=SubnetNotFound,
    find=service.list_subnets,
    show=documents.subnet,
    defaults={"get": SEEN_SUBNET, "create": OWN_NETWORK, "update": OWN_OR_NETWORK, "delete": OWN_OR_NETWORK},
    more_flags=frozenset({"shared"}),
)
"""`shared` is the network's: a filter that subnets do not show. Source: neutron-lib, definitions/subnet.py."""


def subnet_operations(context: Networks) -> Operations:
    """Of the collection, and of one subnet."""

    async def create(items: Sequence[bodies.SubnetBody]) -> list[Subnet]:
        refuse_many("allocation_pools", (item.allocation_pools for item in items))
        wanted = [bodies.subnet(item, context.env, context.default_project) for item in items]
        return await service.create_subnets(context, wanted)

    async def update(subnet_id: str, body: bodies.SubnetUpdateBody, revision: int | None) -> Subnet:
        return await service.update_subnet(context, subnet_id, bodies.subnet_changes(body, revision))

    return SUBNET.operations(
        context,
        create=create,
        create_body=bodies.SubnetEnvelope,
        update=update,
        update_body=bodies.SubnetUpdateEnvelope,
        delete=service.delete_subnet,
    )
