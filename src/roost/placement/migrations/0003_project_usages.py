"""The usage of a project is found without looking at every consumer. Before."""

from alembic import op

revision = "placement_0003"
down_revision = "placement_0002"


def upgrade() -> None:
    """Index consumers by who owns them."""
    op.execute("CREATE INDEX consumer_project ON placement.consumer (project_id, user_id)")
