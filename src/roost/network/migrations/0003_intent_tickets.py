"""Whose an intent is. Before."""

from alembic import op

revision = "network_0003"
down_revision = "network_0002"


def upgrade() -> None:
    """Replace the revision by a ticket: two requests of one port had the same revision."""
    op.execute("ALTER TABLE network.intent DROP COLUMN revision, ADD COLUMN ticket bigint GENERATED ALWAYS AS IDENTITY")
