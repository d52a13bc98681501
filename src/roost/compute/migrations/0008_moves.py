"""Servers move and change: their moves, their actions, and what state their guests are in. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0008"
down_revision = "compute_0007"

SQL = """
-- power: the state of the guest as last reported, once the server has one. request_id: of the request that made it.
ALTER TABLE compute.server ADD COLUMN power text NOT NULL DEFAULT 'running',
    ADD COLUMN request_id text NOT NULL DEFAULT '', ADD COLUMN locked boolean NOT NULL DEFAULT false,
    ADD COLUMN locked_reason text, ADD COLUMN tags text[] NOT NULL DEFAULT '{}';
ALTER TABLE compute.guest DROP CONSTRAINT guest_desired_check, DROP CONSTRAINT guest_reported_check,
    ADD CONSTRAINT guest_desired_check
        CHECK (desired IN ('running', 'stopped', 'paused', 'suspended', 'incoming', 'absent')),
    -- hurry: a guest that takes over another's memory does so now.
    ADD COLUMN hurry boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT guest_reported_check
        CHECK (reported IN ('running', 'stopped', 'paused', 'suspended', 'incoming', 'failed', 'absent'));
-- A server on its way from one state or host to another. open: until all that it held is given back.
CREATE TABLE compute.move (
    -- The consumer that holds what the server had on its source.
    uuid uuid PRIMARY KEY,
    id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    server_id uuid NOT NULL,
    kind text NOT NULL,
    status text NOT NULL,
    source_host text,
    dest_host text,
    project_id text NOT NULL,
    user_id text NOT NULL,
    -- What the stages need of it: roost.compute.model.Plan.
    plan jsonb NOT NULL,
    open boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX move_open ON compute.move (server_id) WHERE open;
CREATE INDEX move_server ON compute.move (server_id);
-- A host with fenced guests makes no other before they are gone.
CREATE INDEX guest_fenced ON compute.guest (host) WHERE fenced;
-- What was asked of a server, but for its creation, and how each stage of it went: roost.compute.model.ActionEvent.
CREATE TABLE compute.action (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    server_id uuid NOT NULL,
    request_id text NOT NULL,
    name text NOT NULL,
    project_id text NOT NULL,
    user_id text NOT NULL,
    message text,
    events jsonb NOT NULL DEFAULT '[]',
    started_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX action_server ON compute.action (server_id, id);
"""


def upgrade() -> None:
    """Every guest that is there runs."""
    for statement in statements(SQL):
        op.execute(statement)
