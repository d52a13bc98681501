"""Networks and ports say whether a guest is held to its addresses, ports which others it may use. Before.

The release before showed false, and nobody enforced anything. From here on a port is secured unless its owner says so
of it, or of its network before the port was made, as upstream.
"""

from alembic import op

from roost.platform.migrate import statements

revision = "network_0012"
down_revision = "network_0010"

SQL = """
ALTER TABLE network.network ADD COLUMN port_security_enabled boolean NOT NULL DEFAULT true;
ALTER TABLE network.port ADD COLUMN port_security_enabled boolean NOT NULL DEFAULT true,
    ADD COLUMN allowed_address_pairs jsonb;
"""


def upgrade() -> None:
    """Add the columns; allowed_address_pairs: null for none."""
    for statement in statements(SQL):
        op.execute(statement)
