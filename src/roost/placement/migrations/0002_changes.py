"""A journal of what changed takes the place of the stamps on every provider. Before and after in one: nothing that
stamped was ever released.
"""

from alembic import op

from roost.platform.migrate import statements

revision = "placement_0002"
down_revision = "placement_0001"

# change: one row or more for each transaction that changed what an index holds, written by that transaction. A batch of
# claims names hundreds of providers: up to a page of them stays in the row, neither compressed nor moved out.
# change_horizon: rows of transactions below `xid` may be gone; `noted_xid` is the horizon to be, once it is old enough.
SQL = """
CREATE TABLE placement.change (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    reshaped boolean NOT NULL,
    provider_ids bigint[] NOT NULL
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_insert_threshold = -1);
CREATE INDEX change_xid ON placement.change (xid);
CREATE TABLE placement.change_horizon (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    xid xid8 NOT NULL,
    noted_xid xid8 NOT NULL,
    noted_at timestamptz NOT NULL
);
INSERT INTO placement.change_horizon (xid, noted_xid, noted_at)
VALUES ('0', pg_snapshot_xmin(pg_current_snapshot()), now());
ALTER TABLE placement.provider DROP COLUMN shape_xid, DROP COLUMN usage_xid;
DROP TABLE placement.deleted_provider;
"""


def upgrade() -> None:
    """Create the journal, drop the stamps."""
    for statement in statements(SQL):
        op.execute(statement)
