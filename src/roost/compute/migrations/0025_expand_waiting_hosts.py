"""Hosts that nobody declared wait until an operator accepts them. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0025"
down_revision = "compute_0024"

SQL = """
-- Registered by an agent with a token; nobody declared it, and no operator has accepted it.
ALTER TABLE compute.host ADD COLUMN waiting boolean NOT NULL DEFAULT false;
CREATE INDEX host_waiting ON compute.host (name) WHERE waiting;
"""


def upgrade() -> None:
    """Hosts that are known count as accepted."""
    for statement in statements(SQL):
        op.execute(statement)
