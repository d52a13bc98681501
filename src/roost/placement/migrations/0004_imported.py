"""What the last import left of providers and consumers: whatever is not so was written in Roost since. Before."""

from alembic import op

revision = "placement_0004"
down_revision = "placement_0003"


def upgrade() -> None:
    """Create the table. It is empty after an import by an older Roost: what that brought counts as written here."""
    op.execute(
        """
        CREATE TABLE placement.imported (
            is_provider boolean NOT NULL,
            uuid uuid NOT NULL,
            generation bigint NOT NULL,
            PRIMARY KEY (is_provider, uuid)
        )
        """
    )
