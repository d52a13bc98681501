"""SQL of whose requests events follow from. The events themselves are `roost.platform.events`."""

from collections.abc import Sequence

from roost.platform.database import Connection
from roost.platform.events import Subject

# The request of the move that a server is in, or else of its creation.
LIST_SUBJECTS = """-- compute.list_event_subjects
SELECT s.id, s.name, s.project_id, CASE WHEN a.id IS NULL THEN s.request_id ELSE a.request_id END AS request_id,
    CASE WHEN a.id IS NULL THEN s.global_request_id ELSE a.global_request_id END AS global_request_id
FROM compute.server s LEFT JOIN compute.move m ON m.server_id = s.id AND m.open
LEFT JOIN compute.action a ON a.id = (m.plan ->> 'action_id')::bigint WHERE s.id = ANY($1::uuid[])
"""


async def list_subjects(tx: Connection, server_ids: Sequence[str]) -> dict[str, tuple[str | None, Subject]]:
    """Return server id -> (its project, the server with the request that led to what is done to it)."""
    return {
        row["id"]: (
            row["project_id"],
            Subject(
                server_id=row["id"],
                name=row["name"],
                request_id=row["request_id"] or None,
                global_request_id=row["global_request_id"],
            ),
        )
        for row in await tx.fetch(LIST_SUBJECTS, server_ids)
    }
