"""Writes notifications into the outbox, in the transaction of what they tell of; nothing where nobody is notified."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from roost.compute.model.cloud import Host, HostAggregate
from roost.compute.model.server import Requester, ServerSnapshot
from roost.compute.rules.notifications import (
    GUESTS_ENDED,
    STATE_CHANGED,
    AggregateChange,
    Before,
    HostChange,
    ServerEvent,
    is_state_told,
    publisher_of,
)
from roost.compute.rules.payloads import aggregate_payload, guests_ended_payload, server_payload, service_payload
from roost.compute.service.context import Compute
from roost.compute.store import notifications as store
from roost.platform.database import Connection
from roost.platform.outbox import Notification


async def announce(compute: Compute, tx: Connection, events: Sequence[ServerEvent]) -> None:
    """Notify of events of servers, in order, as the servers are now.

    Those of servers that are gone are left out, and changes of state that are none.
    """
    if compute.outbox is None or not events:
        return
    moving = {event.server_id for event in events if not event.of_build and event.step != STATE_CHANGED}
    snapshots_by_id = await store.lock_snapshots(tx, sorted({event.server_id for event in events}), moving=moving)
    now = compute.env.now()
    notifications = [
        _server_notification(compute, event, snapshots_by_id[event.server_id], now)
        for event in events
        if event.server_id in snapshots_by_id and _is_told(compute, event, snapshots_by_id[event.server_id])
    ]
    await compute.outbox.write(tx, notifications)


async def watch_states(
    compute: Compute, tx: Connection, server_ids: Collection[str], by: Requester | None = None
) -> list[ServerEvent]:
    """Return what tells of the servers' states if they change from here on; `announce` it when they have.

    Nothing, and no statement, where nobody is told of states. by: None where the last action says who asked.
    """
    if compute.outbox is None or not compute.state_changes or not server_ids:
        return []
    states = await store.lock_states(tx, sorted(server_ids))
    return [
        ServerEvent(
            server_id=server_id,
            step=STATE_CHANGED,
            request=state.request if by is None else request_of(by),
            before=Before(vm_state=state.vm_state, task_state=state.task_state),
        )
        for server_id, state in states.items()
    ]


async def announce_new(compute: Compute, tx: Connection, server_ids: Sequence[str]) -> None:
    """Notify of the first state of servers, where anybody is notified of states."""
    if compute.state_changes:
        nothing = Before(vm_state=None, task_state=None)
        events = [
            ServerEvent(server_id=server_id, step=STATE_CHANGED, of_build=True, before=nothing)
            for server_id in server_ids
        ]
        await announce(compute, tx, events)


def _is_told(compute: Compute, event: ServerEvent, snapshot: ServerSnapshot) -> bool:
    if event.step != STATE_CHANGED:
        return True
    assert event.before is not None, "a change of state tells what was before"
    return is_state_told(event.before, snapshot.server, compute.state_changes)


def _server_notification(compute: Compute, event: ServerEvent, snapshot: ServerSnapshot, now: datetime) -> Notification:
    assert compute.outbox is not None
    request = event.request or snapshot.request
    server = replace(snapshot.server, zone=snapshot.server.zone or compute.settings.default_availability_zone)
    if event.source_host is None:
        event = replace(event, source_host=snapshot.source_host)
    new_flavor = snapshot.new_flavor or server.flavor
    payload = server_payload(server, event, request=request, new_flavor=new_flavor, now=now)
    return Notification(
        message_id=compute.env.new_uuid(),
        subject=server.id,
        event_type=event.step.event_type,
        publisher_id=publisher_of(event, server_host=server.host, here=compute.outbox.host),
        priority="ERROR" if event.step.phase == "error" else "INFO",
        payload=payload,
        timestamp=now,
        request=request,
    )


def request_of(by: Requester) -> Mapping[str, str | None]:
    """Return the request that a notification follows from."""
    return {"request_id": by.request_id, "project_id": by.project_id, "user_id": by.user_id}


async def announce_aggregates(
    compute: Compute,
    tx: Connection,
    change: AggregateChange,
    aggregates: Sequence[HostAggregate],
    by: Requester | None = None,
) -> None:
    """Notify of a change of host aggregates: its start and its end, both as they are now, or were if they are deleted.

    Call it in the transaction of the change, under the aggregates' locks. by: None where no client asks.
    """
    for phase in ("start", "end"):
        await _write(
            compute,
            tx,
            f"aggregate.{change}.{phase}",
            [(item.uuid, aggregate_payload(item)) for item in aggregates],
            by,
        )


async def announce_hosts(
    compute: Compute, tx: Connection, change: HostChange, hosts: Sequence[Host], by: Requester | None = None
) -> None:
    """Notify that the services of hosts were changed, as they are now."""
    payloads = [(host.name, service_payload(host)) for host in hosts]
    await _write(compute, tx, f"service.{change}", payloads, by, of_hosts=True)


async def announce_guests_ended(compute: Compute, tx: Connection, counts_by_host: Mapping[str, int]) -> None:
    """Notify of hosts whose guests all stopped at once, each with how many these were."""
    payloads = [(host, guests_ended_payload(host, count)) for host, count in counts_by_host.items()]
    await _write(compute, tx, GUESTS_ENDED, payloads, None, of_hosts=True)


async def _write(
    compute: Compute,
    tx: Connection,
    event_type: str,
    payloads: Sequence[tuple[str, dict[str, Any]]],
    by: Requester | None,
    *,
    of_hosts: bool = False,
) -> None:
    if compute.outbox is None or not payloads:
        return
    request = {} if by is None else request_of(by)
    now = compute.env.now()
    here = f"nova-api:{compute.outbox.host}"
    notifications = [
        Notification(
            message_id=compute.env.new_uuid(),
            subject=subject,
            event_type=event_type,
            publisher_id=f"nova-compute:{subject}" if of_hosts else here,
            payload=payload,
            timestamp=now,
            request=request,
        )
        for subject, payload in payloads
    ]
    await compute.outbox.write(tx, notifications)
