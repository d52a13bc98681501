"""Pages keep room for the next version of each row, so that an update writes no index. Before.

A port is bound and settled after it is made, and its addresses with it. What lies there already moves as it is updated.
"""

from alembic import op

revision = "network_0008"
down_revision = "network_0007"


def upgrade() -> None:
    """Fill half of each page with what is inserted."""
    for table in ("port", "address"):
        op.execute(f"ALTER TABLE network.{table} SET (fillfactor = 50)")
