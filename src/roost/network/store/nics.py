"""What is around the NIC of a port: its network, and the segment that it is on."""

from collections.abc import Sequence

from roost.network.model.ports import Nic
from roost.network.store.ports import PAIRS
from roost.platform.database import Connection
from roost.platform.rows import read_row

# A port is on the segment of its addresses. Without any it is on its network's only one, as all ports of a network
# without subnets on segments are.
LIST_NICS = f"""
-- network.list_nics
SELECT p.id AS port_id, p.port_security_enabled, {PAIRS.format(row="p")}, n.id AS network_id, n.mtu,
    ARRAY(SELECT a.subnet_id FROM network.address a WHERE a.port_id = p.id ORDER BY a.subnet_id) AS subnet_ids,
    g.id AS segment_id, coalesce(g.network_type, n.network_type) AS network_type,
    CASE WHEN g.id IS NULL THEN n.physical_network ELSE g.physical_network END AS physical_network,
    CASE WHEN g.id IS NULL THEN n.segmentation_id ELSE g.segmentation_id END AS segmentation_id
FROM network.port p JOIN network.network n ON n.id = p.network_id
LEFT JOIN network.segment g ON g.id = coalesce(
    (SELECT s.segment_id FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id
        WHERE a.port_id = p.id AND s.segment_id IS NOT NULL LIMIT 1),
    (SELECT min(o.id::text)::uuid FROM network.segment o WHERE o.network_id = n.id HAVING count(*) = 1))
WHERE p.id = ANY($1::uuid[])
"""  # noqa: S608 - a constant of ports.py


async def list_nics(tx: Connection, port_ids: Sequence[str]) -> list[Nic]:
    """Return what is around the NICs of those of the ports that exist, hidden ones too."""
    return [read_row(Nic, row, "allowed_address_pairs") for row in await tx.fetch(LIST_NICS, port_ids)]
