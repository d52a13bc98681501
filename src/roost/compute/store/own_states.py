"""SQL of what guests do by themselves, under the locks of work, guests and servers."""

from collections.abc import Collection, Mapping

from roost.compute.model.work import ServerStanding
from roost.platform.database import Connection
from roost.platform.rows import columns_of
from roost.seams.agent import GuestKey, ListedGuest

LOCK_SERVERS = """-- compute.lock_own_servers
SELECT id, status, task_state, host FROM compute.server WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE"""


async def lock_servers(tx: Connection, server_ids: Collection[str]) -> list[ServerStanding]:
    """Lock the servers in the order of their ids; missing ones are left out."""
    return [ServerStanding(**row) for row in await tx.fetch(LOCK_SERVERS, list(server_ids))]


NOTE_GUESTS = """-- compute.note_own_states
UPDATE compute.guest g SET reported = o.state, sequence = o.sequence, running_at = now(),
    desired = CASE WHEN $5 THEN o.state ELSE g.desired END
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[]) AS o (server_id, host, state, sequence)
WHERE g.server_id = o.server_id AND g.host = o.host"""


async def note_guests(tx: Connection, guests_by_key: Mapping[GuestKey, ListedGuest], *, wanted: bool) -> None:
    """Record what guests are. wanted: they are to be so from now on; otherwise what is desired is asked for again."""
    if guests_by_key:
        rows = [(*key, guest.state, guest.sequence) for key, guest in guests_by_key.items()]
        await tx.execute(NOTE_GUESTS, *columns_of(rows), wanted)


STOP_SERVERS = """-- compute.stop_servers
UPDATE compute.server s SET power = 'stopped', power_state = o.power_state, shelved = false, updated_at = now()
FROM unnest($1::uuid[], $2::text[]) AS o (server_id, power_state) WHERE s.id = o.server_id"""


async def stop_servers(tx: Connection, guests: Collection[ListedGuest]) -> None:
    """Record that the servers are stopped, and how that came."""
    if guests:
        await tx.execute(STOP_SERVERS, *columns_of([(guest.server_id, guest.power_state) for guest in guests]))


HOSTS_RUNNING = """-- compute.list_hosts_running
SELECT DISTINCT host FROM compute.guest
WHERE host = ANY($1::text[]) AND reported IN ('running', 'paused') AND lost_at IS NULL"""


async def list_hosts_running(tx: Connection, hosts: Collection[str]) -> set[str]:
    """Return those of the hosts on which some guest runs, or is paused."""
    return {row[0] for row in await tx.fetch(HOSTS_RUNNING, list(hosts))}
