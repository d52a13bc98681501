"""Ledger = addresses = ports = servers: the one check that every property, race and fault test ends with.

It reads all three schemas at one instant, which no part of Roost may do; each query returns what must not be there.
"""

import sys
from collections import Counter
from collections.abc import Mapping

from roost.network.rules.addressing import parse
from roost.platform.database import Connection, Database

ALWAYS: dict[str, str] = {
    "use is not the sum of the allocations": """
        SELECT p.name, i.resource_class_id, i.used, coalesce(sum(a.used), 0) AS allocated
        FROM placement.inventory i JOIN placement.provider p ON p.id = i.provider_id
        LEFT JOIN placement.allocation a USING (provider_id, resource_class_id)
        GROUP BY p.name, i.provider_id, i.resource_class_id, i.used HAVING i.used <> coalesce(sum(a.used), 0)""",
    "an inventory is over its capacity": """
        SELECT p.name, i.resource_class_id, i.used FROM placement.inventory i
        JOIN placement.provider p ON p.id = i.provider_id
        WHERE i.used > floor((i.total - i.reserved) * i.allocation_ratio)
        -- what was claimed outside the pools is gone, and its claim goes after it
        AND NOT EXISTS (SELECT FROM placement.allocation l JOIN network.release r ON r.port_id = l.consumer_uuid
            WHERE l.provider_id = p.id)
        -- what an unknown guest holds may be promised to a build by then, which loses it
        AND (i.used > floor(i.total * i.allocation_ratio) OR NOT EXISTS (
            SELECT FROM network.port h WHERE h.device_owner = 'roost:held' AND h.nic_tag IS NOT NULL))""",
    "an unknown guest's address is claimed": """
        SELECT p.id, a.address FROM network.port p LEFT JOIN network.address a ON a.port_id = p.id AND a.claimed
        LEFT JOIN placement.allocation l ON l.consumer_uuid = p.id
        WHERE p.device_owner = 'roost:held' AND p.nic_tag IS NOT NULL
        AND (a.address IS NOT NULL OR l.consumer_uuid IS NOT NULL)""",
    "an allocation has no inventory or no consumer": """
        SELECT a.* FROM placement.allocation a
        LEFT JOIN placement.inventory i USING (provider_id, resource_class_id)
        LEFT JOIN placement.consumer c ON c.uuid = a.consumer_uuid
        WHERE i.provider_id IS NULL OR c.uuid IS NULL""",
    "something has no provider, or no name": """
        SELECT 'inventory' AS what, h.provider_id FROM placement.inventory h
        LEFT JOIN placement.provider p ON p.id = h.provider_id
        LEFT JOIN placement.resource_class r ON r.id = h.resource_class_id WHERE p.id IS NULL OR r.id IS NULL
        UNION ALL SELECT 'trait', h.provider_id FROM placement.provider_trait h
        LEFT JOIN placement.provider p ON p.id = h.provider_id
        LEFT JOIN placement.trait t ON t.id = h.trait_id WHERE p.id IS NULL OR t.id IS NULL
        UNION ALL SELECT 'aggregate', h.provider_id FROM placement.provider_aggregate h
        LEFT JOIN placement.provider p ON p.id = h.provider_id WHERE p.id IS NULL""",
    "the root of a provider is not the top of its tree": """
        WITH RECURSIVE tree (id, root_id) AS (
            SELECT id, id FROM placement.provider WHERE parent_id IS NULL
            UNION ALL SELECT p.id, tree.root_id FROM placement.provider p JOIN tree ON p.parent_id = tree.id
        )
        SELECT p.name, p.root_id, tree.root_id AS top FROM placement.provider p LEFT JOIN tree USING (id)
        WHERE p.root_id IS DISTINCT FROM tree.root_id""",
    "a consumer holds nothing": """
        SELECT c.uuid FROM placement.consumer c
        WHERE NOT EXISTS (SELECT FROM placement.allocation a WHERE a.consumer_uuid = c.uuid)""",
    "an address belongs to no port, or is in no subnet": """
        SELECT a.address, a.port_id FROM network.address a LEFT JOIN network.port p ON p.id = a.port_id
        LEFT JOIN network.subnet s ON s.id = a.subnet_id WHERE p.id IS NULL OR s.id IS NULL""",
    "an address that counts is not claimed by its port": """
        SELECT a.address, a.port_id FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id
        LEFT JOIN placement.provider p ON p.uuid = coalesce(s.segment_id, s.network_id)
        LEFT JOIN placement.allocation l ON l.provider_id = p.id AND l.consumer_uuid = a.port_id
        WHERE a.claimed AND l.consumer_uuid IS NULL""",
    "an address is held and free": """
        SELECT a.subnet_id, a.address FROM network.address a JOIN network.free_range f USING (subnet_id)
        JOIN network.subnet s ON s.id = a.subnet_id WHERE a.address BETWEEN f.first_address AND f.last_address
        AND (a.in_pool OR coalesce(s.ipv6_address_mode, s.ipv6_ra_mode, '') NOT IN ('slaac', 'dhcpv6-stateless'))""",
    "an address is claimed that its server claims, or that follows from a MAC": """
        SELECT a.address, a.port_id FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id
        WHERE a.claimed AND (s.cell IS NOT NULL
            OR coalesce(s.ipv6_address_mode, s.ipv6_ra_mode, '') IN ('slaac', 'dhcpv6-stateless'))""",
    "an address is not marked as its pools are": """
        SELECT a.address, a.port_id, a.in_pool FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id
        CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM network.pool p WHERE p.subnet_id = s.id
            AND a.address BETWEEN p.first_address AND p.last_address) AS pooled) l
        WHERE a.in_pool <> (l.pooled AND (a.in_pool
            OR coalesce(s.ipv6_address_mode, s.ipv6_ra_mode, '') NOT IN ('slaac', 'dhcpv6-stateless')))""",
    "a port has two addresses of one family by its build": """
        SELECT a.port_id FROM network.address a WHERE a.assigned_for IS NOT NULL AND a.claimed
        GROUP BY a.port_id, family(a.address) HAVING count(*) > 1""",
    "a port has two bindings on one host": """
        SELECT p.id, p.host FROM network.port p JOIN network.binding b ON b.port_id = p.id AND b.host = p.host""",
    "a port that is no server's has inactive bindings": """
        SELECT p.id, p.device_owner, b.host FROM network.port p JOIN network.binding b ON b.port_id = p.id
        WHERE p.device_owner NOT LIKE 'compute:%'""",
    "a port is shown on a flat network, or hidden on another": """
        SELECT p.id, p.nic_tag, n.flat FROM network.port p JOIN network.network n ON n.id = p.network_id
        WHERE n.flat <> (p.nic_tag IS NOT NULL AND p.made_for IS NOT NULL)
        AND NOT (p.device_owner = 'roost:held' AND p.nic_tag IS NOT NULL)""",
    "an ACTIVE server is in a cell that has not its flat address": """
        SELECT v.id, v.host, a.address FROM compute.server v
        JOIN network.port p ON p.device_id = v.id::text JOIN network.address a ON a.port_id = p.id
        JOIN network.subnet s ON s.id = a.subnet_id AND s.cell IS NOT NULL JOIN network.host h ON h.name = v.host
        WHERE v.status = 'ACTIVE' AND s.cell IS DISTINCT FROM h.cell""",
    "an ACTIVE server's flat address is not claimed by it": """
        SELECT a.address, v.id FROM network.address a
        JOIN network.port q ON q.id = a.port_id AND q.nic_tag <> '' JOIN compute.server v ON v.id = q.made_for
        LEFT JOIN placement.provider p ON p.uuid = a.subnet_id
        LEFT JOIN placement.allocation l ON l.provider_id = p.id AND l.consumer_uuid = v.id
        WHERE v.status = 'ACTIVE' AND l.consumer_uuid IS NULL""",
    "an ACTIVE server is on a host that does not reach its address": """
        SELECT v.id, v.host, a.address FROM compute.server v
        JOIN network.port p ON p.device_id = v.id::text JOIN network.address a ON a.port_id = p.id
        JOIN network.subnet s ON s.id = a.subnet_id JOIN network.segment g ON g.id = s.segment_id
        JOIN network.host h ON h.name = v.host
        WHERE v.status = 'ACTIVE' AND NOT g.physical_network = ANY(h.physical_networks)""",
}

SETTLED: dict[str, str] = {
    "work is left": "SELECT server_id, stage, deleting FROM compute.work",
    "a move is left": "SELECT server_id, kind, status FROM compute.move WHERE open",
    "a server is doing something": "SELECT id, task_state FROM compute.server WHERE task_state IS NOT NULL",
    "an intent is left": "SELECT port_id FROM network.intent",
    "a release is left": "SELECT port_id FROM network.release",
    "the ledger is to be told of a provider": "SELECT provider_uuid FROM network.publication WHERE wanted > published",
    "a server is neither ACTIVE nor ERROR": """
        SELECT id, status FROM compute.server
        WHERE status NOT IN ('ACTIVE', 'ERROR', 'SHELVED_OFFLOADED') OR deleted_at IS NOT NULL""",
    "a claim of addresses is not its port's addresses": """
        WITH claimed AS (
            SELECT a.consumer_uuid AS port_id, p.uuid AS provider, r.name AS class, sum(a.used) AS n
            FROM placement.allocation a
            JOIN placement.provider p ON p.id = a.provider_id JOIN placement.resource_class r
            ON r.id = a.resource_class_id WHERE r.name IN ('IPV4_ADDRESS', 'CUSTOM_IPV6_ADDRESS') GROUP BY 1, 2, 3
        ), held AS (
            SELECT a.port_id, coalesce(s.segment_id, s.network_id) AS provider,
                CASE s.ip_version WHEN 4 THEN 'IPV4_ADDRESS' ELSE 'CUSTOM_IPV6_ADDRESS' END AS class, count(*) AS n
            FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id WHERE a.claimed GROUP BY 1, 2, 3
            UNION ALL
            SELECT p.made_for, a.subnet_id, 'IPV4_ADDRESS', count(*) FROM network.address a
            JOIN network.port p ON p.id = a.port_id WHERE p.nic_tag <> '' GROUP BY 1, 2
        )
        SELECT * FROM claimed FULL JOIN held USING (port_id, provider, class)
        WHERE claimed.n IS DISTINCT FROM held.n""",
    "a claim of a host is not that of a server on it": """
        WITH claimed AS (
            SELECT a.consumer_uuid AS id, coalesce(h.name, 'elsewhere') AS host, r.name AS class, sum(a.used) AS used
            FROM placement.allocation a JOIN placement.resource_class r ON r.id = a.resource_class_id
            JOIN placement.provider p ON p.id = a.provider_id JOIN placement.provider root ON root.id = p.root_id
            LEFT JOIN compute.host h ON h.provider_uuid = root.uuid
            WHERE r.name NOT IN ('IPV4_ADDRESS', 'CUSTOM_IPV6_ADDRESS') GROUP BY 1, 2, 3
        ), wanted AS (
            SELECT v.id, v.host, c.class, (v.spec ->> c.field)::int AS used FROM compute.server v,
            (VALUES ('VCPU', 'vcpus'), ('MEMORY_MB', 'memory_mb'), ('DISK_GB', 'disk_gb')) AS c (class, field)
            WHERE v.host IS NOT NULL AND (v.spec ->> c.field)::int > 0
            UNION ALL
            SELECT v.id, v.host, part ->> 0, sum((part ->> 1)::int) FROM compute.server v,
            jsonb_array_elements(v.spec -> 'flavor_groups') AS asked, jsonb_array_elements(asked -> 'resources') AS part
            WHERE v.host IS NOT NULL GROUP BY 1, 2, 3
        )
        SELECT * FROM claimed FULL JOIN wanted USING (id, host, class)
        WHERE claimed.used IS DISTINCT FROM wanted.used""",
    "a server's port is not on its host, or its server is gone": """
        SELECT p.id, p.device_id, p.host FROM network.port p LEFT JOIN compute.server v ON v.id::text = p.device_id
        WHERE p.device_owner LIKE 'compute:%' AND p.device_id <> ''
        AND (v.id IS NULL OR p.host <> coalesce(v.host, '')
            OR (v.host IS NULL AND v.status <> 'SHELVED_OFFLOADED'))""",
    "an ACTIVE server's network information is not its ports": """
        SELECT v.id, n ->> 'port_id' AS port_id FROM compute.server v, jsonb_array_elements(v.network_info) n
        LEFT JOIN network.port p ON p.id = (n ->> 'port_id')::uuid
        WHERE v.status = 'ACTIVE' AND n ->> 'port_id' IS NOT NULL
        AND (p.id IS NULL OR p.device_id <> v.id::text OR (
            SELECT coalesce(jsonb_agg(x ORDER BY x::inet), '[]')
            FROM jsonb_array_elements_text(n -> 'addresses') x) <> (
            SELECT coalesce(jsonb_agg(host(a.address) ORDER BY a.address), '[]')
            FROM network.address a WHERE a.port_id = p.id))""",
    "an ACTIVE server's port is not in its network information": """
        SELECT v.id, p.id AS port_id FROM compute.server v JOIN network.port p ON p.device_id = v.id::text
        WHERE v.status = 'ACTIVE' AND p.project_id = v.project_id AND p.nic_tag IS NULL AND NOT EXISTS (
            SELECT FROM jsonb_array_elements(v.network_info) n WHERE n ->> 'port_id' = p.id::text)""",
    "ports still miss an address that follows from their MAC": "SELECT id FROM network.subnet WHERE spreading",
    "compute has not been told of a port": "SELECT server_id, lost_port_id FROM network.notice",
    "an ACTIVE server's network information is not its flat addresses": """
        WITH shown AS (
            SELECT v.id AS server_id, n ->> 'tag' AS tag, n -> 'addresses' AS addresses,
                n ->> 'mac_address' AS mac_address
            FROM compute.server v, jsonb_array_elements(v.network_info) n
            WHERE v.status IN ('ACTIVE', 'SHELVED_OFFLOADED') AND n ->> 'port_id' IS NULL
        )
        SELECT * FROM shown FULL JOIN (
            SELECT made_for AS server_id, nic_tag AS tag, mac_address,
                (SELECT coalesce(jsonb_agg(host(a.address)), '[]') FROM network.address a WHERE a.port_id = p.id)
                AS addresses
            FROM network.port p WHERE nic_tag <> '') has
        USING (server_id, tag, addresses, mac_address) WHERE shown IS NULL OR has IS NULL""",
    "a port is still reserved by a build": "SELECT id, device_id FROM network.port WHERE reserved_from IS NOT NULL",
    "an address is still only a build's": "SELECT address FROM network.address WHERE assigned_for IS NOT NULL",
    "guests are not the ACTIVE servers": """
        SELECT g.server_id, g.host, v.id, v.host FROM compute.guest g
        FULL JOIN (SELECT id, host, power FROM compute.server WHERE status = 'ACTIVE') v
        ON v.id = g.server_id AND v.host = g.host
        WHERE v.id IS NULL OR g.server_id IS NULL OR g.desired <> v.power OR g.reported IS DISTINCT FROM v.power""",
}

NOTE_OVERCLAIMS = """
CREATE SCHEMA audit;
CREATE TABLE audit.broken (what text, subject text, before bigint, after bigint);
CREATE FUNCTION audit.inventory() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.used > OLD.used AND NEW.used > trunc((NEW.total - NEW.reserved) * NEW.allocation_ratio) THEN
        INSERT INTO audit.broken VALUES ('a claim went over the capacity', NEW.provider_id, OLD.used, NEW.used);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER audit BEFORE UPDATE ON placement.inventory FOR EACH ROW EXECUTE FUNCTION audit.inventory();
"""
"""What nobody may do, whoever it is and at whatever moment: noted by the database itself, in audit.broken."""


async def list_problems(connection: Connection, *, settled: bool) -> list[str]:
    """What does not hold, in words with the rows; settled: nothing is at work, so nothing may be half done."""
    rows = []
    for queries in (ALWAYS, SETTLED) if settled else (ALWAYS,):  # of longer statements asyncpg keeps none prepared
        rows += await connection.fetch(_union(queries))
    problems = [f"{row['what']}: {row['it']}" for row in rows] + await list_uncovered(connection)
    return problems + await list_miscounted(connection) if settled else problems


def _union(queries: Mapping[str, str]) -> str:
    """Return the one statement that answers all the queries: what does not hold, and up to five rows of each."""
    parts = (
        f"(SELECT $${what}$$ AS what, to_jsonb(row) AS it FROM ({query}) row LIMIT 5)"
        for what, query in queries.items()
    )
    return " UNION ALL ".join(parts)


async def list_uncovered(connection: Connection) -> list[str]:
    """Subnets whose pools are not their free ranges and the addresses that are held of them; in Python, for IPv6."""

    async def sums(table: str) -> dict[str, int]:
        rows = await connection.fetch(f"SELECT subnet_id, first_address, last_address FROM network.{table}")
        found: Counter[str] = Counter()
        for row in rows:
            found[row["subnet_id"]] += parse(row["last_address"]) - parse(row["first_address"]) + 1
        return found

    pools, free = await sums("pool"), await sums("free_range")
    rows = await connection.fetch("""
        SELECT subnet_id, count(*) AS n FROM network.address WHERE in_pool GROUP BY 1""")
    held = {row["subnet_id"]: row["n"] for row in rows}
    return [
        f"an address is neither held nor free, or both: subnet {subnet}: {pools.get(subnet, 0)} in pools, "
        f"{free.get(subnet, 0)} free, {held.get(subnet, 0)} held"
        for subnet in pools.keys() | free.keys() | held.keys()
        if pools.get(subnet, 0) != free.get(subnet, 0) + held.get(subnet, 0)
    ]


COUNTED = """
    WITH counted AS (
        SELECT s.*, CASE s.ip_version WHEN 4 THEN 'IPV4_ADDRESS' ELSE 'CUSTOM_IPV6_ADDRESS' END AS class,
            coalesce(s.ipv6_address_mode, s.ipv6_ra_mode, '') NOT IN ('slaac', 'dhcpv6-stateless')
            AND (s.service_types = '{}' OR 'compute:nova' = ANY (s.service_types)) AS counts
        FROM network.subnet s
    ), held AS (
        SELECT s.provider_uuid AS uuid, s.class,
            count(*) FILTER (WHERE a.claimed AND NOT (a.in_pool AND s.counts)) AS outside,
            count(*) FILTER (WHERE NOT a.claimed AND a.in_pool AND s.counts AND (s.cell IS NULL OR EXISTS (
                SELECT FROM network.port o
                WHERE o.id = a.port_id AND o.device_owner = 'roost:held' AND o.nic_tag IS NOT NULL))) AS inside
        FROM counted s JOIN network.address a ON a.subnet_id = s.id GROUP BY 1, 2
    )
    SELECT p.name, r.name AS class, i.total, i.reserved, coalesce(held.outside, 0) AS outside,
        coalesce(held.inside, 0) AS inside,
        ARRAY(SELECT host(l.first_address) || ' ' || host(l.last_address) FROM counted s
            JOIN network.pool l ON l.subnet_id = s.id
            WHERE s.provider_uuid = p.uuid AND s.class = r.name AND s.counts) AS pools
    FROM placement.inventory i JOIN placement.provider p ON p.id = i.provider_id
    JOIN placement.resource_class r ON r.id = i.resource_class_id
    LEFT JOIN held ON held.uuid = p.uuid AND held.class = r.name
    WHERE p.uuid IN (SELECT provider_uuid FROM network.subnet)"""


async def list_miscounted(connection: Connection) -> list[str]:
    """Inventories of addresses that are not what the pools and the addresses held make them."""
    problems = []
    for row in await connection.fetch(COUNTED):
        ends = [[parse(text) for text in pool.split()] for pool in row["pools"]]
        total = min(sum(last - first + 1 for first, last in ends) + row["outside"], 2**31 - 1)
        if (row["total"], row["reserved"]) != (total, row["inside"]):
            problems.append(f"an inventory is not what the pools make it: {dict(row)}")
    return problems


async def assert_books_agree(database: Database, *, settled: bool = True) -> None:
    """Fail with everything that does not hold, as of one instant."""
    if placements := sys.modules.get("tests.placements"):
        await placements.copy_records(database)
    async with database.transaction(snapshot=True) as tx:
        problems = await list_problems(tx, settled=settled)
    assert not problems, "\n".join(problems)
