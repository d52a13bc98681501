"""No release looks for an agent's hosts among those that are not silent alone. Before: its index is for that."""

from alembic import op

revision = "compute_0034"
down_revision = "compute_0031"


def upgrade() -> None:
    """A change of whether a host is silent writes one index less."""
    op.execute("DROP INDEX compute.host_heard")
