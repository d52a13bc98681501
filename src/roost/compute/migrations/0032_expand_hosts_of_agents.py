"""An agent's hosts are found by an index, silent ones too. Before: a list of guests read the names of all hosts."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0032"
down_revision = "compute_0030"

SQL = """
CREATE INDEX host_agent ON compute.host (agent_id);
DROP INDEX compute.host_heard;  -- what the release before read by it, it reads by the new one
"""


def upgrade() -> None:
    """A change of whether a host is silent writes no index of its agents any more."""
    for statement in statements(SQL):
        op.execute(statement)
