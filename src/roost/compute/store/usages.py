"""SQL of usages: servers that were there in a period, the deleted ones as long as their history is kept."""
# ruff: noqa: S608 - what is put into a statement are constants of this package.

from datetime import datetime

from roost.compute.model.usages import ServerUsage, UsageFilter
from roost.compute.store.servers import VM_STATE
from roost.platform.database import Connection
from roost.platform.rows import read_row

LIST_USAGES = f"""-- compute.list_usages
SELECT id, name, project_id, flavor, state, launched_at, ended_at FROM (
    SELECT id, name, project_id, flavor, launched_at, deleted_at AS ended_at,
        CASE WHEN deleted_at IS NULL THEN {VM_STATE} ELSE 'terminated' END AS state
    FROM compute.server
    WHERE launched_at < $2 AND (deleted_at IS NULL OR deleted_at > $1) AND ($3::text IS NULL OR project_id = $3)
    UNION ALL
    SELECT id, document ->> 'name', document ->> 'project_id', document -> 'flavor',
        (document ->> 'launched_at')::timestamptz, deleted_at, 'terminated'
    FROM compute.deleted_server
    WHERE deleted_at > $1 AND (document ->> 'launched_at')::timestamptz < $2
        AND ($3::text IS NULL OR document ->> 'project_id' = $3)
) AS server
WHERE $4::timestamptz IS NULL OR (launched_at, id) > ($4, $5::uuid)
ORDER BY launched_at, id LIMIT $6"""


async def list_usages(
    tx: Connection, only: UsageFilter, *, after: tuple[datetime, str] | None, limit: int
) -> list[ServerUsage]:
    """Return a page of the servers, the first launched first.

    after: the launch and the id of the last one before.
    """
    values = (only.start, only.stop, only.project_id, *(after or (None, None)), limit)
    rows = await tx.fetch(LIST_USAGES, *values)
    return [read_row(ServerUsage, row, "flavor") for row in rows]


FIND_LAUNCH = """-- compute.find_launch
SELECT coalesce((SELECT launched_at FROM compute.server WHERE id = $1),
    (SELECT (document ->> 'launched_at')::timestamptz FROM compute.deleted_server WHERE id = $1))"""


async def find_launch(tx: Connection, server_id: str) -> datetime | None:
    """Return when the server was launched, deleted or not; None where that is not known."""
    launched_at: datetime | None = await tx.fetchval(FIND_LAUNCH, server_id)
    return launched_at
