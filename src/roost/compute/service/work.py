"""The pipeline's hold on servers: leases, changes of stages, and taking guests back."""

from collections.abc import Sequence

from msgspec.structs import replace

from roost.compute.model.work import GUEST_CHANNEL, GUEST_LOST, Failure, Marks, Stage, StageChange, Work
from roost.compute.rules.events import find_occurrence, of_fenced
from roost.compute.rules.guests import lost_guest_sentence
from roost.compute.rules.nics import BUILDING
from roost.compute.service.action_log import add_steps
from roost.compute.service.context import Compute
from roost.compute.service.events import record
from roost.compute.service.notifications import watch_states
from roost.compute.store import moves, servers
from roost.compute.store import work as store
from roost.compute.store.unknown_guests import destroy_unknown_guests_of
from roost.platform.database import reading

LEASE_ROWS_MAX = 256
TURN_ROWS = 16
"""Rows of one project in a batch while other projects have rows that are due."""


async def lease_work(
    compute: Compute,
    *,
    owner: str,
    limit: int,
    lease_s: float,
    cells: Sequence[str] = (),
    after: str = "",
    light: bool = False,
) -> list[Work]:
    """Lease up to `limit` due rows to `owner`, a UUID of this lease alone, for lease_s seconds of the database.

    Projects have their turns, the first one the next after `after`. One that is alone fills the batch.
    light: only of projects that have fewer than TURN_ROWS rows leased.
    cells: servers that were placed in other cells are left to others; empty: all cells are these.
    """
    assert limit <= LEASE_ROWS_MAX
    # Lookups, not a connection of the pool: a plan that was made while nothing was at work would read all rows.
    async with compute.database.lookups() as connection:
        return await store.lease_work(
            connection,
            owner=owner,
            limit=limit,
            turn_rows=TURN_ROWS,
            lease_s=lease_s,
            cells=list(cells) or None,
            after=after,
            light=light,
        )


async def change_stages(
    compute: Compute, changes: Sequence[StageChange], *, owner: str, lease_s: float
) -> dict[str, StageChange]:
    """Move the rows that `owner` still has, all in one transaction; return server id -> the change that was made.

    Rows whose lease was lost are left out and unchanged. A row on which a delete waits goes to DELETE instead, one of a
    build that must end to FAIL, and nothing else of its change is written.
    """
    async with compute.database.transaction() as tx:
        marks_by_server = await store.lock_work(tx, [change.server_id for change in changes], owner=owner)
        changes_held = [
            _as_marked(change, marks_by_server[change.server_id])
            for change in changes
            if change.server_id in marks_by_server
        ]
        await store.desire_guests(tx, changes_held)  # R29
        keys_active = [(id, host) for id, host in map(_activates, changes_held) if host is not None]
        keys_lost = await store.list_lost_guests(tx, keys_active)
        changes_held = [_as_lost(change) if _activates(change) in keys_lost else change for change in changes_held]
        states = await watch_states(
            compute, tx, [change.server_id for change in changes_held if change.server is not None]
        )
        await store.update_servers(tx, changes_held)
        await store.write_stage_changes(tx, changes_held, lease_s=lease_s)
        steps = [(marks_by_server[change.server_id], change) for change in changes_held]
        await add_steps(compute, tx, steps, states)
        recorded = await record(tx, [o for marks, change in steps if (o := find_occurrence(marks, change)) is not None])
        await moves.write_moves(tx, changes_held)
        await store.finish_work(tx, changes_held)
    recorded.tell()
    if any(change.guest_host or change.guests_wanted for change in changes_held):
        compute.wake(GUEST_CHANNEL)
    return {change.server_id: change for change in changes_held}


def _as_marked(change: StageChange, marks: Marks) -> StageChange:
    if marks.deleting and not change.gone and change.stage is not Stage.DELETE:
        return replace(
            change, stage=Stage.DELETE, keep=True, delay_s=0.0, guest_host=None, guests_wanted={}, server=None
        )
    if marks.must_fail is not None and not marks.deleting and change.stage in (*BUILDING, Stage.LAUNCH, Stage.COPY):
        stage = Stage.RESTORE if marks.kind is not None else Stage.FAIL
        return replace(
            change,
            stage=stage,
            keep=True,
            delay_s=0.0,
            guest_host=None,
            guests_wanted={},
            server=None,
            failure=marks.must_fail,
        )
    return change


def _activates(change: StageChange) -> tuple[str, str | None]:
    """Return the server and the host on which its work ends with the server ACTIVE, None for no host."""
    server = change.server
    ends_active = change.stage is None and server is not None and server.status == "ACTIVE"
    return change.server_id, server.host if ends_active and server else None


def _as_lost(change: StageChange) -> StageChange:
    """Return the change with its server in ERROR: its guest is gone since the stage looked."""
    assert change.server is not None, "see _activates"
    host = str(change.server.host)
    fault = Failure(message=lost_guest_sentence(host), host=host, kind=GUEST_LOST)
    return replace(change, server=replace(change.server, status="ERROR", fault=fault))


async def withdraw_guests(
    compute: Compute, server_ids: Sequence[str], *, owner: str, unknown_too: bool = False
) -> set[str]:
    """Withdraw orders for guests; return the servers of which some host may still have a guest.

    unknown_too: hosts destroy guests that the records do not know, for the servers are deleted.

    Nothing is withdrawn of servers that `owner` does not have any more, since their launch may just have ended, or
    another conductor's may be under way; they are among those returned. A server that is being deleted and whose host
    has gone down is shown no more.
    """
    async with compute.database.transaction() as tx:
        marks_by_server = await store.lock_work(tx, server_ids, owner=owner)
        remaining, keys_fenced = await store.withdraw_guests(tx, list(marks_by_server))
        if remaining and unknown_too:
            await destroy_unknown_guests_of(tx, list(remaining))
        if remaining:
            await servers.mark_gone(tx, list(remaining))
        recorded = await record(tx, of_fenced(keys_fenced))
    recorded.tell()
    if remaining:
        compute.wake(GUEST_CHANNEL)
    return remaining | (set(server_ids) - marks_by_server.keys())


async def withdraw_unbegun_guests(compute: Compute, server_ids: Sequence[str], *, owner: str) -> set[str]:
    """Withdraw orders that no host has begun; return servers of which one has, and those that `owner` has lost."""
    async with compute.database.transaction() as tx:
        marks_by_server = await store.lock_work(tx, server_ids, owner=owner)
        begun = await store.withdraw_unbegun_guests(tx, list(marks_by_server))
    return begun | (set(server_ids) - marks_by_server.keys())


list_launches = reading(store.list_launches)
get_server_states = reading(store.get_server_states)
get_host_names = reading(store.get_host_names)
get_host_cells = reading(store.get_host_cells)
list_held = reading(store.list_held)
