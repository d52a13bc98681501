"""Hosts that nobody declared wait for an operator, and hosts that begin no launch are closed. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0025"
down_revision = "compute_0024"

SQL = """
-- Registered by an agent with a token; nobody declared it, and no operator has accepted it.
ALTER TABLE compute.host ADD COLUMN waiting boolean NOT NULL DEFAULT false;
CREATE INDEX host_waiting ON compute.host (name) WHERE waiting;
-- unbegun: launches that the host did not begin, one after another, though its agent polled; unbegun_at: when the last
-- of them was given up. idle: closed for that. probe_at: when it is, or was, opened for one launch; probe_after_s: how
-- long after it was closed, 0 for a host that was not.
ALTER TABLE compute.host
    ADD COLUMN unbegun integer NOT NULL DEFAULT 0,
    ADD COLUMN unbegun_at timestamptz,
    ADD COLUMN idle boolean NOT NULL DEFAULT false,
    ADD COLUMN probe_at timestamptz,
    ADD COLUMN probe_after_s double precision NOT NULL DEFAULT 0;
CREATE INDEX host_unbegun ON compute.host (name) WHERE unbegun > 0;
"""


def upgrade() -> None:
    """Hosts that are known count as accepted."""
    for statement in statements(SQL):
        op.execute(statement)
