"""Which conductors are alive, which cells they serve, and which hosts are of cells without any. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0013"
down_revision = "compute_0012"

SQL = """
CREATE TABLE compute.conductor_heartbeat (
    id uuid PRIMARY KEY,
    -- Empty: all.
    cells text[] NOT NULL,
    -- Of the network service, as this conductor found them last: roost.compute.model.Credentials.
    credentials jsonb NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now()
);
-- No conductor of its cell is alive: the ledger is to keep servers from it.
ALTER TABLE compute.host ADD COLUMN cell_silent boolean NOT NULL DEFAULT false;
"""


def upgrade() -> None:
    """No cell is silent before conductors have said that they are there."""
    for statement in statements(SQL):
        op.execute(statement)
