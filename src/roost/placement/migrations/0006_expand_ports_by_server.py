"""The claims of a server's ports are found by the server, whose UUID is their user. Before."""

from alembic import op

revision = "placement_0006"
down_revision = "placement_0005"


def upgrade() -> None:
    """Index the ports' claims by their server."""
    op.execute("CREATE INDEX consumer_port_user ON placement.consumer (user_id) WHERE consumer_type = 'PORT'")
