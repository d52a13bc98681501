"""Operators have host aggregates of their own, and a host is shown as up once the ledger knows it. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0010"
down_revision = "compute_0009"

SQL = """
-- Whether an operator keeps its members; else the network service does, for a segment.
ALTER TABLE compute.host_aggregate ADD COLUMN of_operator boolean NOT NULL DEFAULT false;
-- Operators' aggregates that were deleted: a provider that is still in one was not told.
CREATE TABLE compute.former_aggregate (
    uuid uuid PRIMARY KEY,
    name text NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT now()
);
-- Whether the ledger was last told that the host is down.
ALTER TABLE compute.host ADD COLUMN down_told boolean NOT NULL DEFAULT true;
UPDATE compute.host SET down_told = forced_down OR silent;
"""


def upgrade() -> None:
    """All aggregates that there are were made for segments."""
    for statement in statements(SQL):
        op.execute(statement)
