"""Ports, their bindings, and what is around their NICs. Ports that a transaction will change are locked first, by id.

Who changes an inactive binding locks its port, and gives it a new revision.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from roost.network.model.networks import ListQuery, ListRow
from roost.network.model.ports import Binding, Nic, Parting, Port, PortFilter, vif_type_of
from roost.network.store import addresses, lists, resources
from roost.platform.database import Connection
from roost.platform.rows import columns_of, read_row

_PAIRS = "coalesce({row}.allowed_address_pairs, '[]') AS allowed_address_pairs"
_COLUMNS = [_PAIRS.format(row="o") if name == "allowed_address_pairs" else name for name in resources.COLUMNS["port"]]
# In one statement, so that every reader sees ports and addresses as of one instant.
_COLUMNS.append("""coalesce((
    SELECT json_agg(held ORDER BY held.address) FROM (
        SELECT a.subnet_id, a.address, a.port_id, a.in_pool, a.claimed, a.assigned_for, s.provider_uuid
        FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id WHERE a.port_id = o.id
    ) AS held), '[]') AS addresses
""")

LOCK_PORTS = """
-- network.lock_ports
SELECT id FROM network.port WHERE id = ANY($1::uuid[]) {or_of_servers} ORDER BY id FOR NO KEY UPDATE
"""
_OR_OF_SERVERS = "OR (device_id = ANY($2::text[]) AND device_id <> '')"


async def lock_ports(tx: Connection, ids: Sequence[str], server_ids: Sequence[str] = ()) -> dict[str, Port]:
    """Lock the ports with these ids, and all that belong to these servers; return those that exist, by id."""
    # Without servers not a word of them: what none is equal to, PostgreSQL may look for among all hidden ports.
    statement = LOCK_PORTS.format(or_of_servers=_OR_OF_SERVERS if server_ids else "")
    rows = await tx.fetch(statement, ids, *([server_ids] if server_ids else []))
    locked = tuple(row["id"] for row in rows)
    return {port.id: port for port in await list_ports(tx, PortFilter(ids=locked, hidden=True))}


LIST_PORTS = f"""
-- network.list_ports
SELECT {", ".join(_COLUMNS)} FROM network.port o
"""  # noqa: S608 - names of fields
_CHOSEN = {
    "ids": "id = ANY($::uuid[])",
    "network_ids": "network_id = ANY($::uuid[])",
    "device_ids": "device_id = ANY($::text[]) AND device_id <> ''",
}


async def list_ports(tx: Connection, chosen: PortFilter) -> list[Port]:
    """Return ports with their addresses, by id."""
    # A statement for each filter: one that has all of them is planned, from its sixth use on, to read every port.
    filters = [(sql, values) for name, sql in _CHOSEN.items() if (values := getattr(chosen, name)) is not None]
    conditions = [sql.replace("$", f"${number}") for number, (sql, _) in enumerate(filters, 1)]
    conditions.append("true" if chosen.hidden else "nic_tag IS NULL")
    statement = f"{LIST_PORTS} WHERE {' AND '.join(conditions)} ORDER BY id"
    return [_port(row) for row in await tx.fetch(statement, *(values for _, values in filters))]


async def list_page(tx: Connection, query: ListQuery) -> list[tuple[ListRow, Port]]:
    """Return a page of ports as clients ask for it, with their addresses."""
    rows = await lists.list_rows(tx, "port", query, _COLUMNS)
    # The addresses are the last field.
    return [(row, _port(dict(zip(Port.__struct_fields__, row.values, strict=True)))) for row in rows]


BIND_PORTS = """
-- network.bind_ports
WITH active AS (
    DELETE FROM network.binding i USING unnest($1::uuid[], $2::text[]) AS b (id, host)
    WHERE i.port_id = b.id AND i.host = b.host
)
UPDATE network.port p
SET host = b.host, vif_type = b.vif_type, revision = revision + 1, updated_at = now()
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS b (id, host, vif_type)
WHERE p.id = b.id
RETURNING p.id, p.revision
"""


async def bind(tx: Connection, hosts: Mapping[str, str | None]) -> dict[str, int]:
    """Bind ports to hosts, or unbind them (None); return port id -> revision. Inactive bindings there are deleted."""
    rows = await tx.fetch(BIND_PORTS, list(hosts), list(hosts.values()), list(map(vif_type_of, hosts.values())))
    return {row["id"]: row["revision"] for row in rows}


LIST_BINDINGS = """
-- network.list_bindings
SELECT host, vnic_type, binding_profile AS profile, vif_type FROM network.binding WHERE port_id = $1 ORDER BY host
"""


async def list_inactive_bindings(tx: Connection, port_id: str) -> list[Binding]:
    """Return the port's bindings but the active one, by host."""
    return [Binding(**row, active=False) for row in await tx.fetch(LIST_BINDINGS, port_id)]


PUT_BINDING = """
-- network.put_binding
INSERT INTO network.binding (port_id, host, vnic_type, binding_profile, vif_type) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (port_id, host) DO UPDATE
SET vnic_type = excluded.vnic_type, binding_profile = excluded.binding_profile, vif_type = excluded.vif_type
"""


async def put_binding(tx: Connection, port_id: str, binding: Binding) -> None:
    """Write an inactive binding of the port, in place of one on the same host."""
    await tx.execute(PUT_BINDING, port_id, binding.host, binding.vnic_type, binding.profile, binding.vif_type)


DELETE_BINDINGS = """
-- network.delete_bindings
DELETE FROM network.binding b USING unnest($1::uuid[], $2::text[]) AS dropped (port_id, host)
WHERE b.port_id = dropped.port_id AND (dropped.host IS NULL OR b.host = dropped.host) RETURNING b.port_id
"""


async def delete_bindings(tx: Connection, dropped: Sequence[tuple[str, str | None]]) -> list[str]:
    """Delete inactive bindings, by (port id, host), None for all hosts; return the ports that had one."""
    return sorted({row["port_id"] for row in await tx.fetch(DELETE_BINDINGS, *columns_of(dropped, 2))})


_SETTLE_ADDRESSES = """
UPDATE network.address a SET assigned_for = NULL
FROM (
    SELECT subnet_id, address FROM network.address
    WHERE assigned_for IS NOT NULL AND port_id {of_these}
    ORDER BY subnet_id, address FOR NO KEY UPDATE
) mine WHERE a.subnet_id = mine.subnet_id AND a.address = mine.address
"""

PART_PORTS = f"""
-- network.part_ports
WITH kept AS ({_SETTLE_ADDRESSES.format(of_these="= ANY($1::uuid[])")}), moves AS (
    DELETE FROM network.binding WHERE port_id = ANY($6::uuid[])
)
UPDATE network.port p
SET device_id = o.device_id, device_owner = o.device_owner, host = o.host, vif_type = o.vif_type,
    reserved_from = NULL, revision = revision + 1, updated_at = now()
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[])
    AS o (id, device_id, device_owner, host, vif_type)
WHERE p.id = o.id
"""  # noqa: S608 - a constant of this file


async def part(tx: Connection, partings: Sequence[Parting]) -> None:
    """Delete or restore the ports of servers that go. The addresses that they lose are unassigned before."""
    await resources.delete(tx, "port", [item.port_id for item in partings if item.origin is None])
    kept = [(item.port_id, item.origin) for item in partings if item.origin is not None]
    rows = [(port_id, was.device_id, was.device_owner, was.host, was.vif_type) for port_id, was in kept]
    await tx.execute(PART_PORTS, *columns_of(rows, 5), [item.port_id for item in partings if item.ends_moves])


LIST_IDS = """
-- network.list_port_ids
SELECT id FROM network.port WHERE {condition} AND ($1::uuid IS NULL OR id > $1) ORDER BY id LIMIT $2
"""


async def list_ids(tx: Connection, *, after: str, limit: int, network_id: str | None = None) -> list[str]:
    """Return the ids above `after` ("" for the first) of all ports, or the network's, hidden ones too; in order."""
    condition, chosen = ("true", []) if network_id is None else ("network_id = $3", [network_id])
    return [row["id"] for row in await tx.fetch(LIST_IDS.format(condition=condition), after or None, limit, *chosen)]


SETTLE_PORTS = f"""
-- network.settle_ports
WITH held AS (
    SELECT id FROM network.port
    WHERE (id = ANY($2::uuid[]) OR (device_id = ANY($1::text[]) AND device_id <> '' AND host IS NOT NULL))
        AND (reserved_from IS NOT NULL OR EXISTS (
            SELECT FROM network.address a WHERE a.port_id = port.id AND a.assigned_for IS NOT NULL))
    ORDER BY id FOR NO KEY UPDATE
), settled AS (
    UPDATE network.port p SET reserved_from = NULL, updated_at = now() FROM held WHERE p.id = held.id RETURNING p.id
){_SETTLE_ADDRESSES.format(of_these="IN (SELECT id FROM settled)")}
"""  # noqa: S608 - a constant of this file


async def settle(tx: Connection, server_ids: Sequence[str], port_ids: Sequence[str] = ()) -> None:
    """End the builds' reservations of the bound ports of these servers, and of these locked ports."""
    await tx.execute(SETTLE_PORTS, server_ids, port_ids)


COUNT_PORTS = f"""
-- network.count_ports
SELECT count(*) FILTER (WHERE NOT ({addresses.HOLDING})) AS ports, count(*) FILTER (WHERE {addresses.HOLDING}) AS held
FROM network.port p WHERE p.network_id = $1
"""  # noqa: S608 - a constant of addresses.py


async def count(tx: Connection, network_id: str) -> tuple[int, int]:
    """Return how many ports the network has, and how many NICs that guests have without a port."""
    row = await tx.fetchrow(COUNT_PORTS, network_id)
    assert row is not None
    return row["ports"], row["held"]


COUNT_PORTS_WITHOUT_ADDRESS = """
-- network.count_ports_without_address
SELECT count(*) FROM network.port p
WHERE p.vif_type <> 'unbound' AND NOT EXISTS (SELECT FROM network.address a WHERE a.port_id = p.id)
"""


async def count_without_address(tx: Connection) -> int:
    """Return how many bound ports have no address."""
    count: int = await tx.fetchval(COUNT_PORTS_WITHOUT_ADDRESS)
    return count


LIST_PROJECTS = """
-- network.list_port_projects
SELECT DISTINCT project_id FROM network.port WHERE network_id = $1 AND nic_tag IS NULL
"""


async def list_projects(tx: Connection, network_id: str) -> set[str]:
    """Return the projects that have ports on the network. Hidden ports do not count."""
    return {row["project_id"] for row in await tx.fetch(LIST_PROJECTS, network_id)}


# A port is on the segment of its addresses. Without any it is on its network's only one, as all ports of a network
# without subnets on segments are.
LIST_NICS = f"""
-- network.list_nics
SELECT p.id AS port_id, p.port_security_enabled, {_PAIRS.format(row="p")}, n.id AS network_id, n.mtu,
    ARRAY(SELECT a.subnet_id FROM network.address a WHERE a.port_id = p.id ORDER BY a.subnet_id) AS subnet_ids,
    g.id AS segment_id, coalesce(g.network_type, n.network_type) AS network_type,
    CASE WHEN g.id IS NULL THEN n.physical_network ELSE g.physical_network END AS physical_network,
    CASE WHEN g.id IS NULL THEN n.segmentation_id ELSE g.segmentation_id END AS segmentation_id
FROM network.port p JOIN network.network n ON n.id = p.network_id
LEFT JOIN network.segment g ON g.id = coalesce(
    (SELECT s.segment_id FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id
        WHERE a.port_id = p.id AND s.segment_id IS NOT NULL LIMIT 1),
    (SELECT min(o.id::text)::uuid FROM network.segment o WHERE o.network_id = n.id HAVING count(*) = 1))
WHERE p.id = ANY($1::uuid[])
"""  # noqa: S608 - a constant of this file


async def list_nics(tx: Connection, port_ids: Sequence[str]) -> list[Nic]:
    """Return what is around the NICs of those of the ports that exist, hidden ones too."""
    return [read_row(Nic, row, "allowed_address_pairs") for row in await tx.fetch(LIST_NICS, port_ids)]


def _port(row: Mapping[str, Any]) -> Port:
    return read_row(Port, row, "reserved_from", "allowed_address_pairs", "addresses")
