"""Agents as rows of their own: boot, secret, heartbeat, and which hosts they hold. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "compute_0015"
down_revision = "compute_0014"

SQL = """
-- boot_id: of the newest start, NULL for an agent that says none; former_boot_id: of the start before, former_at: when
-- that one last spoke although the newer had come. secret_sha256: NULL until it brings one, and required from then on.
-- hosts_digest: of the hosts that it holds, if it holds all that it asked for and none is silent; else NULL.
-- mark: moves with every commit that the agent can see.
CREATE TABLE compute.agent (
    id uuid PRIMARY KEY,
    label text NOT NULL DEFAULT '',
    service_version integer NOT NULL DEFAULT 0,
    boot_id uuid,
    boot_since timestamptz NOT NULL DEFAULT now(),
    former_boot_id uuid,
    former_at timestamptz,
    secret_sha256 bytea,
    seen_at timestamptz NOT NULL DEFAULT now(),
    hosts_digest bytea,
    mark bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
"""


def upgrade() -> None:
    """An agent gets its row with its next poll."""
    for statement in statements(SQL):
        op.execute(statement)
