"""Whose an intent is. Before."""

from alembic import op

revision = "network_0003"
down_revision = "network_0002"


def upgrade() -> None:
    """The revision of the port was never read: two requests of one port saw the same."""
    op.execute("ALTER TABLE network.intent DROP COLUMN revision, ADD COLUMN ticket bigint GENERATED ALWAYS AS IDENTITY")
