"""What clients say anew of a server that is there: name, hostname, description, metadata, tags."""

from collections.abc import Mapping, Sequence

from roost.compute.errors import (
    ActionRefused,
    MetadataNotFound,
    ServerNotFound,
    ServerRefused,
    TagNotFound,
)
from roost.compute.model.server import Requester, Server, ServerUpdate
from roost.compute.rules.actions import find_attribute_refusal
from roost.compute.rules.server_attributes import TAGS_MAX, find_tag_problem
from roost.compute.service.action_log import tell
from roost.compute.service.context import Compute
from roost.compute.service.quotas import check_metadata
from roost.compute.store import server_changes as store
from roost.compute.store import servers as servers_store
from roost.platform.database import Connection


async def update_server(compute: Compute, server_id: str, update: ServerUpdate, by: Requester | None = None) -> Server:
    """Write what is said anew of the server, and return it. Raises ServerNotFound."""
    async with compute.database.transaction() as tx:
        before = await servers_store.lock_server(tx, server_id) if compute.outbox is not None else None
        await store.update_server(tx, server_id, update)
        server = await servers_store.find_server(tx, server_id)
        if server is None:
            raise ServerNotFound(f"Instance {server_id} could not be found.")
        await tell(compute, tx, server_id, "update", by, before=before)
        return server


async def set_metadata(
    compute: Compute,
    server_id: str,
    metadata: Mapping[str, str],
    *,
    replace: bool,
    may_be_locked: bool,
    by: Requester | None = None,
) -> Mapping[str, str]:
    """Write this metadata of the server, and return all that it has. replace: it has no other then.

    Raises ServerNotFound, ActionRefused, MetadataFull.
    """
    async with compute.database.transaction() as tx:
        server = await _lock(tx, server_id, "update metadata", may_be_locked=may_be_locked)
        merged = metadata if replace else {**server.metadata, **metadata}
        await check_metadata(compute, tx, server.project_id, merged)
        await store.set_metadata(tx, server_id, merged)
        await tell(compute, tx, server_id, "update", by, before=server)
    return merged


async def delete_metadata(
    compute: Compute, server_id: str, key: str, *, may_be_locked: bool, by: Requester | None = None
) -> None:
    """Delete one item. Raises ServerNotFound, MetadataNotFound, ActionRefused."""
    async with compute.database.transaction() as tx:
        server = await _lock(tx, server_id, "delete metadata", may_be_locked=may_be_locked)
        if key not in server.metadata:
            raise MetadataNotFound
        await store.set_metadata(tx, server_id, {name: value for name, value in server.metadata.items() if name != key})
        await tell(compute, tx, server_id, "update", by, before=server)


async def set_tags(compute: Compute, server_id: str, tags: Sequence[str], by: Requester | None = None) -> Sequence[str]:
    """Set the server's tags, these and no others; return them. Raises ServerNotFound, ServerRefused, ActionRefused."""
    for tag in tags:
        _check_tag(tag)
    unique = tuple(dict.fromkeys(tags))
    async with compute.database.transaction() as tx:
        server = await _lock(tx, server_id, "update tags" if tags else "delete tags")
        await store.set_tags(tx, server_id, unique)
        await tell(compute, tx, server_id, "update", by, before=server)
    return unique


async def add_tag(compute: Compute, server_id: str, tag: str, by: Requester | None = None) -> bool:
    """Add a tag to the server; return whether it is new. Raises ServerNotFound, ServerRefused, ActionRefused."""
    _check_tag(tag)
    async with compute.database.transaction() as tx:
        server = await _lock(tx, server_id, "update tag")
        if len(server.tags) >= TAGS_MAX:
            raise ServerRefused(f"The number of tags exceeded the per-server limit {TAGS_MAX}")
        if tag in server.tags:
            return False
        await store.set_tags(tx, server_id, (*server.tags, tag))
        await tell(compute, tx, server_id, "update", by, before=server)
    return True


async def delete_tag(compute: Compute, server_id: str, tag: str, by: Requester | None = None) -> None:
    """Take one tag off the server. Raises ServerNotFound, ActionRefused, TagNotFound."""
    async with compute.database.transaction() as tx:
        server = await _lock(tx, server_id, "delete tag")
        if tag not in server.tags:
            raise TagNotFound(f"Server {server_id} has no tag '{tag}'")
        await store.set_tags(tx, server_id, [other for other in server.tags if other != tag])
        await tell(compute, tx, server_id, "update", by, before=server)


def _check_tag(tag: str) -> None:
    if problem := find_tag_problem(tag):
        raise ServerRefused(problem)


async def _lock(tx: Connection, server_id: str, verb: str, *, may_be_locked: bool = True) -> Server:
    server = await servers_store.lock_server(tx, server_id)
    if server is None:
        raise ServerNotFound(f"Instance {server_id} could not be found.")
    if refusal := find_attribute_refusal(server, verb, may_be_locked=may_be_locked):
        raise ActionRefused(refusal)
    return server
