"""Agents are heard on their own rows, which the release before does not read. Before: on those of their hosts."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0021"
down_revision = None

SQL = """
DROP TRIGGER agent_without_digest ON compute.agent;
DROP FUNCTION compute.keep_no_digest();
"""


def upgrade() -> None:
    """An agent that holds all its hosts is heard on its own row from its next poll on."""
    for statement in statements(SQL):
        op.execute(statement)
