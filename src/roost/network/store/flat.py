"""Flat networks: the addresses that servers have.

Lock order: these rows, by server and tag, then subnets, as with ports.
"""

from collections.abc import Mapping, Sequence

from roost.network.rules import addressing
from roost.network.rules.flat import FlatAddress
from roost.platform.database import Connection

_ADDRESS = "server_id, tag, network_id, subnet_id, address, mac_address, ticket"

LOCK_FLAT = f"""
-- network.lock_flat_addresses
SELECT {_ADDRESS} FROM network.flat_address WHERE server_id = ANY($1::uuid[]) ORDER BY server_id, tag FOR UPDATE
"""  # noqa: S608 - only column names of this file


async def lock_of_servers(tx: Connection, server_ids: Sequence[str]) -> list[FlatAddress]:
    """All addresses of the servers."""
    return [FlatAddress(**row) for row in await tx.fetch(LOCK_FLAT, server_ids)]


LIST_FLAT = f"""
-- network.list_flat_addresses
SELECT {_ADDRESS} FROM network.flat_address WHERE server_id = ANY($1::uuid[]) ORDER BY server_id, tag
"""  # noqa: S608 - only column names of this file


async def list_of_servers(tx: Connection, server_ids: Sequence[str]) -> list[FlatAddress]:
    """All addresses of the servers, as they are."""
    return [FlatAddress(**row) for row in await tx.fetch(LIST_FLAT, server_ids)]


LIST_FLAT_PAGE = f"""
-- network.list_flat_addresses_page
SELECT {_ADDRESS} FROM network.flat_address WHERE server_id IN (
    SELECT DISTINCT server_id FROM network.flat_address WHERE server_id > $1 ORDER BY server_id LIMIT $2)
ORDER BY server_id, tag
"""  # noqa: S608 - only column names of this file


async def list_page(tx: Connection, *, after: str, limit: int) -> list[FlatAddress]:
    """All addresses of the next `limit` servers above `after`."""
    return [FlatAddress(**row) for row in await tx.fetch(LIST_FLAT_PAGE, after, limit)]


LIST_HOLDERS = """
-- network.list_flat_holders
SELECT f.network_id, f.address, f.server_id FROM network.flat_address f
JOIN unnest($1::uuid[], $2::inet[]) AS w (network_id, address)
    ON f.network_id = w.network_id AND f.address = w.address
"""


async def list_holders(tx: Connection, named: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Those of the (network id, address) that a server has -> that server."""
    rows = await tx.fetch(LIST_HOLDERS, [network for network, _ in named], [address for _, address in named])
    return {(row["network_id"], row["address"]): row["server_id"] for row in rows}


NEXT_TICKET = """
-- network.next_flat_ticket
SELECT nextval('network.flat_ticket')
"""


async def next_ticket(tx: Connection) -> int:
    """A number above all that were handed out before."""
    return int(await tx.fetchval(NEXT_TICKET))


# Ordered, so that two that insert the same rows wait for each other and never in a circle.
INSERT_FLAT = """
-- network.insert_flat_addresses
INSERT INTO network.flat_address (server_id, tag, network_id, subnet_id, address, mac_address, ticket)
SELECT server_id, tag, network_id, subnet_id, address, mac_address, ticket
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::inet[], $6::text[], $7::bigint[])
    AS n (server_id, tag, network_id, subnet_id, address, mac_address, ticket)
ORDER BY server_id, tag
ON CONFLICT DO NOTHING
"""


async def insert(tx: Connection, given: Sequence[FlatAddress]) -> bool:
    """Servers have these addresses from now on; False if one is there already, or a MAC address is."""
    done = await tx.execute(
        INSERT_FLAT, [item.server_id for item in given], [item.tag for item in given],
        [item.network_id for item in given], [item.subnet_id for item in given], [item.address for item in given],
        [item.mac_address for item in given], [item.ticket for item in given],
    )  # fmt: skip
    return bool(done == f"INSERT 0 {len(given)}")


SET_TICKETS = """
-- network.set_flat_tickets
UPDATE network.flat_address f SET ticket = t.ticket FROM unnest($1::uuid[], $2::bigint[]) AS t (server_id, ticket)
WHERE f.server_id = t.server_id
"""


async def set_tickets(tx: Connection, tickets: Mapping[str, int]) -> None:
    """All addresses of these servers are as the holder of the ticket wants them; the rows are locked."""
    await tx.execute(SET_TICKETS, list(tickets), list(tickets.values()))


DELETE_FLAT = """
-- network.delete_flat_addresses
DELETE FROM network.flat_address f
USING unnest($1::uuid[], $2::text[], $3::uuid[], $4::inet[], $5::bigint[])
    AS d (server_id, tag, subnet_id, address, ticket)
WHERE f.server_id = d.server_id AND f.tag = d.tag AND f.subnet_id = d.subnet_id AND f.address = d.address
    AND f.ticket = d.ticket
RETURNING f.subnet_id, f.address
"""


async def delete(tx: Connection, items: Sequence[FlatAddress]) -> dict[str, list[int]]:
    """Nobody has these any more; one that changed since it was read stays. Returns subnet id -> addresses."""
    rows = await tx.fetch(
        DELETE_FLAT, [item.server_id for item in items], [item.tag for item in items],
        [item.subnet_id for item in items], [item.address for item in items], [item.ticket for item in items],
    )  # fmt: skip
    freed: dict[str, list[int]] = {}
    for row in rows:
        freed.setdefault(row["subnet_id"], []).append(addressing.parse(row["address"]))
    return freed
