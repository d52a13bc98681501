"""Why nothing of a guest is left to wait for, and what agents promise of their hosts' NICs. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0014"
down_revision = "compute_0013"

SQL = """
-- order: its host was forced down. promise: its host's agent had promised that its NICs are down by then. stopped: its
-- host fell silent when its NICs were down. The release before writes and reads `fenced`; the trigger keeps both equal.
ALTER TABLE compute.guest ADD COLUMN fenced_by text;
UPDATE compute.guest SET fenced_by = 'order' WHERE fenced;
CREATE INDEX guest_fenced_by ON compute.guest (host) WHERE fenced_by IS NOT NULL;
CREATE FUNCTION compute.keep_fenced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.fenced_by := CASE WHEN NEW.fenced_by IS DISTINCT FROM OLD.fenced_by THEN NEW.fenced_by
        WHEN NEW.fenced THEN 'order' END; NEW.fenced := NEW.fenced_by IS NOT NULL; RETURN NEW; END
$$;
CREATE TRIGGER guest_fenced BEFORE UPDATE ON compute.guest FOR EACH ROW
    WHEN (OLD.fenced IS DISTINCT FROM NEW.fenced OR OLD.fenced_by IS DISTINCT FROM NEW.fenced_by)
    EXECUTE FUNCTION compute.keep_fenced();
-- fence_after_s: the host's guests have their NICs down so long after the agent's last lease ended, whatever becomes of
-- the agent. promised_at: seen_at, when that was said with it; a release that does not know of it changes seen_at
-- alone. promised_by: the agent, for the guests that it has. promise_kept: so long has passed while somebody listened.
ALTER TABLE compute.host
    ADD COLUMN fence_after_s double precision,
    ADD COLUMN promised_at timestamptz,
    ADD COLUMN promised_by uuid,
    ADD COLUMN promise_kept boolean NOT NULL DEFAULT false;
CREATE INDEX host_promising ON compute.host (name) WHERE fence_after_s IS NOT NULL;
"""


def upgrade() -> None:
    """Guests that were fenced stay so, by order; nobody has promised anything."""
    for statement in statements(SQL):
        op.execute(statement)
