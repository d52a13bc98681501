"""Where a guest that takes over another's memory awaits it is kept with the guest. Before."""

from alembic import op

revision = "compute_0027"
down_revision = "compute_0026"


def upgrade() -> None:
    """Add the address and the token that the destination's agent says; null where it says none."""
    op.execute("ALTER TABLE compute.guest ADD COLUMN meeting jsonb")
