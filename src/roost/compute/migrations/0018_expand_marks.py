"""How it is noticed that the records went back in time, and what is waited for then. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0018"
down_revision = "compute_0017"

SQL = """
CREATE TABLE compute.mark_key (key bytea NOT NULL);
INSERT INTO compute.mark_key (key)
VALUES (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));
-- The records went back, or may have, where agent_id is NULL: their database is another one. mark_told: what proved it,
-- mark_known: the agent's own in the records. ended_at: every host that is alive has listed its guests since, or an
-- operator said that it is enough (ended_by). epoch: where attempts go on.
CREATE TABLE compute.recovery (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    noticed_at timestamptz NOT NULL DEFAULT now(),
    agent_id uuid,
    agent_label text NOT NULL DEFAULT '',
    mark_told bigint,
    mark_known bigint,
    epoch integer NOT NULL,
    ended_at timestamptz,
    ended_by text
);
CREATE UNIQUE INDEX recovery_open ON compute.recovery ((true)) WHERE ended_at IS NULL;
-- Which database the records were in: its timeline and its number in the cluster.
CREATE TABLE compute.database_seen (fingerprint text NOT NULL);
INSERT INTO compute.database_seen (fingerprint) VALUES ('');
-- When all guests of the host were last listed while the records are recovering.
ALTER TABLE compute.host ADD COLUMN listed_at timestamptz;
"""


def upgrade() -> None:
    """Marks begin with the next reports."""
    for statement in statements(SQL):
        op.execute(statement)
