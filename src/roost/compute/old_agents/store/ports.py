"""SQL of the ports that agents are told of with servers that are deleted."""

from collections.abc import Collection

import msgspec

from roost.platform.database import Connection
from roost.platform.rows import columns_of
from roost.seams.agent import GuestKey
from roost.seams.compute import RequestSpec, ServerPort
from roost.seams.network import Nic

# An address must not be used again while another host may have a guest that has it.
LIST_GOING = """-- compute.list_ports_going
SELECT s.id, g.host, s.network_info, s.spec FROM unnest($1::uuid[], $2::text[]) AS g (server_id, host)
JOIN compute.server s ON s.id = g.server_id
JOIN compute.work w ON w.server_id = s.id AND (w.deleting OR w.stage = 'delete')
WHERE NOT EXISTS (SELECT FROM compute.guest o WHERE o.server_id = s.id AND o.host <> g.host AND o.fenced_by IS NULL)"""

_spec = msgspec.json.Decoder(RequestSpec)
_ports = msgspec.json.Decoder(tuple[ServerPort, ...])


async def list_ports_going(
    tx: Connection, keys: Collection[GuestKey]
) -> dict[GuestKey, tuple[tuple[ServerPort, ...], tuple[Nic, ...]]]:
    """Return guest -> what is kept of its server's ports, and the server's NICs.

    Only of servers that are being deleted and have no guest on any other host.
    """
    rows = await tx.fetch(LIST_GOING, *(columns_of(keys) or [[], []]))
    return {
        (row["id"], row["host"]): (_ports.decode(row["network_info"]), _spec.decode(row["spec"]).nics) for row in rows
    }
