"""Capacity follows from what is: addresses claimed outside the pools, and held inside them unclaimed. Before: by steps.

The release before keeps no such address, and counts the pools alone: while it runs beside, no pools are changed.
"""

from alembic import op

from roost.platform.migrate import statements

revision = "network_0010"
down_revision = "network_0009"

SQL = """
CREATE INDEX address_apart ON network.address (subnet_id) WHERE claimed <> in_pool;
CREATE INDEX publication_due ON network.publication (provider_uuid) WHERE wanted > published;
"""


def upgrade() -> None:
    """Add the columns, with nothing counted apart yet."""
    for statement in statements(SQL):
        op.execute(statement)
