"""Which hosts have fallen silent. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0006"
down_revision = "compute_0005"

SQL = """
-- Not heard of for too long, or never: the ledger is to keep servers from it. Cleared by the host's next poll.
ALTER TABLE compute.host ADD COLUMN silent boolean NOT NULL DEFAULT true;
UPDATE compute.host SET silent = false WHERE seen_at IS NOT NULL;
UPDATE compute.host SET wanted = wanted + 1 WHERE silent;
"""


def upgrade() -> None:
    """Every host counts as heard of that ever was; who listens to the agents looks again."""
    for statement in statements(SQL):
        op.execute(statement)
