"""A subnet is changed in one transaction. Before: by a change in progress, which a process that died may have left.

Of such a subnet nobody claims the addresses from now on: they are reserved, and their ports' claims are given back.
"""

from alembic import op

from roost.platform.migrate import statements

revision = "network_0011"
down_revision = None

SQL = """
CREATE TEMPORARY TABLE changing ON COMMIT DROP AS
SELECT id, network_id, provider_uuid FROM network.subnet WHERE change IS NOT NULL;
INSERT INTO network.publication AS p (provider_uuid)
SELECT provider_uuid FROM network.subnet WHERE change IS NOT NULL OR deleting
UNION SELECT network_id FROM changing
ON CONFLICT (provider_uuid) DO UPDATE SET wanted = p.wanted + 1;
DELETE FROM network.pool WHERE leaving;
CREATE TEMPORARY TABLE free_after ON COMMIT DROP AS
SELECT f.subnet_id, greatest(f.first_address, p.first_address) AS first_address,
    least(f.last_address, p.last_address) AS last_address
FROM network.free_range f JOIN changing c ON c.id = f.subnet_id JOIN network.pool p ON p.subnet_id = f.subnet_id
    AND p.first_address <= f.last_address AND p.last_address >= f.first_address;
DELETE FROM network.free_range WHERE subnet_id IN (SELECT id FROM changing);
INSERT INTO network.free_range (subnet_id, first_address, last_address)
SELECT subnet_id, first_address, last_address FROM free_after;
INSERT INTO network.release (port_id)
SELECT DISTINCT port_id FROM network.address WHERE claimed AND subnet_id IN (SELECT id FROM changing);
UPDATE network.address a SET claimed = false, in_pool = a.in_pool AND EXISTS (
    SELECT FROM network.pool p
    WHERE p.subnet_id = a.subnet_id AND a.address BETWEEN p.first_address AND p.last_address
)
WHERE a.subnet_id IN (SELECT id FROM changing);
DROP INDEX network.subnet_changing;
ALTER TABLE network.subnet DROP COLUMN change, DROP COLUMN deleting;
ALTER TABLE network.pool DROP COLUMN leaving;
"""


def upgrade() -> None:
    """End what was in progress as it was wanted."""
    for statement in statements(SQL):
        op.execute(statement)
