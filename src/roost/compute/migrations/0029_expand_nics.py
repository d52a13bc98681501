"""A host is asked for a guest again whose server's ports have changed. Before: as the guest's state alone says."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0029"
down_revision = "compute_0027"

SQL = """
ALTER TABLE compute.guest ADD COLUMN nics_version integer NOT NULL DEFAULT 0,
    ADD COLUMN nics_reported integer NOT NULL DEFAULT 0;
CREATE INDEX guest_host_open ON compute.guest (host)
    WHERE reported IS DISTINCT FROM desired OR nics_reported <> nics_version;
"""


def upgrade() -> None:
    """Add the two numbers, alike for all guests that there are, and the index of open orders."""
    for statement in statements(SQL):
        op.execute(statement)
