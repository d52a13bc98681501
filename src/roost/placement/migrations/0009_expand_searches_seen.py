"""When searches were last seen that name segments, as those of Nova's filter for routed networks do, and others."""

from alembic import op

revision = "placement_0009"
down_revision = "placement_0008"


def upgrade() -> None:
    """Add the table."""
    op.execute("""
        CREATE TABLE placement.searches_seen (
            names_segments boolean PRIMARY KEY,
            seen_at timestamptz NOT NULL
        )
    """)
