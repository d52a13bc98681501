"""A hidden port may hold what a server's guest still has of a NIC that its server has lost. Before: nobody did."""

from alembic import op

revision = "network_0013"
down_revision = "network_0012"


def upgrade() -> None:
    """Add when the server lost it; null for all other ports."""
    op.execute("ALTER TABLE network.port ADD COLUMN left_at timestamptz")
