"""Addresses of guests that the records do not know, whoever has them now: held once nobody else has. Before.

The release before frees what another port gives up, and the next look at the guests' host holds it.
"""

from alembic import op

from roost.platform.migrate import statements

revision = "network_0009"
down_revision = "network_0008"

SQL = """
-- port_id: the hidden port of the guest's NIC, of which a row without a port says nothing.
CREATE TABLE network.listed_address (
    subnet_id uuid NOT NULL REFERENCES network.subnet ON DELETE CASCADE,
    address inet NOT NULL,
    port_id uuid NOT NULL,
    PRIMARY KEY (subnet_id, address, port_id)
);
CREATE INDEX listed_address_port ON network.listed_address (port_id);
"""


def upgrade() -> None:
    """Nobody has listed anything until the next look at each host."""
    for statement in statements(SQL):
        op.execute(statement)
