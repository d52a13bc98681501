"""When the last round with Neutron ended is kept beside what it saw. Null where a release before this one polls."""

from alembic import op

revision = "placement_0008"
down_revision = "placement_0007"


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE placement.neutron_figures ADD COLUMN ended_at timestamptz")
