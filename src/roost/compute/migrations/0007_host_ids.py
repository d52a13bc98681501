"""Hosts have numbers, for clients below microversion 2.53, and a reason why they are disabled. Before."""

from alembic import op

revision = "compute_0007"
down_revision = "compute_0006"


def upgrade() -> None:
    """Every host gets a number; one that is disabled already has no reason."""
    op.execute("ALTER TABLE compute.host ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY UNIQUE")
    op.execute("ALTER TABLE compute.host ADD COLUMN disabled_reason text")
