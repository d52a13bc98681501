"""Conductors lease work by project in turn. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0024"
down_revision = "compute_0023"

SQL = """
-- In the order of bytes, as a conductor compares them.
ALTER TABLE compute.work ADD COLUMN project_id text COLLATE "C" NOT NULL DEFAULT '';
UPDATE compute.work SET project_id = s.project_id FROM compute.server s WHERE s.id = work.server_id;
CREATE INDEX work_turn ON compute.work (project_id, run_at);
-- The release before does not write it.
CREATE FUNCTION compute.note_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.project_id := coalesce((SELECT project_id FROM compute.server WHERE id = NEW.server_id), ''); RETURN NEW; END
$$;
CREATE TRIGGER work_of_before BEFORE INSERT ON compute.work FOR EACH ROW
    WHEN (NEW.project_id = '') EXECUTE FUNCTION compute.note_project();
"""


def upgrade() -> None:
    """What is at work already is of its server's project."""
    for statement in statements(SQL):
        op.execute(statement)
