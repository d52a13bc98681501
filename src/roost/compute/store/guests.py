"""Guest rows, and what agents' reports change of servers and work: SQL only."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from roost.compute.guests import Guest, GuestKey, Retreat, WorkState
from roost.compute.model import GuestOrder, Stage
from roost.platform.database import Connection
from roost.seams.compute import RequestSpec, ServerPort

KNOWN_HOSTS = """
-- compute.list_known_hosts
SELECT name FROM compute.host WHERE name = ANY($1::text[])
"""


async def list_known_hosts(tx: Connection, names: Sequence[str]) -> set[str]:
    """Those of the names that are hosts."""
    return {row[0] for row in await tx.fetch(KNOWN_HOSTS, names)}


HOST_NAMES = """
-- compute.list_host_names
SELECT name FROM compute.host WHERE declared OR NOT $1 ORDER BY name
"""


async def list_host_names(tx: Connection, *, declared_only: bool) -> list[str]:
    """All hosts, or those that a cloud file declared, by name."""
    return [row[0] for row in await tx.fetch(HOST_NAMES, declared_only)]


PENDING_HOSTS = """
-- compute.list_pending_hosts
SELECT DISTINCT host FROM compute.guest WHERE reported IS DISTINCT FROM desired
"""


async def list_pending_hosts(tx: Connection) -> set[str]:
    """Hosts that have orders, or whose agents are at work on them."""
    return {row[0] for row in await tx.fetch(PENDING_HOSTS)}


# An order that an agent is at work on comes back only when its desired state has changed meanwhile.
ORDERS = """
-- compute.list_orders
SELECT g.server_id, g.host, g.attempt, g.desired, coalesce(s.name, '') AS name, s.spec, s.network_info
FROM compute.guest g
LEFT JOIN compute.server s ON s.id = g.server_id
WHERE g.host = ANY($1::text[]) AND g.reported IS DISTINCT FROM g.desired
  AND NOT EXISTS (
    SELECT FROM unnest($2::uuid[], $3::text[], $4::integer[], $5::text[]) AS b (server_id, host, attempt, desired)
    WHERE b.server_id = g.server_id AND b.host = g.host AND b.attempt = g.attempt AND b.desired = g.desired)
ORDER BY g.created_at, g.server_id
LIMIT $6
"""

_spec = msgspec.json.Decoder(RequestSpec)
_ports = msgspec.json.Decoder(tuple[ServerPort, ...])
_NOTHING = RequestSpec(vcpus=0, memory_mb=0, disk_gb=0)


async def list_orders(
    tx: Connection, hosts: Sequence[str], *, busy: Collection[tuple[str, str, int, str]], limit: int
) -> list[GuestOrder]:
    """What the hosts should change, oldest first. busy: (server_id, host, attempt, desired) to leave out."""
    columns = [list(column) for column in zip(*busy, strict=True)] or [[], [], [], []]
    orders = []
    for row in await tx.fetch(ORDERS, hosts, *columns, limit):
        spec = _NOTHING if row["spec"] is None else _spec.decode(row["spec"])
        orders.append(
            GuestOrder(
                server_id=row["server_id"],
                host=row["host"],
                attempt=row["attempt"],
                desired=row["desired"],
                name=row["name"],
                vcpus=spec.vcpus,
                ram_mb=spec.memory_mb,
                disk_gb=spec.disk_gb,
                ports=() if row["network_info"] is None else _ports.decode(row["network_info"]),
            )
        )
    return orders


LOCK_GUESTS = """
-- compute.lock_guests
SELECT server_id, host, attempt, desired FROM compute.guest
WHERE (server_id, host) IN (SELECT * FROM unnest($1::uuid[], $2::text[]))
ORDER BY server_id, host FOR UPDATE
"""


async def lock_guests(tx: Connection, keys: Collection[GuestKey]) -> list[Guest]:
    """Lock the guest rows in the order of server ids; missing ones are left out."""
    rows = await tx.fetch(LOCK_GUESTS, [key[0] for key in keys], [key[1] for key in keys])
    return [
        Guest(server_id=row["server_id"], host=row["host"], attempt=row["attempt"], desired=row["desired"])
        for row in rows
    ]


LOCK_WORKS = """
-- compute.lock_works
SELECT server_id, stage, attempt, deleting FROM compute.work
WHERE server_id = ANY($1::uuid[])
ORDER BY server_id FOR UPDATE
"""


async def lock_works(tx: Connection, server_ids: Collection[str]) -> list[WorkState]:
    """Lock the servers' work rows in the order of server ids; a server without work is left out."""
    return [
        WorkState(
            server_id=row["server_id"], stage=Stage(row["stage"]), attempt=row["attempt"], deleting=row["deleting"]
        )
        for row in await tx.fetch(LOCK_WORKS, list(server_ids))
    ]


MARK_GUESTS = """
-- compute.mark_guests
UPDATE compute.guest g
SET begun_at = coalesce(g.begun_at, now()), reported = CASE WHEN m.running THEN 'running' ELSE g.reported END
FROM unnest($1::uuid[], $2::text[], $3::boolean[]) AS m (server_id, host, running)
WHERE g.server_id = m.server_id AND g.host = m.host
"""


async def mark_guests(tx: Connection, *, begun: Collection[GuestKey], running: Collection[GuestKey]) -> None:
    """Note that hosts have begun these guests, and that they run those."""
    marks = [(*key, False) for key in begun] + [(*key, True) for key in running]
    if marks:
        await tx.execute(MARK_GUESTS, *(list(column) for column in zip(*marks, strict=True)))


DELETE_GUESTS = """
-- compute.delete_guests
DELETE FROM compute.guest
WHERE (server_id, host) IN (SELECT * FROM unnest($1::uuid[], $2::text[]))
"""


async def delete_guests(tx: Connection, keys: Collection[GuestKey]) -> None:
    """The hosts have nothing of these guests left."""
    if keys:
        await tx.execute(DELETE_GUESTS, [key[0] for key in keys], [key[1] for key in keys])


ACTIVATE_SERVERS = """
-- compute.activate_servers
UPDATE compute.server s
SET status = 'ACTIVE', task_state = NULL, launched_at = now(), host = a.host, updated_at = now()
FROM unnest($1::uuid[], $2::text[]) AS a (server_id, host)
WHERE s.id = a.server_id
"""
SETTLE_WORKS = """
-- compute.settle_works
UPDATE compute.work SET stage = 'settle', run_at = now(), lease_owner = NULL, lease_until = NULL
WHERE server_id = ANY($1::uuid[])
"""


async def activate_servers(tx: Connection, hosts_by_server: Mapping[str, str]) -> None:
    """The servers run on these hosts; their work goes to `settle`."""
    if hosts_by_server:
        await tx.execute(ACTIVATE_SERVERS, list(hosts_by_server), list(hosts_by_server.values()))
        await tx.execute(SETTLE_WORKS, list(hosts_by_server))


RETRY_WORKS = """
-- compute.retry_works
UPDATE compute.work w
SET stage = 'retry', failures = w.failures + r.counts::integer, failure = r.failure,
    excluded_hosts = CASE WHEN r.host = ANY(w.excluded_hosts) THEN w.excluded_hosts ELSE w.excluded_hosts || r.host END,
    run_at = now(), lease_owner = NULL, lease_until = NULL
FROM unnest($1::uuid[], $2::text[], $3::jsonb[], $4::boolean[]) AS r (server_id, host, failure, counts)
WHERE w.server_id = r.server_id
"""


async def retry_works(tx: Connection, retreats: Mapping[str, Retreat]) -> None:
    """The servers' launches ended without a guest: their work goes to `retry`, without those hosts."""
    if retreats:
        await tx.execute(
            RETRY_WORKS,
            list(retreats),
            [retreat.failure.host for retreat in retreats.values()],
            [msgspec.json.encode(retreat.failure).decode() for retreat in retreats.values()],
            [retreat.counts for retreat in retreats.values()],
        )


RESUME_WORKS = """
-- compute.resume_works
UPDATE compute.work SET run_at = now() WHERE server_id = ANY($1::uuid[])
"""


async def resume_works(tx: Connection, server_ids: Collection[str]) -> None:
    """What the servers' work waited for has happened: it goes on now."""
    if server_ids:
        await tx.execute(RESUME_WORKS, list(server_ids))


GUEST_ATTEMPTS = """
-- compute.list_guest_attempts
SELECT server_id, host, attempt FROM compute.guest
WHERE (server_id, host) IN (SELECT * FROM unnest($1::uuid[], $2::text[]))
"""


async def list_guest_attempts(tx: Connection, keys: Sequence[GuestKey]) -> dict[GuestKey, int]:
    """The attempt in force for each of the guests that has a row."""
    rows = await tx.fetch(GUEST_ATTEMPTS, [key[0] for key in keys], [key[1] for key in keys])
    return {(row["server_id"], row["host"]): row["attempt"] for row in rows}
