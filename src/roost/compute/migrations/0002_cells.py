"""A host belongs to a cell. Before."""

from alembic import op

revision = "compute_0002"
down_revision = "compute_0001"


def upgrade() -> None:
    """Every host is in the default cell until it is reported, or declared, in another."""
    op.execute("ALTER TABLE compute.host ADD COLUMN cell text NOT NULL DEFAULT 'cell1'")
