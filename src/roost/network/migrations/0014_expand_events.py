"""Events: what was repaired of networks and ports. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "network_0014"
down_revision = "network_0013"

SQL = """
CREATE TABLE network.event (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    kind text NOT NULL,
    action text NOT NULL,
    requirement text NOT NULL,
    project_id text,
    host text,
    source_host text,
    network_id text,
    network text NOT NULL,
    segment_id text,
    segment text NOT NULL,
    reason text NOT NULL,
    -- (requirement, hosts left), in order.
    funnel jsonb NOT NULL,
    -- The servers, each with its request: roost.platform.events.Subject.
    subjects jsonb NOT NULL,
    count integer NOT NULL
);
CREATE INDEX event_at ON network.event (at, id);
CREATE INDEX event_subjects ON network.event USING gin (subjects jsonb_path_ops);
"""


def upgrade() -> None:
    """What happened before is not told."""
    for statement in statements(SQL):
        op.execute(statement)
