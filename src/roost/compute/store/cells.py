"""SQL of cells: the conductors that serve them, and hosts whose cell has none."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from roost.compute.model.work import Credentials, Heartbeat
from roost.platform.database import Connection
from roost.platform.rows import encode, read_row

KEPT = timedelta(days=1)
"""How long it is known that a conductor was there that is gone."""


BEAT = """-- compute.beat
INSERT INTO compute.conductor_heartbeat AS h (id, cells, credentials) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET seen_at = now(), cells = excluded.cells, credentials = excluded.credentials"""

FORGET = """-- compute.forget_conductors
DELETE FROM compute.conductor_heartbeat WHERE seen_at < now() - $1::interval"""

FIND_AGAIN = """-- compute.find_cells_again
UPDATE compute.host SET cell_silent = false, wanted = wanted + 1 WHERE name IN (
    SELECT name FROM compute.host WHERE cell_silent AND (cardinality($1::text[]) = 0 OR cell = ANY($1))
    ORDER BY name FOR NO KEY UPDATE)
RETURNING name"""


async def beat(tx: Connection, conductor_id: str, cells: Sequence[str], credentials: Credentials) -> list[str]:
    """Record that a conductor is there; return the hosts whose cells were silent before."""
    await tx.execute(BEAT, conductor_id, cells, encode(credentials))
    await tx.execute(FORGET, KEPT)
    return [row["name"] for row in await tx.fetch(FIND_AGAIN, cells)]


# Before any conductor has said that it is there, none can be missed.
NOTE_SILENT = """-- compute.note_silent_cells
UPDATE compute.host SET cell_silent = true, wanted = wanted + 1 WHERE name IN (
    SELECT name FROM compute.host WHERE NOT cell_silent AND EXISTS (SELECT FROM compute.conductor_heartbeat)
        AND NOT EXISTS (SELECT FROM compute.conductor_heartbeat c WHERE c.seen_at > now() - $1::interval
            AND (cardinality(c.cells) = 0 OR host.cell = ANY(c.cells)))
    ORDER BY name FOR NO KEY UPDATE)
RETURNING name, cell"""


async def note_silent_cells(tx: Connection, *, silent_after_s: float) -> dict[str, str]:
    """Record on hosts that no conductor of their cell was heard of for so long; return host -> its cell."""
    rows = await tx.fetch(NOTE_SILENT, timedelta(seconds=silent_after_s))
    return {row["name"]: row["cell"] for row in rows}


LIST_HEARTBEATS = """-- compute.list_heartbeats
SELECT cells, credentials, extract(epoch FROM now() - seen_at)::double precision AS silent_s
FROM compute.conductor_heartbeat ORDER BY seen_at DESC"""


async def list_heartbeats(tx: Connection) -> list[Heartbeat]:
    """Return the conductors that were heard of lately, the latest first."""
    return [read_row(Heartbeat, row, "credentials") for row in await tx.fetch(LIST_HEARTBEATS)]


COUNT_SILENT = """-- compute.count_silent_cells
SELECT cell, count(*) AS hosts FROM compute.host WHERE cell_silent GROUP BY cell ORDER BY cell"""


async def count_silent_cells(tx: Connection) -> dict[str, int]:
    """Return cell without a conductor -> how many hosts it has."""
    return {row["cell"]: row["hosts"] for row in await tx.fetch(COUNT_SILENT)}


FIND_WAIT = """-- compute.find_wait_for_cell
SELECT h.cell, w.run_at FROM compute.work w JOIN compute.host h ON h.name = w.placed ->> 'host'
WHERE w.server_id = $1 AND h.cell_silent AND w.run_at <= clock_timestamp() AND w.stage NOT IN ('create_ports', 'place')
    AND (w.lease_until IS NULL OR w.lease_until < clock_timestamp())"""


async def find_wait(tx: Connection, server_id: str) -> tuple[str, datetime] | None:
    """Return the cell for whose conductors the server's work waits, and since when; None if it does not."""
    row = await tx.fetchrow(FIND_WAIT, server_id)
    return None if row is None else (row["cell"], row["run_at"])
