"""The ports that agents are told of with servers that are deleted: those of service version 1 delete them."""

from collections.abc import Sequence

from msgspec.structs import replace

from roost.compute.old_agents.rules.ports import ports_to_give_back
from roost.compute.old_agents.store.ports import list_ports_going
from roost.platform.database import Connection
from roost.seams.agent import GuestOrder


async def with_ports_going(tx: Connection, orders: Sequence[GuestOrder]) -> list[GuestOrder]:
    """Return the orders; those to let go of the last guest of a server that is being deleted name its ports."""
    keys = [order.key for order in orders if order.desired == "absent"]
    going = await list_ports_going(tx, keys) if keys else {}
    return [
        replace(order, ports=ports_to_give_back(order.server_id, *going[order.key]))
        if order.desired == "absent" and order.key in going
        else order
        for order in orders
    ]
