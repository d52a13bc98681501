"""Servers whose work is not done, with the host that each is on its way to or from."""

from collections.abc import Sequence

from roost.compute.model.work import Build, Stage
from roost.platform.database import Connection
from roost.platform.rows import read_row

LIST_BUILDS = """-- compute.list_builds
SELECT w.server_id, s.name, s.project_id, CASE WHEN w.deleting THEN 'delete' ELSE w.stage END AS stage,
    w.attempt, w.failures, w.created_at AS since, coalesce(w.lease_until > clock_timestamp(), false) AS leased,
    extract(epoch FROM w.run_at - clock_timestamp())::double precision AS due_s,
    coalesce(guest.host, w.placed ->> 'host') AS host, guest.host IS NOT NULL AS guest,
    guest.begun_at IS NOT NULL AS begun, host.cell,
    coalesce(host.forced_down OR host.silent, false) AS host_down
FROM compute.work AS w JOIN compute.server AS s ON s.id = w.server_id
LEFT JOIN LATERAL (
    SELECT g.host, g.begun_at FROM compute.guest g WHERE g.server_id = w.server_id AND g.fenced_by IS NULL
    ORDER BY g.reported IS DISTINCT FROM g.desired DESC, g.attempt DESC, g.host LIMIT 1
) AS guest ON true
LEFT JOIN compute.host AS host ON host.name = coalesce(guest.host, w.placed ->> 'host')
ORDER BY w.created_at, w.server_id LIMIT $1
"""

COUNT_BUILDS = """-- compute.count_builds
SELECT count(*) FROM compute.work
"""


COUNT_BY_AGE = """-- compute.count_builds_by_age
SELECT CASE WHEN deleting THEN 'delete' ELSE stage END AS stage,
    width_bucket(extract(epoch FROM clock_timestamp() - created_at)::double precision, $1::double precision[]) AS age,
    count(*) AS builds
FROM compute.work GROUP BY 1, 2
"""


async def count_by_age(tx: Connection, bounds_s: Sequence[float]) -> dict[tuple[Stage, int], int]:
    """Return (stage, how many of the ascending bounds its age has passed) -> how many builds."""
    rows = await tx.fetch(COUNT_BY_AGE, list(bounds_s))
    return {(Stage(row["stage"]), row["age"]): row["builds"] for row in rows}


async def list_builds(tx: Connection, *, limit: int) -> list[Build]:
    """Return the oldest builds first."""
    rows = await tx.fetch(LIST_BUILDS, limit)
    return [read_row(Build, row, stage=Stage(row["stage"])) for row in rows]


async def count_builds(tx: Connection) -> int:
    """Return how many there are in all."""
    return int(await tx.fetchval(COUNT_BUILDS))
