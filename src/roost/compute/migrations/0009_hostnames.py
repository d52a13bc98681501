"""Servers have hostnames of their own. Before."""

from alembic import op

revision = "compute_0009"
down_revision = "compute_0008"


def upgrade() -> None:
    """A server that is there is shown with its name, as before."""
    op.execute("ALTER TABLE compute.server ADD COLUMN hostname text")
