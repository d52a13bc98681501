"""SQL of servers that are to leave some hosts."""

from collections.abc import Sequence

from roost.compute.model.departures import DepartureRow
from roost.compute.model.work import MoveKind, ServerContext, Stage
from roost.platform.database import Connection

# A request that failed has an action for each try. Of an open move the action says whose it is.
LIST_DEPARTURES = """-- compute.list_departures
WITH there AS (
    SELECT id FROM compute.server WHERE host = ANY($1::text[])
    UNION SELECT server_id FROM compute.move WHERE open AND source_host = ANY($1::text[])
    UNION SELECT server_id FROM compute.work WHERE placed ->> 'host' = ANY($1::text[])
)
SELECT s.id AS server_id, w.stage, m.kind, coalesce(a.request_id = $2, false) AS own, at.host,
    coalesce(h.forced_down OR h.silent, false) AS host_down, m.server_id IS NOT NULL AS moving,
    g.desired AS power_desired, g.lost_at IS NOT NULL AS guest_lost, f.failures, f.failed_s, (
        SELECT event ->> 'details' FROM jsonb_array_elements(f.events) WITH ORDINALITY AS one (event, number)
        WHERE event ->> 'result' = 'Error' ORDER BY number DESC LIMIT 1) AS failure
FROM there JOIN compute.server s USING (id)
LEFT JOIN compute.work w ON w.server_id = s.id
LEFT JOIN compute.move m ON m.server_id = s.id AND m.open
LEFT JOIN compute.action a ON a.id = (m.plan ->> 'action_id')::bigint
LEFT JOIN compute.guest g ON g.server_id = s.id AND g.host = s.host
CROSS JOIN LATERAL (
    SELECT CASE WHEN s.host = ANY($1::text[]) THEN s.host WHEN m.source_host = ANY($1::text[]) THEN m.source_host
        ELSE w.placed ->> 'host' END AS host) AS at
LEFT JOIN compute.host h ON h.name = at.host
CROSS JOIN LATERAL (
    SELECT count(*) AS failures, extract(epoch FROM now() - max(updated_at))::double precision AS failed_s,
        (array_agg(events ORDER BY id DESC))[1] AS events
    FROM compute.action WHERE server_id = s.id AND request_id = $2 AND message = 'Error') AS f
WHERE s.deleted_at IS NULL ORDER BY s.sequence"""


async def list_departures(tx: Connection, hosts: Sequence[str], *, request_id: str) -> list[DepartureRow]:
    """Return the servers that are on these hosts, come there or have not quite left them, in the order of creation."""
    return [
        DepartureRow(
            server_id=row["server_id"],
            host=row["host"],
            host_down=row["host_down"],
            context=ServerContext(
                stage=None if row["stage"] is None else Stage(row["stage"]),
                moving=row["moving"],
                power_desired=row["power_desired"],
                guest_lost=row["guest_lost"],
            ),
            move_kind=None if row["kind"] is None else MoveKind(row["kind"]),
            own=row["own"],
            failures=row["failures"],
            failure=row["failure"],
            failed_s=row["failed_s"],
        )
        for row in await tx.fetch(LIST_DEPARTURES, hosts, request_id)
    ]
