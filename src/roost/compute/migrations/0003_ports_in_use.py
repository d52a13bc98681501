"""Why a build must end. Before."""

from alembic import op

revision = "compute_0003"
down_revision = "compute_0002"


def upgrade() -> None:
    """Found out while a conductor had the row: whoever has it goes to the fail stage next. A Failure."""
    op.execute("ALTER TABLE compute.work ADD COLUMN must_fail jsonb")
