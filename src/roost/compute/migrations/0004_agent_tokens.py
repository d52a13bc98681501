"""Tokens by which agents authenticate. Before."""

from alembic import op

revision = "compute_0004"
down_revision = "compute_0003"


def upgrade() -> None:
    """Keep each token as its hash, with the hosts that it is for: names, and shell-style patterns of names."""
    op.execute(
        """
        CREATE TABLE compute.agent_token (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            token_sha256 bytea NOT NULL UNIQUE,
            name text NOT NULL,
            hosts text[] NOT NULL CHECK (cardinality(hosts) > 0),
            created_at timestamptz NOT NULL DEFAULT now(),
            last_used_on date,
            revoked_at timestamptz
        )
        """
    )
