"""Notifications wait in the database until who is to be told of them has taken them. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "network_0005"
down_revision = "network_0004"

SQL = """
-- Notifications that a destination has not taken yet, by destination. roost.platform.outbox.Notification.
CREATE TABLE network.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY,
    destination text NOT NULL,
    -- What they are about: those of one are delivered in order.
    subject text NOT NULL,
    notification json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Of one that was refused: how often, why, and when it is tried again. parked_at: it is not.
    tries integer NOT NULL DEFAULT 0,
    reason text,
    due_at timestamptz,
    parked_at timestamptz,
    PRIMARY KEY (destination, id)
-- Rows do not last: to compress them costs more than the room that they take.
) WITH (toast_tuple_target = 8160);
CREATE INDEX outbox_refused ON network.outbox (destination, subject) WHERE due_at IS NOT NULL;
-- Who delivers to a destination now; since when it takes nothing, and why.
CREATE TABLE network.outbox_destination (
    name text PRIMARY KEY,
    lease_owner uuid,
    lease_until timestamptz,
    failures integer NOT NULL DEFAULT 0,
    reason text,
    due_at timestamptz
);
"""


def upgrade() -> None:
    """Nothing waits."""
    for statement in statements(SQL):
        op.execute(statement)
