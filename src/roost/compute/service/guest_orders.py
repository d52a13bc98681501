"""What hosts are asked for, with what there is to say of each guest: read for one poll, and kept nowhere.

The state that is desired is the pipeline's; what is around a NIC is the network service's, which is asked once.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from roost.compute.service.context import Compute
from roost.compute.store import guest_orders as store
from roost.seams.agent import AgentIdentity, GuestOrder, OrderId
from roost.seams.guests import GuestImage, NicNetwork
from roost.seams.network import Nic

ORDERS_MAX = 1000
"""Orders in one answer."""
VERSION_DESCRIBED = 6
"""From which service version on an agent is told what is around a guest's NICs."""


async def list_orders(compute: Compute, agent: AgentIdentity, *, busy: Sequence[OrderId]) -> list[GuestOrder]:
    """Return what the agent should change on the hosts that it holds, oldest first. busy: to leave out."""
    async with compute.database.connection() as connection:
        orders = await store.list_orders(connection, agent_id=agent.id, busy=busy, limit=ORDERS_MAX)
        if compute.with_ports_going is not None:
            orders = await compute.with_ports_going(connection, orders)
    return await _describe(compute, orders) if agent.service_version >= VERSION_DESCRIBED else orders


async def _describe(compute: Compute, orders: Sequence[GuestOrder]) -> list[GuestOrder]:
    """Return the orders with the networks of their ports, one for each in their order, and where their images are."""
    ids_by_order = {order.id: _port_ids(order) for order in orders}
    port_ids = sorted({port_id for ids in ids_by_order.values() for port_id in ids})
    nics = await compute.network.get_nic_networks(port_ids) if port_ids else {}
    return [
        replace(
            order,
            networks=tuple(
                replace(nics.get(port_id) or NicNetwork(port_id=""), port_id=port.port_id or "")
                for port_id, port in zip(ids_by_order[order.id], order.ports, strict=False)
            ),
            image=_located(compute, order.image),
        )
        for order in orders
    ]


def _located(compute: Compute, image: GuestImage | None) -> GuestImage | None:
    """Return the image with where the image service has its bytes, if there is one."""
    if image is None or compute.images is None:
        return image
    return replace(image, url=compute.images.file_url(image.id))


def _port_ids(order: GuestOrder) -> list[str]:
    """Return the ids of the ports of a guest's NICs, in order; on a flat network, that of the hidden one.

    Ports of a guest that is to be gone are there for old agents alone.
    """
    if order.desired == "absent":
        return []
    return [port.port_id or Nic(tag=port.tag).port_id_of(order.server_id) for port in order.ports]
