"""What the poller of Neutron saw of addresses is kept where every process reads it. Before."""

from alembic import op

revision = "placement_0007"
down_revision = "placement_0006"


def upgrade() -> None:
    """Add the table, of one row at most."""
    op.execute("""
        CREATE TABLE placement.neutron_figures (
            single boolean PRIMARY KEY DEFAULT true CHECK (single),
            figures jsonb NOT NULL
        )
    """)
