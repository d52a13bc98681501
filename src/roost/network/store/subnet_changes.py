"""Subnets that change: their attributes, pools, free ranges and held addresses, under their locks."""

from collections.abc import Sequence

import msgspec

from roost.network.model.networks import AddressRange, Subnet
from roost.network.model.ports import Holding
from roost.network.rules import addressing
from roost.network.store import addresses
from roost.network.store.addresses import OF_UNKNOWN_GUEST
from roost.platform.database import Connection

UPDATE_SUBNET = """
-- network.update_subnet
UPDATE network.subnet
SET name = $2, description = $3, gateway_ip = $4, enable_dhcp = $5, dns_nameservers = $6, host_routes = $7,
    service_types = $8, segment_id = $9, change = $10, revision = revision + 1, updated_at = now()
WHERE id = $1
"""


async def update(tx: Connection, subnet: Subnet) -> None:
    """What a client may change, but for the pools, and the change in progress."""
    await tx.execute(
        UPDATE_SUBNET, subnet.id, subnet.name, subnet.description, subnet.gateway_ip, subnet.enable_dhcp,
        subnet.dns_nameservers, msgspec.json.encode(subnet.host_routes).decode(), subnet.service_types,
        subnet.segment_id, None if subnet.change is None else msgspec.json.encode(subnet.change).decode(),
    )  # fmt: skip


END_CHANGE = """
-- network.end_subnet_change
UPDATE network.subnet SET change = NULL WHERE id = $1
"""


async def end(tx: Connection, subnet_id: str) -> None:
    """The subnet's change is not in progress any more."""
    await tx.execute(END_CHANGE, subnet_id)


DELETE_POOLS = """
-- network.delete_pools
DELETE FROM network.pool WHERE subnet_id = $1
"""

INSERT_POOL_ROWS = """
-- network.insert_pool_rows
INSERT INTO network.pool (subnet_id, first_address, last_address, leaving)
SELECT $1, p.first, p.last, p.leaving
FROM unnest($2::inet[], $3::inet[], $4::boolean[]) AS p (first, last, leaving)
"""


async def set_pools(
    tx: Connection, subnet_id: str, pools: Sequence[AddressRange], leaving: Sequence[AddressRange]
) -> None:
    """The subnet's pools from now on."""
    ranges = [*pools, *leaving]
    await tx.execute(DELETE_POOLS, subnet_id)
    await tx.execute(
        INSERT_POOL_ROWS, subnet_id, [addressing.show(item.first) for item in ranges],
        [addressing.show(item.last) for item in ranges], [False] * len(pools) + [True] * len(leaving),
    )  # fmt: skip


LIST_SUBNET_FREE = """
-- network.list_subnet_free_ranges
SELECT first_address, last_address FROM network.free_range WHERE subnet_id = $1 ORDER BY first_address
"""


async def list_free(tx: Connection, subnet_id: str) -> list[AddressRange]:
    """All free ranges of the subnet."""
    rows = await tx.fetch(LIST_SUBNET_FREE, subnet_id)
    return [AddressRange(addressing.parse(row["first_address"]), addressing.parse(row["last_address"])) for row in rows]


async def set_free(
    tx: Connection, subnet_id: str, before: Sequence[AddressRange], after: Sequence[AddressRange]
) -> None:
    """What is free of the subnet from now on; before: as list_free said."""
    await addresses.change_free(tx, addressing.difference({subnet_id: before}, {subnet_id: after}))


LIST_HOLDINGS = f"""
-- network.list_subnet_holdings
SELECT a.address, a.port_id, a.in_pool, a.claimed,
    a.port_id IN (SELECT p.id FROM network.port p WHERE {OF_UNKNOWN_GUEST}) AS unknown
FROM network.address a WHERE a.subnet_id = $1
"""  # noqa: S608 - a constant of addresses.py


async def list_holdings(tx: Connection, subnet_id: str) -> dict[Holding, str]:
    """What ports hold in the subnet, and which port each."""
    return {
        Holding(addressing.parse(row["address"]), row["in_pool"], row["claimed"], row["unknown"]): row["port_id"]
        for row in await tx.fetch(LIST_HOLDINGS, subnet_id)
    }


SET_HOLDINGS = """
-- network.set_holdings
UPDATE network.address a SET in_pool = h.in_pool, claimed = h.claimed
FROM (
    SELECT m.address, w.in_pool, w.claimed
    FROM unnest($2::inet[], $3::boolean[], $4::boolean[]) AS w (address, in_pool, claimed)
    JOIN network.address m ON m.subnet_id = $1 AND m.address = w.address
    ORDER BY m.address FOR NO KEY UPDATE OF m
) h WHERE a.subnet_id = $1 AND a.address = h.address
"""


async def set_holdings(tx: Connection, subnet_id: str, changed: Sequence[Holding]) -> None:
    """How these held addresses of the subnet stand from now on."""
    await tx.execute(
        SET_HOLDINGS, subnet_id, [addressing.show(item.address) for item in changed],
        [item.in_pool for item in changed], [item.claimed for item in changed],
    )  # fmt: skip


LIST_CHANGING = """
-- network.list_changing_subnets
SELECT id FROM network.subnet
WHERE (change IS NOT NULL OR deleting) AND ($1::uuid[] IS NULL OR provider_uuid = ANY($1)
    OR coalesce((change #>> '{before,segment_id}')::uuid, network_id) = ANY($1))
ORDER BY id
"""


async def list_changing(tx: Connection, provider_uuids: Sequence[str] | None = None) -> list[str]:
    """Subnets of which the ledger is being told a change or their end, that concerns these providers or any."""
    return [row["id"] for row in await tx.fetch(LIST_CHANGING, provider_uuids)]


COUNT_MOVING = """
-- network.count_moving_addresses
SELECT count(*) FROM network.subnet s JOIN network.address a ON a.subnet_id = s.id
WHERE s.change IS NOT NULL AND ($1::uuid[] IS NULL OR s.provider_uuid = ANY($1))
"""


async def count_moving(tx: Connection, provider_uuids: Sequence[str] | None) -> int:
    """How many addresses are held in subnets that are changing, of these providers or of any."""
    return int(await tx.fetchval(COUNT_MOVING, provider_uuids))


LIST_MOVING = """
-- network.list_moving_ports
SELECT DISTINCT a.port_id FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id
WHERE a.port_id = ANY($1::uuid[]) AND s.change IS NOT NULL
"""


async def list_moving(tx: Connection, port_ids: Sequence[str]) -> set[str]:
    """Those of the ports that hold addresses in subnets that are changing: the ledger is just being told of them."""
    return {row["port_id"] for row in await tx.fetch(LIST_MOVING, port_ids)}


LIST_SUBNET_PORTS = """
-- network.list_subnet_ports
SELECT DISTINCT port_id FROM network.address WHERE subnet_id = ANY($1::uuid[]) ORDER BY port_id
"""


async def list_ports(tx: Connection, subnet_ids: Sequence[str]) -> list[str]:
    """The ports that hold addresses in the subnets."""
    return [row["port_id"] for row in await tx.fetch(LIST_SUBNET_PORTS, subnet_ids)]


FIND_GATEWAY_PORT = """
-- network.find_gateway_port
SELECT p.id FROM network.address a JOIN network.port p ON p.id = a.port_id
WHERE a.subnet_id = $1 AND a.address = $2 AND p.device_owner LIKE 'network:%router%'
"""


async def find_gateway_port(tx: Connection, subnet: Subnet) -> str | None:
    """The port of a router that holds the subnet's gateway address."""
    if subnet.gateway_ip is None:
        return None
    found: str | None = await tx.fetchval(FIND_GATEWAY_PORT, subnet.id, subnet.gateway_ip)
    return found
