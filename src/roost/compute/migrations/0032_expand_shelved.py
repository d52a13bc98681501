"""A server whose disk is on its host is shelved there. Before: every shelved server left its host."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0032"
down_revision = "compute_0030"

SQL = """
ALTER TABLE compute.server ADD COLUMN shelved boolean NOT NULL DEFAULT false;
ALTER TABLE compute.host ADD COLUMN keeps_disks boolean NOT NULL DEFAULT false;
"""


def upgrade() -> None:
    """Add the mark of such servers, and what their hosts say of disks; no agent has said it yet."""
    for statement in statements(SQL):
        op.execute(statement)
