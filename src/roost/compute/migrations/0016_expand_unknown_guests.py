"""What agents say of guests that nobody asked for, and whether their addresses are held. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0016"
down_revision = "compute_0015"

SQL = """
-- listed: roost.seams.agent.ListedGuest as its agent listed it last.
ALTER TABLE compute.unknown_guest ADD COLUMN listed jsonb;
"""


def upgrade() -> None:
    """What unknown guests are is known with the next lists."""
    for statement in statements(SQL):
        op.execute(statement)
