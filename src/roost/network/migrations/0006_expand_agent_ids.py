"""Each host keeps the id of its agent, by which lists of agents are filtered, ordered and cut. Before.

Hosts that there are keep the ids that were worked out from their names; new ones, also an older release's, draw one.
"""

import uuid

import sqlalchemy as sa
from alembic import op

from roost.platform.migrate import statements

revision = "network_0006"
down_revision = "network_0005"

NAMESPACE = uuid.UUID("8a0d3c52-6f0c-5d43-9a4b-6167656e7473")

SQL = """
ALTER TABLE network.host ADD COLUMN agent_id uuid NOT NULL DEFAULT gen_random_uuid();
CREATE INDEX host_agent ON network.host (agent_id);
"""

HOSTS = sa.table("host", sa.column("name"), schema="network")

SET_AGENT_ID = "UPDATE network.host SET agent_id = :agent_id WHERE name = :name"


def upgrade() -> None:
    """Add the column, and set it to what agents are known by."""
    for statement in statements(SQL):
        op.execute(statement)
    connection = op.get_bind()
    names = connection.execute(sa.select(HOSTS)).scalars().all()
    if names:
        ids = [{"agent_id": uuid.uuid5(NAMESPACE, name), "name": name} for name in names]
        connection.execute(sa.text(SET_AGENT_ID), ids)
