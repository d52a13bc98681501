"""Drains and recoveries of hosts. Before, operators moved servers one by one."""

from alembic import op

from roost.platform.migrate import statements

revision = "seeing_0001"
down_revision = None

SQL = """
CREATE TABLE seeing.drain (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- drain, or recover: roost.seeing.model.DrainKind.
    kind text NOT NULL,
    hosts text[] NOT NULL,
    segment text,
    parallel integer NOT NULL,
    readdress boolean NOT NULL DEFAULT false,
    project_id text NOT NULL,
    user_id text NOT NULL,
    -- Of every move that it begins: what those came to is read from the log of actions.
    request_id text NOT NULL,
    -- The most that were on its hosts, and how they stood at the last look: roost.seeing.model.DrainProgress.
    servers integer NOT NULL,
    progress jsonb NOT NULL DEFAULT '{}',
    cancelled boolean NOT NULL DEFAULT false,
    deadline_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    lease_owner uuid,
    lease_until timestamptz,
    due_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX drain_open ON seeing.drain (due_at) WHERE ended_at IS NULL;
"""


def upgrade() -> None:
    """Add the table of drains."""
    for statement in statements(SQL):
        op.execute(statement)
