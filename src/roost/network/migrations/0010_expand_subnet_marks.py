"""Each time that a subnet is marked for deletion counts, so that who has seen an earlier mark can tell. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "network_0010"
down_revision = "network_0009"

SQL = """
ALTER TABLE network.subnet ADD COLUMN marks integer NOT NULL DEFAULT 0;
-- The release before does not count: it marks too.
CREATE FUNCTION network.count_mark() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.marks := OLD.marks + 1; RETURN NEW; END
$$;
CREATE TRIGGER subnet_marked BEFORE UPDATE OF deleting ON network.subnet FOR EACH ROW
    WHEN (NEW.deleting AND NOT OLD.deleting) EXECUTE FUNCTION network.count_mark();
"""


def upgrade() -> None:
    """Count from now on."""
    for statement in statements(SQL):
        op.execute(statement)
