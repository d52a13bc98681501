"""Addresses of guests that the records do not know are on hidden ports; of each host, as of when. Before.

An older release shows no such port to anybody, and counts none of its addresses as reserved.
"""

from alembic import op

from roost.platform.migrate import statements

revision = "network_0007"
down_revision = "network_0006"

SQL = """
-- When its unknown guests were read that hold addresses now; what was read earlier changes nothing any more.
ALTER TABLE network.host ADD COLUMN guests_as_of timestamptz;
CREATE INDEX port_unknown_guest ON network.port (host) WHERE device_owner = 'roost:held' AND nic_tag IS NOT NULL;
"""


def upgrade() -> None:
    """Add the column and the index."""
    for statement in statements(SQL):
        op.execute(statement)
