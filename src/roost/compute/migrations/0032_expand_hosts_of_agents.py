"""An agent's hosts are found by an index, silent ones too. Before: a list of guests read the names of all hosts."""

from alembic import op

revision = "compute_0032"
down_revision = "compute_0030"


def upgrade() -> None:
    """The release before has its own index for hosts that are not silent."""
    op.execute("CREATE INDEX host_agent ON compute.host (agent_id)")
