"""No release looks for guests by their state alone any more. Before: the release before has its own index for that."""

from alembic import op

revision = "compute_0031"
down_revision = "compute_0028"


def upgrade() -> None:
    """A change of a guest's state writes one index less."""
    op.execute("DROP INDEX compute.guest_host_pending")
