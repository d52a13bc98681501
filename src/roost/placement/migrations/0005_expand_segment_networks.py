"""A segment's provider knows the network that Neutron says it is of. Before."""

from alembic import op

revision = "placement_0005"
down_revision = "placement_0004"


def upgrade() -> None:
    """Add the column: NULL where nobody told."""
    op.execute("ALTER TABLE placement.provider ADD COLUMN network_id uuid")
