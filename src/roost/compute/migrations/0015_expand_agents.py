"""Agents as rows of their own: boot, secret, heartbeat, and which hosts they hold. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0015"
down_revision = "compute_0014"

SQL = """
-- boot_id: of the newest start, NULL for an agent that says none; boot_since: when it was first heard. former_boots: of
-- the starts before, the latest first. former_at: when one of those last spoke although the newest had come, boot_at:
-- when the newest last did since. secret_sha256: NULL until it brings one, and required from then on.
-- seen_at: when it last held all hosts of hosts_digest. hosts_digest: of the hosts that it holds, if it holds all that
-- it asked for, and no others, and none is silent; else NULL. mark: moves with every commit that the agent can see.
CREATE TABLE compute.agent (
    id uuid PRIMARY KEY,
    label text NOT NULL DEFAULT '',
    service_version integer NOT NULL DEFAULT 0,
    boot_id uuid,
    boot_since timestamptz NOT NULL DEFAULT now(),
    boot_at timestamptz,
    former_boots uuid[] NOT NULL DEFAULT '{}',
    former_boot_id uuid,
    former_label text NOT NULL DEFAULT '',
    former_at timestamptz,
    secret_sha256 bytea,
    seen_at timestamptz,
    hosts_digest bytea,
    mark bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
-- Every agent that holds a host has a row.
INSERT INTO compute.agent (id, label)
SELECT DISTINCT ON (agent_id) agent_id, agent_label FROM compute.host WHERE agent_id IS NOT NULL;
-- changes: counts the changes of which hosts are declared.
CREATE TABLE compute.declared_hosts (changes bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO compute.declared_hosts (changes) VALUES (1);
CREATE INDEX host_heard ON compute.host (agent_id) WHERE NOT silent;
CREATE INDEX host_silent ON compute.host (name) WHERE silent;
CREATE INDEX guest_agent ON compute.guest (agent_id, host);
-- The release before hears agents on the rows of their hosts, and its agents bring no secret, also where they are put
-- back: as long as they may be there, all are heard so, and nobody's secret is kept.
CREATE FUNCTION compute.keep_as_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.hosts_digest := NULL; NEW.secret_sha256 := NULL; RETURN NEW; END
$$;
CREATE TRIGGER agent_of_before BEFORE INSERT OR UPDATE OF hosts_digest, secret_sha256 ON compute.agent FOR EACH ROW
    WHEN (NEW.hosts_digest IS NOT NULL OR NEW.secret_sha256 IS NOT NULL) EXECUTE FUNCTION compute.keep_as_before();
"""
NOTE_HOSTS = """
CREATE FUNCTION compute.note_hosts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ids uuid[];
    declares boolean;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        -- Sets, not joins: a join would go by the sizes of the first statement that came here.
        SELECT array_agg(DISTINCT agent_id ORDER BY agent_id) FILTER (WHERE agent_id IS NOT NULL) INTO ids FROM (
            (SELECT name, agent_id, silent FROM former EXCEPT SELECT name, agent_id, silent FROM present)
            UNION ALL (SELECT name, agent_id, silent FROM present EXCEPT SELECT name, agent_id, silent FROM former)
        ) AS changed;
        declares := EXISTS ((SELECT name, declared FROM former EXCEPT SELECT name, declared FROM present));
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(DISTINCT agent_id ORDER BY agent_id) INTO ids FROM former WHERE agent_id IS NOT NULL;
        declares := EXISTS (SELECT FROM former WHERE declared);
    ELSE
        declares := EXISTS (SELECT FROM present WHERE declared);
    END IF;
    IF ids IS NOT NULL THEN
        INSERT INTO compute.agent (id) SELECT unnest(ids) ON CONFLICT DO NOTHING;
        -- Locked also without a digest: who writes one now has not seen this change.
        PERFORM FROM compute.agent WHERE id = ANY(ids) ORDER BY id FOR NO KEY UPDATE;
        UPDATE compute.agent SET hosts_digest = NULL WHERE id = ANY(ids) AND hosts_digest IS NOT NULL;
    END IF;
    IF declares THEN
        UPDATE compute.declared_hosts SET changes = changes + 1;
    END IF;
    RETURN NULL;
END
$$
"""
TRIGGERS = """
CREATE TRIGGER host_updated AFTER UPDATE ON compute.host REFERENCING OLD TABLE AS former NEW TABLE AS present
    FOR EACH STATEMENT EXECUTE FUNCTION compute.note_hosts();
CREATE TRIGGER host_deleted AFTER DELETE ON compute.host REFERENCING OLD TABLE AS former
    FOR EACH STATEMENT EXECUTE FUNCTION compute.note_hosts();
CREATE TRIGGER host_inserted AFTER INSERT ON compute.host REFERENCING NEW TABLE AS present
    FOR EACH STATEMENT EXECUTE FUNCTION compute.note_hosts();
"""


def upgrade() -> None:
    """An agent's boot and secret are known with its next poll."""
    for statement in [*statements(SQL), NOTE_HOSTS, *statements(TRIGGERS)]:
        op.execute(statement)
