"""Servers' addresses of flat networks are on ports that no client sees. After: an older conductor knows the old table.

What was assigned counts as settled, for whose build it was this schema does not know: a server that is being built
meanwhile keeps its address, in its cell, whatever becomes of its launches.
"""

import uuid

import sqlalchemy as sa
from alembic import op

from roost.platform.migrate import statements

revision = "network_0004"
down_revision = "network_0003"

COLUMNS = """
-- On a flat network: the tag of its server's NIC. Such a port is never shown, and its address is claimed by the server.
ALTER TABLE network.port ADD COLUMN nic_tag text;
-- The resource provider whose inventory counts the pools: of a flat network, the subnet's own.
ALTER TABLE network.subnet ADD COLUMN provider_uuid uuid
    GENERATED ALWAYS AS (CASE WHEN cell IS NULL THEN coalesce(segment_id, network_id) ELSE id END) STORED;
CREATE INDEX subnet_provider ON network.subnet (provider_uuid);
"""

NICS = sa.table("flat_address", sa.column("server_id"), sa.column("tag"), schema="network")

MOVE_PORT = """
INSERT INTO network.port
    (id, network_id, project_id, mac_address, device_id, device_owner, ip_allocation, made_for, nic_tag)
SELECT :port_id, f.network_id, n.project_id, f.mac_address, f.server_id::text, 'compute:nova', 'deferred', f.server_id,
    f.tag
FROM network.flat_address f JOIN network.network n ON n.id = f.network_id
WHERE f.server_id = :server_id AND f.tag = :tag
"""

MOVE_ADDRESS = """
INSERT INTO network.address (subnet_id, address, port_id, in_pool, claimed)
SELECT f.subnet_id, f.address, p.id, true, false
FROM network.flat_address f JOIN network.port p ON p.made_for = f.server_id AND p.nic_tag = f.tag
"""

TABLES = """
DROP TABLE network.flat_address;
DROP SEQUENCE network.flat_ticket;
"""


def upgrade() -> None:
    """Add the columns, make a port of each address, and drop the table that they were in."""
    for statement in statements(COLUMNS):
        op.execute(statement)
    connection = op.get_bind()
    nics = connection.execute(sa.select(NICS)).all()
    moves = [{"port_id": uuid.uuid5(server_id, tag), "server_id": server_id, "tag": tag} for server_id, tag in nics]
    if moves:
        connection.execute(sa.text(MOVE_PORT), moves)
    for statement in statements(MOVE_ADDRESS + ";\n" + TABLES):
        op.execute(statement)
