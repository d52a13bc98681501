"""SQL of what clients say anew of a server that is there: name, hostname, description, metadata, tags."""

from collections.abc import Mapping, Sequence

from roost.compute.model.server import ServerUpdate
from roost.platform.database import Connection
from roost.platform.rows import encode, encode_or_null
from roost.seams.compute import RequestSpec

UPDATE_SERVER = """-- compute.update_server
UPDATE compute.server SET name = coalesce($2, name), image_ref = coalesce($3, image_ref),
    description = CASE WHEN $4::text IS NULL THEN description ELSE nullif($4, '') END,
    metadata = coalesce($5::jsonb, metadata), hostname = coalesce($6, hostname), spec = coalesce($7::jsonb, spec),
    updated_at = now()
WHERE id = $1"""


async def update_server(
    tx: Connection, server_id: str, update: ServerUpdate, *, spec: RequestSpec | None = None
) -> None:
    """Write what is said anew of the server, and the request spec that follows from it; None: the one that it has."""
    await tx.execute(
        UPDATE_SERVER,
        server_id,
        update.name,
        update.image_ref,
        update.description,
        encode_or_null(update.metadata),
        update.hostname,
        encode_or_null(spec),
    )


SET_METADATA = """-- compute.set_metadata
UPDATE compute.server SET metadata = $2::jsonb, updated_at = now() WHERE id = $1"""


async def set_metadata(tx: Connection, server_id: str, metadata: Mapping[str, str]) -> None:
    """Write this metadata of the server and no other."""
    await tx.execute(SET_METADATA, server_id, encode(metadata))


SET_TAGS = """-- compute.set_tags
UPDATE compute.server SET tags = $2, updated_at = now() WHERE id = $1"""


async def set_tags(tx: Connection, server_id: str, tags: Sequence[str]) -> None:
    """Write these tags of the server and no others."""
    await tx.execute(SET_TAGS, server_id, tags)
