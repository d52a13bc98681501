"""Deleted servers, whose actions, migrations and faults can be read for a while. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0019"
down_revision = "compute_0018"

SQL = """
-- document: roost.compute.model.server.Server as it was last shown.
CREATE TABLE compute.deleted_server (
    id uuid PRIMARY KEY,
    document jsonb NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX deleted_server_at ON compute.deleted_server (deleted_at);
"""


def upgrade() -> None:
    """Servers that are gone already are not known any more."""
    for statement in statements(SQL):
        op.execute(statement)
