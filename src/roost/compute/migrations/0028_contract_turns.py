"""Conductors lease work by project in turn. Before: the oldest rows, and who inserted work named no project."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0028"
down_revision = "compute_0021"

SQL = """
DROP TRIGGER work_of_before ON compute.work;
DROP FUNCTION compute.note_project();
DROP INDEX compute.work_run_at;
"""


def upgrade() -> None:
    """A boot, and each stage of it that waits, writes one index less."""
    for statement in statements(SQL):
        op.execute(statement)
