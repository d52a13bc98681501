"""Guest rows, and what agents' reports change of servers and work: SQL only."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Collection, Mapping

from roost.compute.model.recovery import PendingHosts
from roost.compute.model.work import GUEST_LOST, HOST_LOST, Failure, Guest, Retreat, Stage, WorkState
from roost.compute.store.recovery import FOLLOWS, HAS_LISTED, LAST_EPOCH, VERSION_LISTS
from roost.platform.database import Connection
from roost.platform.rows import columns_of, encode, read_row
from roost.seams.agent import GuestKey
from roost.seams.guests import MemorySource

ORDER_OPEN = "(g.reported IS DISTINCT FROM g.desired OR g.nics_reported <> g.nics_version)"
"""On a row `g` of compute.guest: its host is asked for it. An index has these rows."""

HOST_NAMES = """
-- compute.list_host_names
SELECT name FROM compute.host WHERE declared OR NOT $1 ORDER BY name
"""


async def list_host_names(tx: Connection, *, declared_only: bool) -> list[str]:
    """Return all hosts, or those that a cloud file declared, by name."""
    return [row[0] for row in await tx.fetch(HOST_NAMES, declared_only)]


# No host is read but for a recovery: the subquery needs the recovery's row, and is no join that begins with the hosts.
PENDING_HOSTS = f"""
-- compute.list_pending_hosts
SELECT DISTINCT host, false AS to_list FROM compute.guest g WHERE {ORDER_OPEN}
    AND {FOLLOWS}
UNION ALL SELECT h.name, true FROM compute.recovery r CROSS JOIN LATERAL (
    SELECT h.name FROM compute.host h WHERE NOT {HAS_LISTED} AND h.service_version >= {VERSION_LISTS} OFFSET 0) h
WHERE r.ended_at IS NULL
"""


async def list_pending_hosts(tx: Connection) -> PendingHosts:
    """Return the hosts whose agents have something to do, or are at work on it."""
    rows = await tx.fetch(PENDING_HOSTS)
    to_list = {row["host"] for row in rows if row["to_list"]}
    return PendingHosts(frozenset(row["host"] for row in rows if not row["to_list"]), frozenset(to_list))


GUEST_COLUMNS = """server_id, host, attempt, desired, agent_id, reported, lost_at IS NOT NULL AS lost,
    fenced_by IS NOT NULL AS fenced, sequence, meeting, nics_version, nics_reported,
    (SELECT u.attempt FROM compute.unknown_guest u WHERE u.host = guest.host AND u.server_id = guest.server_id)
        AS unknown_attempt,
    extract(epoch FROM coalesce(running_at, begun_at, created_at))::double precision AS since_s"""

LOCK_GUESTS = f"""
-- compute.lock_guests
SELECT {GUEST_COLUMNS} FROM compute.guest
WHERE (server_id, host) IN (SELECT * FROM unnest($1::uuid[], $2::text[])) OR server_id = ANY($3::uuid[])
ORDER BY server_id, host FOR UPDATE
"""


async def lock_guests(tx: Connection, keys: Collection[GuestKey], *, server_ids: Collection[str] = ()) -> list[Guest]:
    """Lock the guest rows in the order of server ids; missing ones are left out. server_ids: on all hosts."""
    rows = await tx.fetch(LOCK_GUESTS, *(columns_of(keys) or [[], []]), list(server_ids))
    return [read_row(Guest, row, "meeting") for row in rows]


# Names are compared as bytes, as the agent sorts them. Two indexes have all hosts: by agent, and those that are silent.
HOSTS_OF_AGENT = """
-- compute.list_hosts_of_agent
SELECT name FROM (
    SELECT name FROM compute.host WHERE agent_id = $1 AND NOT silent
    UNION ALL SELECT name FROM compute.host WHERE agent_id = $1 AND silent) AS host
WHERE name COLLATE "C" > $2 AND ($3::text IS NULL OR name COLLATE "C" <= $3)
"""


async def list_hosts_of(tx: Connection, *, agent_id: str, after: str, until: str | None) -> list[str]:
    """Return the hosts above `after` and up to `until`, None for all that follow, on which the agent has the lease."""
    return [row[0] for row in await tx.fetch(HOSTS_OF_AGENT, agent_id, after, until)]


GUESTS_ON_HOSTS = f"""
-- compute.list_guests_on_hosts
SELECT {GUEST_COLUMNS} FROM compute.guest WHERE host = ANY($1::text[])
"""


async def list_guests_on(tx: Connection, hosts: Collection[str]) -> list[Guest]:
    """Return what the hosts are asked for."""
    return [read_row(Guest, row, "meeting") for row in await tx.fetch(GUESTS_ON_HOSTS, list(hosts))]


HOSTS_HELD = """
-- compute.list_hosts_held
SELECT name FROM compute.host WHERE name = ANY($1::text[]) AND agent_id = $2
"""


async def list_hosts_held(tx: Connection, names: Collection[str], *, agent_id: str) -> set[str]:
    """Return those of the hosts on which the agent has the lease, or had the last one."""
    return {row[0] for row in await tx.fetch(HOSTS_HELD, list(names), agent_id)}


AGENTS_ALIVE = """
-- compute.list_agents_alive
SELECT DISTINCT agent_id FROM compute.host WHERE agent_id = ANY($1::uuid[]) AND NOT silent
"""


async def list_agents_alive(tx: Connection, agent_ids: Collection[str]) -> set[str]:
    """Return those of the agents that hold the lease on some host that is heard of."""
    return {row[0] for row in await tx.fetch(AGENTS_ALIVE, list(agent_ids))}


ATTEMPTS = """
-- compute.list_begun_attempts
SELECT server_id, max(attempt) AS attempt FROM compute.guest
WHERE server_id = ANY($1::uuid[]) AND (begun_at IS NOT NULL OR reported IS NOT NULL) GROUP BY server_id
"""


async def list_begun_attempts(tx: Connection, server_ids: Collection[str]) -> dict[str, int]:
    """Return server id -> the highest attempt that a host has begun, of those of which one has."""
    return {row["server_id"]: row["attempt"] for row in await tx.fetch(ATTEMPTS, list(server_ids))}


LOCK_WORKS = """
-- compute.lock_works
SELECT server_id, stage, attempt, deleting,
    EXISTS (SELECT FROM compute.move m WHERE m.server_id = work.server_id AND m.open) AS moving
FROM compute.work WHERE server_id = ANY($1::uuid[])
ORDER BY server_id FOR UPDATE
"""


async def lock_works(tx: Connection, server_ids: Collection[str]) -> list[WorkState]:
    """Lock the servers' work rows in the order of server ids; a server without work is left out."""
    rows = await tx.fetch(LOCK_WORKS, list(server_ids))
    return [read_row(WorkState, row, stage=Stage(row["stage"])) for row in rows]


MARK_GUESTS = """
-- compute.mark_guests
UPDATE compute.guest g
SET begun_at = coalesce(g.begun_at, now()), agent_id = $4,
    reported = coalesce(m.state, g.reported), running_at = CASE WHEN m.state IS NULL THEN g.running_at ELSE now() END,
    sequence = coalesce(m.sequence, g.sequence), nics_reported = coalesce(m.nics_version, g.nics_reported)
FROM unnest($1::uuid[], $2::text[], $3::text[], $5::bigint[], $6::integer[])
    AS m (server_id, host, state, sequence, nics_version)
WHERE g.server_id = m.server_id AND g.host = m.host
"""


async def mark_guests(
    tx: Connection,
    *,
    begun: Collection[GuestKey],
    states: Mapping[GuestKey, str],
    sequences: Mapping[GuestKey, int],
    nics_versions: Mapping[GuestKey, int],
    agent_id: str,
) -> None:
    """Record that an agent has begun these guests, and in which states it has those.

    sequences, nics_versions: of the states.
    """
    begun_marks = [(*key, None, None, None) for key in begun]
    marks = begun_marks + [(*key, state, sequences[key], nics_versions[key]) for key, state in states.items()]
    if marks:
        *columns, numbers, versions = columns_of(marks)
        await tx.execute(MARK_GUESTS, *columns, agent_id, numbers, versions)


# Who is asked again is told where its memory is to go.
MEET = """
-- compute.meet
WITH destination AS (
    UPDATE compute.guest g SET meeting = m.meeting
    FROM unnest($1::uuid[], $2::text[], $3::jsonb[]) AS m (server_id, host, meeting)
    WHERE g.server_id = m.server_id AND g.host = m.host
)
UPDATE compute.guest g SET reported = NULL
FROM unnest($4::uuid[], $5::text[], $6::text[]) AS a (server_id, host, state)
WHERE g.server_id = a.server_id AND g.host = a.host AND g.reported = a.state
"""


async def meet(tx: Connection, meetings: Mapping[GuestKey, MemorySource], asked_again: Mapping[GuestKey, str]) -> None:
    """Record where guests await their memory, and ask the hosts of those that have it for them once more."""
    if meetings:
        at = [(*key, encode(meeting)) for key, meeting in meetings.items()]
        again = [(*key, state) for key, state in asked_again.items()]
        await tx.execute(MEET, *columns_of(at), *(columns_of(again) or [[], [], []]))


ADOPT_GUESTS = """
-- compute.adopt_guests
UPDATE compute.guest SET agent_id = $3, sequence = 0
WHERE (server_id, host) IN (SELECT * FROM unnest($1::uuid[], $2::text[]))
"""


async def adopt_guests(tx: Connection, keys: Collection[GuestKey], *, agent_id: str | None) -> None:
    """Make these guests that agent's, None for nobody's; its driver has sequences of its own."""
    if keys:
        await tx.execute(ADOPT_GUESTS, *columns_of(keys), agent_id)


# After the records went back hosts may have had later numbers than are known.
ASK_FOR_NICS = f"""
-- compute.ask_for_nics
UPDATE compute.guest g SET nics_version = 1 + greatest(nics_version, {LAST_EPOCH})
FROM (SELECT server_id, host FROM compute.guest WHERE server_id = $1 ORDER BY host FOR UPDATE) l
WHERE g.server_id = l.server_id AND g.host = l.host RETURNING g.host
"""


async def ask_for_nics(tx: Connection, server_id: str) -> set[str]:
    """Ask every host that has a guest of the server for its NICs as they are now; return the hosts."""
    return {row["host"] for row in await tx.fetch(ASK_FOR_NICS, server_id)}


LOSE_GUESTS = """
-- compute.lose_guests
UPDATE compute.guest SET lost_at = now() WHERE (server_id, host) IN (SELECT * FROM unnest($1::uuid[], $2::text[]))
"""
FAIL_SERVERS = """
-- compute.fail_servers
UPDATE compute.server s
SET status = 'ERROR', task_state = NULL, fault = l.fault, updated_at = now()
FROM unnest($1::uuid[], $2::text[], $3::jsonb[]) AS l (server_id, host, fault)
WHERE s.id = l.server_id AND s.host = l.host
    AND (s.status = 'ACTIVE' OR (s.status = 'ERROR' AND s.task_state <> 'deleting'))
RETURNING s.id
"""
FAIL_LAUNCHES = """
-- compute.fail_launches
UPDATE compute.work w
SET stage = CASE WHEN EXISTS (SELECT FROM compute.move m WHERE m.server_id = w.server_id AND m.open) THEN 'restore'
        ELSE 'fail' END,
    failure = l.fault, run_at = now(), lease_owner = NULL, lease_until = NULL
FROM unnest($1::uuid[], $2::text[], $3::jsonb[]) AS l (server_id, host, fault)
WHERE w.server_id = l.server_id AND w.stage IN ('launch', 'copy') AND NOT w.deleting
    AND w.placed ->> 'host' = l.host
"""


async def lose_guests(tx: Connection, failures_by_key: Mapping[GuestKey, Failure]) -> dict[str, str | None]:
    """Record that these guests are gone: ACTIVE servers end in ERROR, launches fail; both keep addresses and claims.

    Return the servers that are in ERROR now, with the reason.
    """
    if not failures_by_key:
        return {}
    columns = columns_of(failures_by_key)
    faults = [encode(failure) for failure in failures_by_key.values()]
    await tx.execute(LOSE_GUESTS, *columns)
    await tx.execute(FAIL_LAUNCHES, *columns, faults)
    failed = await tx.fetch(FAIL_SERVERS, *columns, faults)
    messages = {server_id: failure.message for (server_id, _), failure in failures_by_key.items()}
    return {row["id"]: messages[row["id"]] for row in failed}


FIND_GUESTS = """
-- compute.find_guests_again
UPDATE compute.guest SET lost_at = NULL WHERE (server_id, host) IN (SELECT * FROM unnest($1::uuid[], $2::text[]))
"""


async def find_guests_again(tx: Connection, keys: Collection[GuestKey]) -> None:
    """Record that guests that were lost are present."""
    if keys:
        await tx.execute(FIND_GUESTS, *columns_of(keys))


TAKE_OVER = """
-- compute.take_over
WITH moving AS (
    UPDATE compute.work w SET stage = 'bind', run_at = now(), lease_owner = NULL, lease_until = NULL
    FROM compute.move m WHERE m.server_id = w.server_id AND m.open AND w.server_id = ANY($1::uuid[])
        AND w.stage IN ('copy', 'stop') AND NOT w.deleting
    RETURNING w.server_id, m.source_host)
UPDATE compute.guest g SET desired = 'stopped', reported = CASE WHEN reported <> 'stopped' THEN reported END
FROM moving WHERE g.server_id = moving.server_id AND g.host = moving.source_host AND g.desired <> 'absent'
"""


async def take_over(tx: Connection, server_ids: Collection[str]) -> None:
    """Have live migrations go on whose destinations have the guests already: the sources' are not to run any more."""
    if server_ids:
        await tx.execute(TAKE_OVER, list(server_ids))


# The release before wrote no kind, but these sentences.
RESTORE_SERVERS = f"""
-- compute.restore_servers
UPDATE compute.server s SET status = 'ACTIVE', fault = NULL, updated_at = now()
FROM unnest($1::uuid[], $2::text[]) AS f (server_id, host)
WHERE s.id = f.server_id AND s.host = f.host AND s.status = 'ERROR' AND s.task_state IS NULL
    AND s.launched_at IS NOT NULL AND (s.fault ->> 'kind' IN ('{GUEST_LOST}', '{HOST_LOST}')
        OR (s.fault -> 'kind' IS NULL AND s.fault ->> 'message' IN ('its guest is gone from host ' || s.host,
            'host ' || s.host || ' is down, and does not start it again')))
    AND NOT EXISTS (SELECT FROM compute.work w WHERE w.server_id = s.id)
RETURNING s.id, s.host
"""


async def restore_servers(tx: Connection, keys: Collection[GuestKey]) -> dict[str, str]:
    """Make servers ACTIVE that Roost put into ERROR as lost, and whose guests are there; return server id -> host."""
    return {row["id"]: row["host"] for row in await tx.fetch(RESTORE_SERVERS, *columns_of(keys))}


# What was unknown and was ordered to go holds its addresses until now.
DELETE_GUESTS = """
-- compute.delete_guests
WITH gone AS (SELECT * FROM unnest($1::uuid[], $2::text[]) AS g (server_id, host)),
unknown AS (DELETE FROM compute.unknown_guest u USING gone WHERE u.server_id = gone.server_id AND u.host = gone.host)
DELETE FROM compute.guest AS g USING gone WHERE g.server_id = gone.server_id AND g.host = gone.host
"""


async def delete_guests(tx: Connection, keys: Collection[GuestKey]) -> None:
    """Delete these guests, of which the hosts have nothing left."""
    if keys:
        await tx.execute(DELETE_GUESTS, *columns_of(keys))


ACTIVATE_SERVERS = """
-- compute.activate_servers
UPDATE compute.server s
SET status = 'ACTIVE', task_state = NULL, launched_at = now(), host = a.host, power_state = NULL, updated_at = now()
FROM unnest($1::uuid[], $2::text[]) AS a (server_id, host)
WHERE s.id = a.server_id
"""
SETTLE_WORKS = """
-- compute.settle_works
UPDATE compute.work SET stage = 'settle', run_at = now(), lease_owner = NULL, lease_until = NULL
WHERE server_id = ANY($1::uuid[])
"""


async def activate_servers(tx: Connection, hosts_by_server: Mapping[str, str]) -> None:
    """Make these servers ACTIVE on these hosts; their work goes to `settle`."""
    if hosts_by_server:
        await tx.execute(ACTIVATE_SERVERS, list(hosts_by_server), list(hosts_by_server.values()))
        await tx.execute(SETTLE_WORKS, list(hosts_by_server))


# A change that nobody asked for here is none: the server's action ends with the state that it asked for. What was in
# ERROR is not any more: its guest was made again, or is in the state that was asked for. Shelved is what was stopped to
# be that, until it is anything but stopped, or is stopped out of ERROR; a release that does not know of it may have
# started it meanwhile.
CHANGE_SERVERS = """
-- compute.change_servers
UPDATE compute.server s SET power = c.power, power_state = NULL, status = 'ACTIVE', task_state = NULL,
    updated_at = now(), fault = CASE WHEN s.status = 'ACTIVE' THEN s.fault END,
    shelved = c.power = 'stopped'
        AND (coalesce(s.task_state = 'shelving', false) OR (s.shelved AND s.power = 'stopped' AND s.status = 'ACTIVE'))
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS c (server_id, host, power)
WHERE s.id = c.server_id AND s.host = c.host AND c.power <> 'incoming' AND s.task_state IS DISTINCT FROM 'deleting'
    AND ((s.status = 'ACTIVE' AND s.power <> c.power) OR (s.status IN ('ACTIVE', 'ERROR') AND s.task_state IS NOT NULL))
    AND NOT EXISTS (SELECT FROM compute.move m WHERE m.server_id = s.id AND m.open)
RETURNING s.id
"""


async def change_servers(tx: Connection, states_by_server: Mapping[str, tuple[str, str]]) -> list[str]:
    """Record the states, by server id with its host, that were asked of servers without work, and are so now.

    Return the servers that changed.
    """
    if not states_by_server:
        return []
    rows = [(server_id, *state) for server_id, state in states_by_server.items()]
    return [row["id"] for row in await tx.fetch(CHANGE_SERVERS, *columns_of(rows))]


KEEP_GUESTS = """
-- compute.keep_guests
UPDATE compute.guest g SET desired = g.reported
FROM unnest($1::uuid[], $2::text[]) AS k (server_id, host) JOIN compute.server s ON s.id = server_id AND s.host = k.host
WHERE g.server_id = k.server_id AND g.host = k.host AND g.reported IS NOT NULL
"""
# What does by itself what its host cannot undo is what it does.
KEEP_SERVERS = """
-- compute.keep_servers
UPDATE compute.server s SET task_state = NULL, updated_at = now(),
    shelved = s.shelved AND coalesce(g.reported, s.power) = 'stopped',
    power = CASE WHEN g.reported IN ('running', 'stopped', 'paused', 'suspended') THEN g.reported ELSE s.power END
FROM unnest($1::uuid[], $2::text[]) AS k (id, host) LEFT JOIN compute.guest g ON g.server_id = k.id AND g.host = k.host
WHERE s.id = k.id AND s.host = k.host AND s.task_state IS DISTINCT FROM 'deleting'
"""


async def keep_servers(tx: Connection, failures_by_server: Mapping[str, Failure]) -> None:
    """Leave servers without work as they were, of which the hosts did not do what was asked."""
    if failures_by_server:
        keys = [(server_id, failure.host) for server_id, failure in failures_by_server.items()]
        await tx.execute(KEEP_GUESTS, *columns_of(keys))
        await tx.execute(KEEP_SERVERS, *columns_of(keys))


RESTORE_WORKS = """
-- compute.restore_works
UPDATE compute.work w SET stage = 'restore', failure = r.failure, run_at = now(), lease_owner = NULL, lease_until = NULL
FROM unnest($1::uuid[], $2::jsonb[]) AS r (server_id, failure)
WHERE w.server_id = r.server_id AND w.stage IN ('copy', 'stop') AND NOT w.deleting
"""


async def restore_works(tx: Connection, failures_by_server: Mapping[str, Failure]) -> None:
    """Order that moves are taken back of which the sources do not stop the servers, or send no memory."""
    if failures_by_server:
        failures = [encode(failure) for failure in failures_by_server.values()]
        await tx.execute(RESTORE_WORKS, list(failures_by_server), failures)


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
    """Send the work of servers whose launches ended without a guest to `retry`, without those hosts."""
    if retreats:
        await tx.execute(
            RETRY_WORKS,
            list(retreats),
            [retreat.failure.host for retreat in retreats.values()],
            [encode(retreat.failure) for retreat in retreats.values()],
            [retreat.counts for retreat in retreats.values()],
        )


# R34. A conductor that looks just now has read what was before: it loses the lease, so that it writes no wait.
RESUME_WORKS = """
-- compute.resume_works
UPDATE compute.work SET run_at = now(), lease_owner = NULL, lease_until = NULL WHERE server_id = ANY($1::uuid[])
"""


async def resume_works(tx: Connection, server_ids: Collection[str]) -> None:
    """Make the servers' work due now: what it waited for has happened."""
    if server_ids:
        await tx.execute(RESUME_WORKS, list(server_ids))
