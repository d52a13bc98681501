"""Which agent serves a host, which agent has a guest, and the guests that nobody here asked for. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0005"
down_revision = "compute_0004"

SQL = """
-- The agent that holds the lease on the host; the lease runs out when the host was not heard of for too long.
ALTER TABLE compute.host ADD COLUMN agent_id uuid, ADD COLUMN agent_label text NOT NULL DEFAULT '',
    ADD COLUMN agent_since timestamptz;
-- agent_id: who began the guest, or has it in its list; only that agent can say that it is gone.
-- lost_at: it was running, and its host has not got it any more. fenced: its host was forced down while it may have
-- had the guest; nothing waits for it, and the host destroys it when it is back.
ALTER TABLE compute.guest ADD COLUMN agent_id uuid, ADD COLUMN running_at timestamptz, ADD COLUMN lost_at timestamptz,
    ADD COLUMN fenced boolean NOT NULL DEFAULT false;
-- Guests that agents list and that this database does not know, or knows an older attempt of: a person decides.
CREATE TABLE compute.unknown_guest (
    host text NOT NULL,
    server_id uuid NOT NULL,
    attempt integer NOT NULL,
    listed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (host, server_id)
);
"""


def upgrade() -> None:
    """Guests that run already are the agent's that lists them next."""
    for statement in statements(SQL):
        op.execute(statement)
