"""Guests that agents list and that the records do not know: SQL only."""

from collections.abc import Collection, Sequence

from roost.compute.model.unknown_guests import UnknownGuest
from roost.compute.rules.unknown_guests import kept_of
from roost.platform.database import Connection
from roost.platform.rows import encode_or_null, read_row
from roost.seams.agent import GuestAttempt

UNKNOWN_ELSEWHERE = """FROM compute.unknown_guest unknown JOIN compute.host holder ON holder.name = unknown.host
    WHERE NOT holder.forced_down"""
"""Unknown guests whose servers are made nowhere; on a host that is forced down an operator vouches that none runs."""
HAS_ADDRESS = """EXISTS (
        SELECT FROM jsonb_array_elements(s.network_info) AS port, jsonb_array_elements(unknown.listed -> 'nics') AS nic
        WHERE coalesce(nic ->> 'network_id', port ->> 'network_id') = port ->> 'network_id'
            AND nic -> 'addresses' ?| ARRAY(SELECT jsonb_array_elements_text(port -> 'addresses')))"""
"""On rows `unknown` and `s` of compute.server: the unknown guest has an address of the server."""

# In one statement, so that a list that changes nothing, as nearly all do, costs one. A guest that is ordered to go
# holds its addresses until its host says that it is gone.
SET_UNKNOWN_GUESTS = """
-- compute.set_unknown_guests
WITH listed AS (
    SELECT * FROM unnest($2::uuid[], $3::text[], $4::integer[], $5::jsonb[]) AS l (server_id, host, attempt, listed)),
forgotten AS (
    DELETE FROM compute.unknown_guest AS u
    WHERE u.host = ANY($1::text[])
        AND NOT EXISTS (SELECT FROM listed l WHERE l.server_id = u.server_id AND l.host = u.host)
        AND NOT EXISTS (SELECT FROM compute.guest g
            WHERE g.server_id = u.server_id AND g.host = u.host AND g.desired = 'absent')
    RETURNING u.host),
changed AS (
    INSERT INTO compute.unknown_guest AS u (server_id, host, attempt, listed)
    SELECT server_id, host, attempt, listed FROM listed
    ON CONFLICT (host, server_id) DO UPDATE SET attempt = excluded.attempt, listed = excluded.listed
    WHERE (u.attempt, u.listed) IS DISTINCT FROM (excluded.attempt, excluded.listed)
    RETURNING u.host)
SELECT host FROM forgotten UNION SELECT host FROM changed
"""


async def set_unknown_guests(tx: Connection, unknown: Sequence[GuestAttempt], *, hosts: Collection[str]) -> set[str]:
    """Keep these as the guests that nobody asked for on the hosts; return the hosts of which they are others now."""
    columns = [
        [guest.server_id for guest in unknown], [guest.host for guest in unknown],
        [guest.attempt for guest in unknown], [encode_or_null(kept_of(guest)) for guest in unknown],
    ]  # fmt: skip
    return {row["host"] for row in await tx.fetch(SET_UNKNOWN_GUESTS, list(hosts), *columns)}


LIST_UNKNOWN_GUESTS = """
-- compute.list_unknown_guests
SELECT u.server_id, u.host, u.attempt, u.listed_at, u.listed, coalesce(h.vcpus, 0) AS vcpus,
    EXISTS (SELECT FROM compute.guest g
        WHERE g.server_id = u.server_id AND g.host = u.host AND g.desired = 'absent' AND g.attempt >= u.attempt)
        AS destroying,
    EXISTS (SELECT FROM compute.server s WHERE s.id = u.server_id) AS server_known
FROM compute.unknown_guest u LEFT JOIN compute.host h ON h.name = u.host
WHERE $1::text[] IS NULL OR u.host = ANY($1)
ORDER BY u.host, u.listed_at, u.server_id LIMIT $2
"""


async def list_unknown_guests(
    tx: Connection, hosts: Collection[str] | None = None, *, limit: int | None = None
) -> list[UnknownGuest]:
    """Return the unknown guests of the hosts, None for all; by host, those that were listed first before others."""
    rows = await tx.fetch(LIST_UNKNOWN_GUESTS, None if hosts is None else list(hosts), limit)
    return [read_row(UnknownGuest, row, "listed") for row in rows]


READ_CLOCK = """
-- compute.read_clock
SELECT extract(epoch FROM clock_timestamp())::double precision
"""


async def read_clock(tx: Connection) -> float:
    """Return the time of the database in seconds since 1970."""
    return float(await tx.fetchval(READ_CLOCK))


HOSTS_OF_UNKNOWN = """
-- compute.list_hosts_of_unknown_guests
SELECT DISTINCT host FROM compute.unknown_guest
"""


async def list_hosts(tx: Connection) -> set[str]:
    """Return the hosts that list guests which nobody asked for."""
    return {row["host"] for row in await tx.fetch(HOSTS_OF_UNKNOWN)}


DESTROY_UNKNOWN = """
-- compute.destroy_unknown_guest
WITH known AS (SELECT server_id, host, attempt FROM compute.unknown_guest WHERE server_id = $1 AND host = $2 FOR UPDATE)
INSERT INTO compute.guest (server_id, host, attempt, desired, begun_at)
SELECT server_id, host, attempt, 'absent', now() FROM known
ON CONFLICT (server_id, host) DO UPDATE SET attempt = excluded.attempt, agent_id = NULL, reported = NULL
RETURNING desired
"""


async def destroy_unknown_guest(tx: Connection, server_id: str, host: str) -> str | None:
    """Order the host to destroy a guest that nobody asked for; return what is desired then, None without one."""
    desired: str | None = await tx.fetchval(DESTROY_UNKNOWN, server_id, host)
    return desired


LIST_SERVERS_WITH_UNKNOWN = f"""
-- compute.list_servers_with_unknown_guests
SELECT DISTINCT unknown.server_id {UNKNOWN_ELSEWHERE} AND unknown.server_id = ANY($1::uuid[])
"""


async def list_servers_with_unknown_guests(tx: Connection, server_ids: Sequence[str]) -> set[str]:
    """Return the servers of which a host has a guest that the records do not know, unless it is forced down."""
    return {row[0] for row in await tx.fetch(LIST_SERVERS_WITH_UNKNOWN, server_ids)}


DESTROY_UNKNOWN_OF = """
-- compute.destroy_unknown_guests_of
INSERT INTO compute.guest AS g (server_id, host, attempt, desired, begun_at)
SELECT server_id, host, attempt, 'absent', now() FROM (
    SELECT * FROM compute.unknown_guest WHERE server_id = ANY($1::uuid[]) ORDER BY host, server_id FOR UPDATE) u
ON CONFLICT (server_id, host) DO UPDATE SET attempt = excluded.attempt, agent_id = NULL, reported = NULL
WHERE g.attempt <> excluded.attempt
"""


async def destroy_unknown_guests_of(tx: Connection, server_ids: Sequence[str]) -> None:
    """Order hosts to destroy what they have of servers that are deleted, though the records do not know it."""
    await tx.execute(DESTROY_UNKNOWN_OF, server_ids)
