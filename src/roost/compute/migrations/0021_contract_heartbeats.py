"""Agents are heard on their own rows, and prove who they are. Before: on those of their hosts, and without a secret."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0021"
down_revision = None

SQL = """
DROP TRIGGER agent_of_before ON compute.agent;
DROP FUNCTION compute.keep_as_before();
"""


def upgrade() -> None:
    """An agent that holds all its hosts is heard on its own row from its next poll on, which also stores its secret."""
    for statement in statements(SQL):
        op.execute(statement)
