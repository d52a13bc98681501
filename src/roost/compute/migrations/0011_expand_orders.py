"""Servers are built in one of three orders of stages, chosen at the beginning. Before."""

from alembic import op

revision = "compute_0011"
down_revision = "compute_0010"


def upgrade() -> None:
    """A server without an order is in the early one, the only one that there was."""
    op.execute("ALTER TABLE compute.server ADD COLUMN build_order jsonb")
