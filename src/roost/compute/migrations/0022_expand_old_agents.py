"""Hosts whose agents are too old are closed. Before."""

from alembic import op

revision = "compute_0022"
down_revision = "compute_0020"


def upgrade() -> None:
    """Add what is noted by who hears the agents: the service version is below [compute] service_version_min."""
    op.execute("ALTER TABLE compute.host ADD COLUMN too_old boolean NOT NULL DEFAULT false")
