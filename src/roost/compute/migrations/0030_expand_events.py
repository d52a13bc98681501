"""Events: what happened to servers and hosts, and the ids that callers gave the requests that led to it. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0030"
down_revision = "compute_0027"

SQL = """
CREATE TABLE compute.event (
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
CREATE INDEX event_at ON compute.event (at, id);
CREATE INDEX event_subjects ON compute.event USING gin (subjects jsonb_path_ops);
-- As the caller of the request named it; null where it did not.
ALTER TABLE compute.server ADD COLUMN global_request_id text;
ALTER TABLE compute.action ADD COLUMN global_request_id text;
"""


def upgrade() -> None:
    """What happened before is not told."""
    for statement in statements(SQL):
        op.execute(statement)
