-- Drains and recoveries of hosts.
--
-- A new database is made from this file. The migrations beside it bring older ones to the same, which
-- tests/platform/test_schemas.py holds.

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
