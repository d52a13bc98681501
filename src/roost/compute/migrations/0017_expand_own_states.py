"""What guests do by themselves. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0017"
down_revision = "compute_0016"

SQL = """
-- sequence: of the driver's, of the last state that counted. power_state: as the host said it last, NULL for what
-- follows from the server's own state.
ALTER TABLE compute.guest ADD COLUMN sequence bigint NOT NULL DEFAULT 0;
ALTER TABLE compute.server ADD COLUMN power_state text;
"""


def upgrade() -> None:
    """Nothing was told so far."""
    for statement in statements(SQL):
        op.execute(statement)
