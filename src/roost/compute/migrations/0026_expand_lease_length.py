"""How long the lease of a host was, when it was given last. Before."""

from alembic import op

revision = "compute_0026"
down_revision = "compute_0025"


def upgrade() -> None:
    """Add [compute] host_down_after_s of who gave the lease; null where only the release before has: today's."""
    op.execute("ALTER TABLE compute.host ADD COLUMN lease_length_s double precision")
