"""Moves: what the API begins and ends, and what the conductor's stages read and change of guests for them."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.errors import ActionRefused, FilterInvalid, MigrationNotFound, MigrationRefused, ServerRefused
from roost.compute.model.cloud import Flavor
from roost.compute.model.server import Migration, MigrationFilter, Requester, Server
from roost.compute.model.work import GUEST_CHANNEL, WORK_CHANNEL, Failure, Move, MoveKind, Plan, Stage
from roost.compute.rules import actions as rules
from roost.compute.rules.actions import ActionRule
from roost.compute.rules.events import of_fenced
from roost.compute.service import action_log
from roost.compute.service.actions import begin_action, lock_for_action, wait_until_settled
from roost.compute.service.context import Compute
from roost.compute.service.events import record
from roost.compute.service.notifications import announce, watch_states
from roost.compute.service.quotas import check_growth
from roost.compute.service.servers import check_zone, find_flavor, find_forced_host, read_requirements
from roost.compute.store import moves as store
from roost.compute.store import work as work_rows
from roost.compute.store.actions import get_server_context, lock_guests, set_task_state
from roost.compute.store.hosts import list_hosts
from roost.platform.database import Connection, reading
from roost.seams.compute import ForcedHost

TASK_STATES = {
    MoveKind.MIGRATE: "resize_prep",
    MoveKind.RESIZE: "resize_prep",
    MoveKind.LIVE: "migrating",
    MoveKind.EVACUATE: "rebuilding",
    MoveKind.SHELVE: "shelving",
    MoveKind.UNSHELVE: "spawning",
}
"""What a server is doing from when it is asked to move. Source: Nova, compute/task_states.py."""


MOVES: Mapping[MoveKind, ActionRule] = {
    MoveKind.MIGRATE: rules.MIGRATE,
    MoveKind.RESIZE: rules.RESIZE,
    MoveKind.LIVE: rules.LIVE_MIGRATE,
    MoveKind.EVACUATE: rules.EVACUATE,
    MoveKind.SHELVE: rules.SHELVE,
    MoveKind.UNSHELVE: rules.UNSHELVE,
}
"""When a move may begin."""


class MoveRequest(Struct, frozen=True, kw_only=True):
    """What a client asks of a move.

    host: the one destination that will do; anyway: even disabled, or without the flavor's traits.
    flavor_ref, public_only: of a resize, what the server is to be. zone: the availability zone that it is pinned to
    from now on; unpinned: to none. stopped: on its destination it is, whatever it was before. readdress: it may get
    other addresses, if no host that reaches those that it has has room.
    """

    kind: MoveKind
    host: str | None = None
    anyway: bool = False
    flavor_ref: str | None = None
    public_only: bool = False
    zone: str | None = None
    unpinned: bool = False
    stopped: bool = False
    readdress: bool = False


async def begin_move(compute: Compute, server_id: str, request: MoveRequest, by: Requester) -> None:
    """Begin a move; of a server that is shelved or unshelved where its disk is, have the guest stop or run instead.

    Raises ServerNotFound, ActionRefused (its state, its lock, its host may still run it), ServerRefused (an unknown
    host, flavor or zone, its own host, the flavor that it has, its host is up), OverQuota and HostClosed.
    """
    kind = request.kind
    await wait_until_settled(compute, server_id)
    async with compute.database.transaction() as tx:
        await check_zone(compute, tx, request.zone)
        target = await find_forced_host(compute, tx, request.host, anyway=request.anyway)
        flavor = (
            None
            if request.flavor_ref is None
            else await find_flavor(tx, request.flavor_ref, public_only=request.public_only)
        )
        server = await lock_for_action(tx, server_id, MOVES[kind], is_admin=by.is_admin)
        if (rule := await _find_rule_in_place(tx, server, request, by)) is not None:
            await begin_action(compute, tx, server, rule, by)
        else:
            await _insert_move(compute, tx, server, request, by, target=target, flavor=flavor)
    compute.wake(WORK_CHANNEL if rule is None else GUEST_CHANNEL)


async def _find_rule_in_place(tx: Connection, server: Server, request: MoveRequest, by: Requester) -> ActionRule | None:
    """Return how the locked server is shelved, or unshelved, on its host; None where it moves. Raises ActionRefused."""
    if request.kind not in (MoveKind.SHELVE, MoveKind.UNSHELVE):
        return None
    context = await get_server_context(tx, server.id, server.host)  # R52
    rule = rules.find_rule_in_place(request.kind, server, context)
    if rule is None:
        return None
    refusal = rules.find_refusal(rule, server, context, is_admin=by.is_admin)
    if refusal is None and (request.host is not None or request.zone is not None or request.unpinned):
        refusal = rules.destination_sentence(server)
    if refusal is not None:
        raise ActionRefused(refusal)
    return rule


async def _insert_move(
    compute: Compute,
    tx: Connection,
    server: Server,
    request: MoveRequest,
    by: Requester,
    *,
    target: ForcedHost | None,
    flavor: Flavor | None,
) -> None:
    """Insert the move of a locked server with the work that carries it. Raises as begin_move."""
    kind = request.kind
    await _check_move(compute, tx, server, kind, target=target, flavor=flavor)
    action_id = await action_log.begin(compute, tx, server.id, MOVES[kind].name, by)
    move = Move(
        uuid=compute.env.new_uuid(),
        kind=kind,
        status="accepted",
        source_host=server.host,
        plan=_plan(server, request, target, flavor, action_id),
    )
    stays = kind is MoveKind.RESIZE and compute.settings.allow_resize_to_same_host
    excluded_hosts = [] if server.host is None or stays else [server.host]
    await store.insert_move(
        tx, move, server.id, project_id=by.project_id, user_id=by.user_id, excluded_hosts=excluded_hosts
    )
    states = await watch_states(compute, tx, [server.id])
    await set_task_state(tx, server.id, TASK_STATES[kind])
    await announce(compute, tx, states)


async def _check_move(
    compute: Compute,
    tx: Connection,
    server: Server,
    kind: MoveKind,
    *,
    target: ForcedHost | None,
    flavor: Flavor | None,
) -> None:
    """Raise why a locked server cannot move so, if anything keeps it; what an evacuation overtakes is over."""
    if flavor is not None and flavor == server.flavor:
        raise ServerRefused("When resizing, instances must change flavor!")
    if flavor is not None:
        await check_growth(compute, tx, server, flavor)
    if target is not None and target.name == server.host:
        raise ServerRefused(f"Unable to migrate instance ({server.id}) to current host ({server.host}).")
    if kind is MoveKind.EVACUATE:
        await _check_fence(tx, server)
        if server.task_state is not None:
            failure = f"host {server.host}, which is down, did not do it: the server is evacuated"
            await action_log.finish(compute, tx, {server.id: failure})


async def _check_fence(tx: Connection, server: Server) -> None:
    """Raise ServerRefused when the server's host is up, and ActionRefused when it may still run the server."""
    for host in await list_hosts(tx, [server.host or ""]):
        if not host.down:
            raise ServerRefused(
                f"Compute service of {host.name} is still in use: if that host is dead, force its service down first."
            )
        of_former_agent = host.promise_kept and await store.has_guest_of_former_agent(tx, server.id, host.name)
        if refusal := rules.find_fence_refusal(server.id, host, of_former_agent=of_former_agent):
            raise ActionRefused(refusal)


def _plan(
    server: Server, request: MoveRequest, target: ForcedHost | None, flavor: Flavor | None, action_id: int
) -> Plan:
    zone = None if request.unpinned else request.zone or server.spec.availability_zone
    memory_lost = request.kind is MoveKind.EVACUATE and server.power in ("paused", "suspended")
    spec = replace(server.spec, forced_host=target, availability_zone=zone)
    if flavor is not None:
        requirements = read_requirements(flavor)
        spec = replace(
            spec,
            vcpus=flavor.vcpus,
            memory_mb=flavor.ram_mb,
            disk_gb=flavor.disk_gb,
            flavor_groups=requirements.groups,
            isolated=requirements.isolated,
        )
    return Plan(
        spec=spec,
        flavor=flavor or server.flavor,
        old_spec=server.spec,
        old_flavor=server.flavor,
        power="running" if request.kind in (MoveKind.SHELVE, MoveKind.UNSHELVE) else server.power,
        was_error=server.status == "ERROR",
        action_id=action_id,
        dest_power="stopped" if request.stopped or memory_lost else None,
        readdress=request.readdress,
    )


async def end_move(compute: Compute, server_id: str, by: Requester, *, revert: bool) -> None:
    """Confirm or revert a move that waits for its user.

    Raises ServerNotFound, and ActionRefused: its state, or its source can not take it back.
    """
    rule = rules.REVERT if revert else rules.CONFIRM
    if revert:
        await _check_source(compute, server_id, by)
    async with compute.database.transaction() as tx:
        await lock_for_action(tx, server_id, rule, is_admin=by.is_admin)
        action_id = await action_log.begin(compute, tx, server_id, rule.name, by)
        await store.set_action(tx, server_id, action_id)
        await store.insert_work(tx, server_id, Stage.RESTORE if revert else Stage.CONFIRM)
        if revert:
            states = await watch_states(compute, tx, [server_id])
            await set_task_state(tx, server_id, "resize_reverting")
            await announce(compute, tx, states)
    compute.wake(WORK_CHANNEL)


async def _check_source(compute: Compute, server_id: str, by: Requester) -> None:
    """Raise ActionRefused when the server's host before the move is down, or does not reach its ports' addresses."""
    async with compute.database.transaction() as tx:
        await lock_for_action(tx, server_id, rules.REVERT, is_admin=by.is_admin)
        move = await store.find_open(tx, server_id)
        sources = await list_hosts(tx, [move.source_host]) if move and move.source_host else []
    for source in sources:
        # R39: what the host reaches may change from here on. The way back keeps every address all the same.
        unreached = await compute.network.list_unreached_ports({server_id: source.name})
        if refusal := rules.find_return_refusal(server_id, source, unreached.get(server_id, ())):
            raise ActionRefused(refusal)


async def confirm_due(compute: Compute) -> list[str]:
    """Confirm the moves that have waited longer than `resize_confirm_window`; return their servers."""
    async with compute.database.transaction() as tx:
        server_ids = await store.list_due(tx, compute.settings.resize_confirm_window)
        for server_id in server_ids:
            await store.insert_work(tx, server_id, Stage.CONFIRM)
            await action_log.tell(compute, tx, server_id, rules.CONFIRM.name, None)
    if server_ids:
        compute.wake(WORK_CHANNEL)
    return server_ids


async def list_migrations(
    compute: Compute, only: MigrationFilter, *, marker: str | None, limit: int
) -> list[Migration]:
    """Return a page of the migrations, the youngest first, behind the UUID `marker`. Raises FilterInvalid."""
    async with compute.database.connection() as connection:
        before_id = None
        if marker is not None:
            before_id = await store.find_migration_id(connection, marker)
            if before_id is None:
                raise FilterInvalid(f"Marker {marker} could not be found.")
        return await store.list_migrations(connection, only, before_id=before_id, limit=limit)


async def get_migration(compute: Compute, server_id: str, migration_id: int) -> Migration:
    """Return a live migration of the server that is under way. Raises MigrationNotFound."""
    only = MigrationFilter(server_id=server_id, kind=MoveKind.LIVE.value, open=True)
    for migration in await list_migrations(compute, only, marker=None, limit=1):
        if migration.id == migration_id:
            return migration
    raise MigrationNotFound(f"In-progress live migration {migration_id} is not found for server {server_id}.")


async def force_complete(compute: Compute, server_id: str, migration_id: int, by: Requester) -> None:
    """Order a live migration to take over now. Raises MigrationNotFound, MigrationRefused unless it is copied."""
    migration = await get_migration(compute, server_id, migration_id)
    async with compute.database.transaction() as tx:
        await lock_guests(tx, server_id)
        if not await store.hurry(tx, server_id):
            raise MigrationRefused(
                f"Migration {migration_id} of instance {server_id} is {migration.status}: "
                "there is nothing to force but while its memory is copied."
            )
        await action_log.begin(
            compute, tx, server_id, "live_migration_force_complete", by, event="api_force", finished=True
        )
    compute.wake(GUEST_CHANNEL)


async def abort_migration(compute: Compute, server_id: str, migration_id: int, by: Requester | None = None) -> None:
    """Take a live migration back. Raises MigrationNotFound, and MigrationRefused once it switches over."""
    migration = await get_migration(compute, server_id, migration_id)
    async with compute.database.transaction() as tx:
        if not await store.abort(tx, server_id, Failure(message="the migration was aborted", aborted=True)):
            raise MigrationRefused(
                f"Migration {migration_id} of instance {server_id} is {migration.status}: it cannot be aborted now."
            )
        await action_log.tell(compute, tx, server_id, "live_migration_abort", by)
    compute.wake(WORK_CHANNEL)


async def fence_guests(compute: Compute, hosts_by_server: Sequence[tuple[str, str]], *, owner: str) -> set[str]:
    """Fence the guests of servers that `owner` holds, where their hosts are down; return the servers of those."""
    async with compute.database.transaction() as tx:
        works_locked = await work_rows.lock_work(tx, [server_id for server_id, _ in hosts_by_server], owner=owner)
        fenced, keys_new = await store.fence_guests(tx, [pair for pair in hosts_by_server if pair[0] in works_locked])
        recorded = await record(tx, of_fenced(keys_new))
    recorded.tell()
    return fenced


async def withdraw_elsewhere(compute: Compute, kept_hosts: Sequence[tuple[str, str | None]], *, owner: str) -> set[str]:
    """Withdraw the guests of servers but for those on a host each, None for none.

    Return the servers of which some other host may still have a guest, and those that `owner` has lost.
    """
    async with compute.database.transaction() as tx:
        works_locked = await work_rows.lock_work(tx, [server_id for server_id, _ in kept_hosts], owner=owner)
        remaining, keys_fenced = await store.withdraw_elsewhere(
            tx, [pair for pair in kept_hosts if pair[0] in works_locked]
        )
        recorded = await record(tx, of_fenced(keys_fenced))
    recorded.tell()
    if remaining:
        compute.wake(GUEST_CHANNEL)
    return remaining | ({server_id for server_id, _ in kept_hosts} - works_locked.keys())


list_guests = reading(store.list_guests)
