"""Servers that are to leave some hosts: what may be done with each now, and what came of it so far.

What one request did is what stands in the action log under its id: nothing else is kept of it.
"""

from collections.abc import Sequence

from msgspec.structs import asdict

from roost.compute.model.departures import Departure
from roost.compute.model.work import MoveKind
from roost.compute.rules import actions as rules
from roost.compute.service.context import Compute
from roost.compute.service.moves import MOVES
from roost.compute.store import departures as store
from roost.compute.store.servers import get_servers

KINDS = (MoveKind.LIVE, MoveKind.MIGRATE, MoveKind.EVACUATE)
"""Moves that take a server off its host."""


async def list_departures(compute: Compute, hosts: Sequence[str], *, request_id: str) -> list[Departure]:
    """Return the servers that are to leave these hosts, in the order of creation.

    request_id: whose moves they are to leave by. Cost: one look at the servers of these hosts, and at all work.
    """
    async with compute.database.transaction(snapshot=True) as tx:
        rows = await store.list_departures(tx, hosts, request_id=request_id)
        servers = await get_servers(tx, [row.server_id for row in rows]) if rows else {}
    departures = []
    for row in rows:
        server = servers[row.server_id]
        refusals = {kind: rules.find_refusal(MOVES[kind], server, row.context, is_admin=True) for kind in KINDS}
        unconfirmed = rules.find_refusal(rules.CONFIRM, server, row.context, is_admin=True)
        departures.append(Departure(server=server, refusals=refusals, confirm_refusal=unconfirmed, **asdict(row)))
    return departures
