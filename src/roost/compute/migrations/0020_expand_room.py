"""Pages keep room for the next version of each row, so that an update writes no index. Before.

A host is written with each renewal of its lease, a server and its guest some times while it is built. What lies there
already moves as it is updated.
"""

from alembic import op

revision = "compute_0020"
down_revision = "compute_0019"


def upgrade() -> None:
    """Fill half of each page with what is inserted, as of compute.work."""
    for table in ("host", "server", "guest"):
        op.execute(f"ALTER TABLE compute.{table} SET (fillfactor = 50)")
