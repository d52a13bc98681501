"""Actions on servers that stay where they are: power, locks, rebuilds, states by hand; and the log of all actions.

What a host does for it is desired of the guest; its agent's report ends the action, in `service/guests.py`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from roost.compute.errors import ActionNotFound, ActionRefused, FilterInvalid, ServerNotFound
from roost.compute.model.cloud import Flavor
from roost.compute.model.server import ActionFilter, Requester, Server, ServerAction, ServerUpdate
from roost.compute.model.work import GUEST_CHANNEL
from roost.compute.rules import actions as rules
from roost.compute.rules.actions import ActionRule
from roost.compute.service import action_log
from roost.compute.service.context import Compute
from roost.compute.service.images import describe_rebuild
from roost.compute.service.notifications import announce, watch_states
from roost.compute.service.quotas import check_metadata
from roost.compute.store import actions as store
from roost.compute.store import cells as cell_rows
from roost.compute.store import server_changes as changes_store
from roost.compute.store import servers as servers_store
from roost.platform.database import Connection, reading

SETTLE_WAIT_S = 5.0
SETTLE_LOOK_S = 0.05

find_locker = reading(store.find_locker)


async def wait_until_settled(compute: Compute, server_id: str) -> None:
    """Return when the last stage of the server's build is over (R28), or after 5 s."""
    await _wait_while(compute, store.is_settling, server_id)


async def wait_until_unplugged(compute: Compute, server_id: str) -> None:
    """Return when the hosts of the server's guests have said that these have no NICs but its, or after 5 s."""
    await _wait_while(compute, store.is_plugged, server_id)


async def _wait_while(
    compute: Compute, holds: Callable[[Connection, str], Coroutine[Any, Any, bool]], server_id: str
) -> None:
    for _ in range(round(SETTLE_WAIT_S / SETTLE_LOOK_S)):
        async with compute.database.connection() as connection:
            if not await holds(connection, server_id):
                return
        await asyncio.sleep(SETTLE_LOOK_S)


async def lock_for_action(tx: Connection, server_id: str, rule: ActionRule, *, is_admin: bool) -> Server:
    """Lock the server with its guests, and return it. Raises ServerNotFound, and ActionRefused as the rule says."""
    await store.lock_guests(tx, server_id)  # R29
    server = await _lock(tx, server_id)
    context = await store.get_server_context(tx, server_id, server.host)
    if refusal := rules.find_refusal(rule, server, context, is_admin=is_admin):
        raise ActionRefused(refusal)
    return server


async def change_power(compute: Compute, server_id: str, rule: ActionRule, by: Requester) -> None:
    """Order the server's guest into the state that the rule says. Raises ServerNotFound, ActionRefused."""
    async with compute.database.transaction() as tx:
        server = await lock_for_action(tx, server_id, rule, is_admin=by.is_admin)
        await begin_action(compute, tx, server, rule, by)
    compute.wake(GUEST_CHANNEL)


async def rebuild(
    compute: Compute, server_id: str, update: ServerUpdate, by: Requester, *, token: str | None = None
) -> None:
    """Order that the server's guest is made again, from another image. token: the caller's, for the image service.

    Raises ServerNotFound, ActionRefused (its state, or its host lacks a trait that a new image requires), ServerRefused
    (a new image that is not there, or too large), MetadataFull and ImageServiceUnavailable.
    """
    async with compute.database.transaction() as tx:
        server_checked = await lock_for_action(tx, server_id, rules.REBUILD, is_admin=by.is_admin)
    described = await describe_rebuild(compute, server_checked, update.image_ref, token=token)
    async with compute.database.transaction() as tx:
        server = await lock_for_action(tx, server_id, rules.REBUILD, is_admin=by.is_admin)
        if _image_basis(server) != _image_basis(server_checked):
            raise ActionRefused(f"Instance {server_id} changed while its image was looked at: ask again.")
        await check_metadata(compute, tx, server.project_id, update.metadata)
        spec = replace(server.spec, **described)
        await changes_store.update_server(tx, server_id, update, spec=spec)
        await begin_action(compute, tx, server, rules.REBUILD, by)
    compute.wake(GUEST_CHANNEL)


def _image_basis(server: Server) -> tuple[str | None, str, Flavor]:
    """Return what decides whether an image will do for the server."""
    return server.host, server.image_ref, server.flavor


async def begin_action(compute: Compute, tx: Connection, server: Server, rule: ActionRule, by: Requester) -> None:
    """Order a locked server's guest into the state that the rule says; its host's report ends that."""
    assert server.host is not None  # its guest is there
    if server.task_state is not None:
        await action_log.finish(compute, tx, {server.id: f"{rule.name} overtook it"})
    await store.desire(tx, server.id, server.host, rules.desired_power(rule, server), anew=rule.anew)
    states = await watch_states(compute, tx, [server.id], by)
    await store.set_task_state(tx, server.id, rule.task_state)
    await announce(compute, tx, states)
    await action_log.begin(compute, tx, server.id, rule.name, by, event=rule.event, host=server.host)


async def reset_state(compute: Compute, server_id: str, by: Requester, *, active: bool) -> None:
    """Make the server ACTIVE, or ERROR, whatever was done to it. Raises ServerNotFound, ActionRefused."""
    async with compute.database.transaction() as tx:
        server = await _lock(tx, server_id)
        context = await store.get_server_context(tx, server_id, server.host)
        if refusal := rules.find_reset_refusal(server, context, active=active):
            raise ActionRefused(refusal)
        await action_log.finish(compute, tx, {server_id: "the server's state was set by hand"})
        await store.set_status(tx, server_id, "ACTIVE" if active else "ERROR")
        await action_log.begin(compute, tx, server_id, rules.RESET_STATE.name, by, before=server)


async def lock(compute: Compute, server_id: str, by: Requester, *, reason: str | None) -> None:
    """Lock the server against its owners. One that locked it already changes nothing. Raises ServerNotFound."""
    async with compute.database.transaction() as tx:
        server = await _lock(tx, server_id)
        if server.locked and server.project_id == by.project_id:
            return
        await store.set_locked(tx, server_id, locked=True, reason=reason)
        await action_log.begin(compute, tx, server_id, "lock", by, event="api_lock", finished=True)


async def unlock(compute: Compute, server_id: str, by: Requester) -> None:
    """Unlock the server. Raises ServerNotFound."""
    async with compute.database.transaction() as tx:
        await _lock(tx, server_id)
        await store.set_locked(tx, server_id, locked=False)
        await action_log.begin(compute, tx, server_id, "unlock", by, event="api_unlock", finished=True)


async def _lock(tx: Connection, server_id: str) -> Server:
    server = await servers_store.lock_server(tx, server_id)
    if server is None:
        raise ServerNotFound(f"Instance {server_id} could not be found.")
    return server


async def list_actions(
    compute: Compute, server: Server, only: ActionFilter, *, marker: str | None, limit: int
) -> list[ServerAction]:
    """Return a page of what was asked of the server, its creation last. Raises FilterInvalid for an unknown marker."""
    creation = rules.creation_of(server)
    async with compute.database.connection() as connection:
        before_id = None
        if marker is not None:
            if creation is not None and marker == creation.request_id:
                return []
            before_id = await store.find_action_id(connection, server.id, marker)
            if before_id is None:
                raise FilterInvalid(f"Marker {marker} could not be found.")
        actions = await store.list_actions(connection, server.id, only, before_id=before_id, limit=limit)
    if len(actions) < limit and creation is not None and rules.is_listed(creation, only):
        actions.append(creation)
    return actions


async def get_action(compute: Compute, server: Server, request_id: str) -> ServerAction:
    """Return what that request asked of the server. Raises ActionNotFound."""
    creation = rules.creation_of(server)
    async with compute.database.connection() as connection:
        wait = await cell_rows.find_wait(connection, server.id)
        if creation is not None and request_id == creation.request_id:
            action: ServerAction | None = creation
            waits = wait if server.launched_at is None else None
        else:
            action = await store.find_action(connection, server.id, request_id)
            latest = await store.list_actions(connection, server.id, ActionFilter(), before_id=None, limit=1)
            waits = wait if latest and latest[0].request_id == request_id else None
    if action is None:
        raise ActionNotFound(f"Action {request_id} not found")
    return action if waits is None else replace(action, events=(*action.events, rules.wait_for_cell(*waits)))
