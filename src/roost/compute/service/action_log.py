"""The log of what is asked of servers, and the notifications of it: one door, so that neither is without the other.

Whatever begins, passes a stage or ends is written here, in the transaction of the change.
"""

from collections.abc import Mapping, Sequence

from roost.compute.model.server import ActionEnded, Requester, Server
from roost.compute.model.work import Failure, Marks, Retreat, StageChange
from roost.compute.rules.notifications import (
    Before,
    ServerEvent,
    begun_steps,
    created_step,
    ended_steps,
    launch_failed_steps,
    stage_steps,
)
from roost.compute.service.context import Compute
from roost.compute.service.notifications import announce, request_of
from roost.compute.store import actions as store
from roost.compute.store import moves as moves_store
from roost.compute.store import notifications as notifications_store
from roost.platform.database import Connection


async def begin(
    compute: Compute,
    tx: Connection,
    server_id: str,
    name: str,
    by: Requester,
    *,
    event: str = "",
    host: str | None = None,
    finished: bool = False,
    before: Server | None = None,
) -> int:
    """Record that an action was asked of a locked server; return its id. See insert_action.

    before: what the server was, where the action is an update that is done at once.
    """
    action_id = await store.insert_action(tx, server_id, name, by, event=event, host=host, finished=finished)
    await tell(compute, tx, server_id, name, by, before=before, by_host=event != "")
    return action_id


async def tell(
    compute: Compute,
    tx: Connection,
    server_id: str,
    name: str,
    by: Requester | None,
    *,
    before: Server | None = None,
    by_host: bool = False,
) -> None:
    """Notify of an action that has no entry in the log. by: None where nobody asks for it but Roost itself.

    by_host: the server's host is to do it.
    """
    if compute.outbox is None:
        return
    source_host = before_update = None
    if before is not None:
        now = (await notifications_store.lock_snapshots(tx, [server_id], moving=()))[server_id].server
        old_name = before.name if before.name != now.name else None
        before_update = Before(old_display_name=old_name, vm_state=before.vm_state, task_state=before.task_state)
    request = None if by is None else request_of(by)
    events = [
        ServerEvent(server_id=server_id, step=step, source_host=source_host, request=request, before=before_update)
        for step in begun_steps(name, by_host=by_host)
    ]
    await announce(compute, tx, events)


async def finish(compute: Compute, tx: Connection, failures_by_server: Mapping[str, str | None]) -> None:
    """End what the hosts of these servers are at. failures_by_server: why it failed, None where it did not."""
    ended = await store.finish_events(tx, failures_by_server)
    if compute.outbox is not None:
        await announce(compute, tx, [event for action in ended for event in _ended_events(action)])


def _ended_events(action: ActionEnded) -> list[ServerEvent]:
    failure = None if action.failure is None else Failure(message=action.failure)
    request = {"request_id": action.request_id, "project_id": action.project_id, "user_id": action.user_id}
    return [
        ServerEvent(server_id=action.server_id, step=step, failure=failure, request=request)
        for step in ended_steps(action.name, failed=failure is not None)
    ]


async def add_steps(
    compute: Compute, tx: Connection, steps: Sequence[tuple[Marks, StageChange]], states: Sequence[ServerEvent] = ()
) -> None:
    """Record which stages are over, on which host, and how they went. The moves are still as they were before.

    states: of `watch_states`, to be told before.
    """
    await moves_store.add_events(tx, steps)
    if compute.outbox is not None:
        events = [event for marks, change in steps for event in _stage_events(marks, change)]
        await announce(compute, tx, [*states, *events])


def _stage_events(marks: Marks, change: StageChange) -> list[ServerEvent]:
    return [
        ServerEvent(
            server_id=change.server_id,
            step=step,
            source_host=marks.source_host,
            dest_host=change.placed.host if change.placed else None,
            failure=change.failure if step.phase == "error" else None,
            of_build=marks.kind is None and not change.gone,
            gone=change.gone,
        )
        for step in stage_steps(marks, change)
    ]


async def add_launches(
    compute: Compute,
    tx: Connection,
    *,
    active: Mapping[str, str],
    retreats: Mapping[str, Retreat],
    states: Sequence[ServerEvent] = (),
) -> None:
    """Notify of builds that are over, as their hosts say, and which launches have failed; the moves' logs have stages.

    states: of `watch_states`, to be told before.
    """
    if compute.outbox is None or not (active or retreats or states):
        return
    created = [
        ServerEvent(server_id=server_id, step=created_step(), dest_host=host, of_build=True)
        for server_id, host in active.items()
    ]
    snapshots = await notifications_store.lock_snapshots(tx, sorted(retreats), moving=retreats) if retreats else {}
    failed = [
        ServerEvent(
            server_id=server_id,
            step=step,
            source_host=snapshots[server_id].source_host,
            dest_host=retreat.failure.host,
            failure=retreat.failure if step.phase == "error" else None,
        )
        for server_id, retreat in retreats.items()
        if server_id in snapshots
        for step in launch_failed_steps(snapshots[server_id].kind)
    ]
    await announce(compute, tx, [*states, *created, *failed])
