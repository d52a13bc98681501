"""The stages that only servers on the move pass: from what a server is, to what it is to be, or back.

    hold -> place -> stop -> bind -> launch -> settle ... confirm, or restore      (migrate, resize)
    hold -> place -> copy -> stop -> bind -> launch -> settle                      (live)
    hold -> place -> stop (the guest is fenced) -> bind -> launch -> settle        (evacuate)
    hold -> offload                       hold -> place -> bind -> launch -> settle  (shelve, unshelve)

What the server had is its move's claim from `place` on, so that the sum is true whatever comes: the end gives the
move's claim back, and `restore` gives it to the server again. Ports keep their addresses and their claims. A port is
bound to the destination only when the guest on the source has its NICs down, and the other way round.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from roost.compute.model.work import (
    GUEST_LOST,
    HOST_LOST,
    Failure,
    GuestPlace,
    Move,
    MoveKind,
    ServerChange,
    Stage,
    StageChange,
    Work,
)
from roost.compute.service.moves import fence_guests, list_guests, withdraw_elsewhere
from roost.compute.service.nics import refresh_ports
from roost.compute.service.work import list_launches
from roost.conductor.context import Build, Lease, given_up, sent_elsewhere, staged
from roost.conductor.holdings import CONFIRMED_KINDS, ENDED, RESTORING, address_part, claim_of, host_part
from roost.conductor.launches import begin_wait_s, judge_launches
from roost.conductor.ports import ensure_ports, ports_held
from roost.conductor.readdress import may_readdress
from roost.platform.crash import crash_point
from roost.seams.network import BindRefused, PortBind
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, ConsumerState, ConsumerType


async def hold(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Record what each server has on its source, before anything of it is changed: its claim, its ports' addresses."""
    answers = await lease.conductor.moves.read_ports([build.nics for build in builds])
    ports = {answer.server_id: answer.ports for answer in answers}
    consumers = await lease.conductor.placement.get_consumers([build.work.server_id for build in builds])
    changes = []
    for build in builds:
        move = _move(build)
        state = consumers.get(build.work.server_id)
        plan = replace(
            move.plan,
            held=host_part(state.allocations) if state else {},
            addresses={port.id: port.addresses for port in ports[build.work.server_id]},
        )
        stage = Stage.OFFLOAD if move.kind is MoveKind.SHELVE else Stage.PLACE
        changes.append(staged(build.work, stage, move=replace(move, status="preparing", plan=plan), keep=True))
    return (await lease.advance(builds, changes, ports=ports)).going_on


async def copy(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Order a guest on the destination that takes over the memory of the one that runs; wait until it has."""
    conductor = lease.conductor
    launches = await list_launches(conductor.compute, [build.work.server_id for build in builds])
    changes: list[StageChange] = []
    builds_to_begin: list[Build] = []
    builds_late: list[Build] = []
    for build in builds:
        launch = launches.get(build.work.server_id)
        if launch is None or launch.host != _dest(build.work):
            builds_to_begin.append(build)
        elif launch.reported == "incoming" and launch.host_down:
            # The source runs on: it is not stopped for a host that may not go on.
            changes.append(staged(build.work, Stage.COPY, delay_s=conductor.settings.recheck_s))
        elif launch.reported == "incoming":
            move = replace(_move(build), status="post-migrating")
            changes.append(staged(build.work, Stage.STOP, move=move, keep=True))
        elif launch.host_down:
            message = f"{launch.host} did not take over the server's memory"
            changes.append(given_up(build.work, message, host=launch.host))
        elif launch.asked_s < begin_wait_s(conductor.settings):
            left_s = begin_wait_s(conductor.settings) - launch.asked_s
            changes.append(staged(build.work, Stage.COPY, delay_s=left_s))
        else:
            builds_late.append(build)
    changes += await judge_launches(lease, builds_late, launches)
    changes += await _begin_copies(lease, builds_to_begin)
    return (await lease.advance(builds, changes)).going_on


async def _begin_copies(lease: Lease, builds: Sequence[Build]) -> list[StageChange]:
    ports, changes = await ports_held(lease, builds, await ensure_ports(lease, builds) if builds else [])
    bindings_wanted = [(port.id, _dest(build.work)) for build in builds for port in ports.get(build.work.server_id, ())]
    crash_point("copy.before-bindings")
    answers = (
        dict(zip(bindings_wanted, await lease.conductor.moves.add_bindings(bindings_wanted), strict=True))
        if bindings_wanted
        else {}
    )
    crash_point("copy.after-bindings")
    for build in builds:
        work, host = build.work, _dest(build.work)
        if work.server_id not in ports:
            continue
        refusals = [answer for port in ports[work.server_id] if (answer := answers[port.id, host])]
        if refusals:
            message = f"a port could not be bound on {host}: {refusals[0]}"
            changes.append(sent_elsewhere(work, message, host=host))
            continue
        changes.append(
            staged(
                work,
                Stage.COPY,
                attempt=work.attempt_next,
                guest_host=host,
                desired="incoming",
                move=replace(_move(build), status="running"),
                delay_s=begin_wait_s(lease.conductor.settings),
            )
        )
    return changes


async def stop(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Wait until the guest on the source has its NICs down, or is fenced, since its host is down (R31)."""
    conductor = lease.conductor
    crash_point("stop.before-stop")
    evacuating = [build for build in builds if _move(build).kind is MoveKind.EVACUATE]
    fenced = (
        await fence_guests(conductor.compute, [(b.work.server_id, _source(b)) for b in evacuating], owner=lease.owner)
        if evacuating
        else set()
    )
    guests = await list_guests(conductor.compute, [build.work.server_id for build in builds])
    changes = []
    for build in builds:
        work, source = build.work, _move(build).source_host
        guest = guests.get(work.server_id, {}).get(source or "")
        if guest is None or guest.fenced or source == _dest(work) or guest.is_down:  # R31
            moving = replace(_move(build), status=_status_of_switch(_move(build)))
            changes.append(staged(work, Stage.BIND, move=moving, keep=True))
        elif _move(build).kind is MoveKind.EVACUATE and work.server_id not in fenced:
            why = "may still run its guest" if guest.host_down else "is up again"
            changes.append(given_up(work, f"host {source} {why}: its servers are not evacuated", host=source))
        elif guest.host_down or guest.lost:
            changes.append(given_up(work, f"host {source} does not stop the server: it is down", host=source))
        else:
            guests_wanted = {guest.host: "stopped"}
            changes.append(staged(work, Stage.STOP, guests_wanted=guests_wanted, delay_s=conductor.settings.recheck_s))
    advanced = await lease.advance(builds, changes)
    crash_point("stop.after-stop")
    return advanced.going_on


def _status_of_switch(move: Move) -> str:
    return move.status if move.kind is MoveKind.LIVE else "migrating"


async def settle_moves(lease: Lease, builds: Sequence[Build]) -> list[StageChange]:
    """Return how moves end whose servers are on their destinations; nothing of the source is left but what may be."""
    conductor = lease.conductor
    builds_to_confirm = [build for build in builds if _move(build).kind in CONFIRMED_KINDS]
    builds_to_end = [build for build in builds if _move(build).kind not in CONFIRMED_KINDS]
    await _drop_bindings(lease, builds)
    kept_hosts = [(build.work.server_id, _dest(build.work)) for build in builds_to_end]
    remaining = await withdraw_elsewhere(conductor.compute, kept_hosts, owner=lease.owner)
    builds_over = [build for build in builds_to_end if build.work.server_id not in remaining]
    await _release_moves(lease, builds_over)
    changes = []
    for build in builds:
        work, move = build.work, _move(build)
        if work.server_id in remaining:
            changes.append(staged(work, Stage.SETTLE, delay_s=conductor.settings.recheck_s))
            continue
        status = "VERIFY_RESIZE" if build in builds_to_confirm else "ACTIVE"
        changes.append(_end(work, move, ENDED[move.kind], status=status, host=_dest(work), ends=build in builds_over))
    return changes


async def confirm(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """End moves that their users are content with: the guest on the source goes, then what was held there."""
    conductor = lease.conductor
    kept_hosts = [(build.work.server_id, build.work.host) for build in builds]
    remaining = await withdraw_elsewhere(conductor.compute, kept_hosts, owner=lease.owner)
    builds_over = [build for build in builds if build.work.server_id not in remaining]
    crash_point("confirm.before-release")
    await _release_moves(lease, builds_over)
    crash_point("confirm.after-release")
    changes = [
        _end(build.work, _move(build), "confirmed", status="ACTIVE", host=build.work.host)
        if build in builds_over
        else staged(build.work, Stage.CONFIRM, delay_s=conductor.settings.recheck_s)
        for build in builds
    ]
    advanced = await lease.advance(builds, changes)
    await refresh_ports(conductor.compute, {build.work.server_id for build in builds_over})
    return advanced.going_on


async def restore(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Restore servers to what they were: on their source, with what they had there, in the state they were in."""
    conductor = lease.conductor
    kept_hosts = [(build.work.server_id, _move(build).source_host) for build in builds]
    remaining = await withdraw_elsewhere(conductor.compute, kept_hosts, owner=lease.owner)
    builds_waiting = [build for build in builds if build.work.server_id in remaining]
    changes = [staged(build.work, Stage.RESTORE, delay_s=conductor.settings.recheck_s) for build in builds_waiting]
    builds_clean = [build for build in builds if build.work.server_id not in remaining]
    builds_bound = await _return_ports(lease, builds_clean)
    builds_claimed = await _return_claims(lease, builds_bound)
    await trim_claims(lease, builds_claimed)
    guests = await list_guests(conductor.compute, [build.work.server_id for build in builds_claimed])
    for build in builds_clean:
        if build not in builds_claimed:
            changes.append(staged(build.work, Stage.RESTORE, delay_s=conductor.settings.recheck_s))
            continue
        changes.append(_restored(lease, build, guests.get(build.work.server_id, {})))
    advanced = await lease.advance(builds, changes)
    await refresh_ports(conductor.compute, {build.work.server_id for build in builds_claimed})
    return advanced.going_on


def _restored(lease: Lease, build: Build, guests: dict[str, GuestPlace]) -> StageChange:
    """Return what is still to be done on the source, or the end."""
    work, move = build.work, _move(build)
    over = "reverted" if work.failure is None else "cancelled" if work.failure.aborted else "error"
    status = "ERROR" if move.plan.was_error else "ACTIVE"
    if move.source_host is None:
        return _end(work, move, over, status="SHELVED_OFFLOADED", host=None, before=True)
    guest = guests.get(move.source_host)
    if guest is None or guest.lost or guest.fenced:
        why = Failure(message=f"its guest is gone from host {move.source_host}", host=move.source_host)
        fault = replace(work.failure or why, kind=GUEST_LOST)
        return _end(work, move, "error", status="ERROR", host=move.source_host, before=True, fault=fault)
    made_anew = work.placed is not None and work.placed.host == guest.host and guest.attempt == work.attempt
    if not made_anew and guest.reported == guest.desired == move.plan.power:
        return _end(work, move, over, status=status, host=move.source_host, before=True)
    if guest.host_down and not made_anew:
        message = f"host {move.source_host} is down, and does not start it again"
        why = Failure(message=message, host=move.source_host, kind=HOST_LOST)
        guests_wanted = {move.source_host: move.plan.power}
        return _end(
            work,
            move,
            "error",
            status="ERROR",
            host=move.source_host,
            before=True,
            fault=why,
            guests_wanted=guests_wanted,
        )
    on_server = ServerChange(
        status=status, task_state=RESTORING[move.kind], host=move.source_host, network_info=None,
        flavor=move.plan.old_flavor, spec=move.plan.old_spec,
    )  # fmt: skip
    delay_s = lease.conductor.settings.recheck_s
    if made_anew:  # with the new size, on the same host
        return staged(
            work, Stage.RESTORE, attempt=work.attempt_next, guest_host=move.source_host, desired=move.plan.power,
            placed=None, server=on_server, delay_s=delay_s,
        )  # fmt: skip
    guests_wanted = {move.source_host: move.plan.power}
    return staged(work, Stage.RESTORE, guests_wanted=guests_wanted, server=on_server, delay_s=delay_s)


async def _return_ports(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Bind the ports to their sources, or to no host; return those of whose servers all are."""
    builds_offloaded = [build for build in builds if _move(build).source_host is None]
    builds_to_bind = [build for build in builds if _move(build).source_host is not None]
    if builds_offloaded:
        await lease.conductor.moves.unbind_ports([build.work.server_id for build in builds_offloaded])
    await _drop_bindings(lease, builds)
    ports, _ = await ports_held(
        lease, builds_to_bind, await ensure_ports(lease, builds_to_bind) if builds_to_bind else []
    )
    binds = [
        PortBind(
            port_id=port.id, server_id=build.work.server_id, host=_source(build), provider_uuid=None,
            revision=port.revision, claimed=(),
        )
        for build in builds_to_bind
        for port in ports.get(build.work.server_id, ())
    ]  # fmt: skip
    crash_point("restore.before-bind")
    addresses_before = {
        port_id: addresses
        for build in builds_to_bind
        for port_id, addresses in (_move(build).plan.addresses or {}).items()
    }
    answers = await lease.conductor.moves.return_ports(binds, addresses_before) if binds else []
    crash_point("restore.after-bind")
    ids_changed = {
        bind.server_id
        for bind, answer in zip(binds, answers, strict=True)
        if isinstance(answer, BindRefused) and answer.changed
    }
    servers_bound = ports.keys() - ids_changed
    return [*builds_offloaded, *(build for build in builds_to_bind if build.work.server_id in servers_bound)]


async def _drop_bindings(lease: Lease, builds: Sequence[Build]) -> None:
    """Drop the bindings that live migrations have on hosts where the servers did not get to."""
    hosts_by_server = [
        (build.work.server_id, host)
        for build in builds
        if _move(build).kind is MoveKind.LIVE
        for host in (*build.work.excluded_hosts, *([build.work.placed.host] if build.work.placed else ()))
        if host != build.work.host
    ]
    if hosts_by_server:
        await lease.conductor.moves.drop_bindings(hosts_by_server)


async def _return_claims(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Claim what the servers' moves hold, release what they claimed elsewhere; return those of which that is so."""
    placement = lease.conductor.placement
    uuids = [uuid for build in builds for uuid in (build.work.server_id, _move(build).uuid)]
    consumers = await placement.get_consumers(uuids)
    builds_held = await lease.keep_held(builds)
    groups = [ClaimGroup(tuple(_taken_back(build, consumers))) for build in builds_held]
    crash_point("restore.before-claim")
    answers = await placement.claim(groups)
    crash_point("restore.after-claim")
    return [build for build, answer in zip(builds_held, answers, strict=True) if isinstance(answer, Claimed)]


async def trim_claims(lease: Lease, builds: Sequence[Build]) -> None:
    """Return what was claimed for addresses that these servers may have been about to get."""
    server_ids = [build.work.server_id for build in builds if may_readdress(build.work)]
    if server_ids:
        await lease.conductor.moves.trim_claims(server_ids)


def _taken_back(build: Build, consumers: dict[str, ConsumerState]) -> list[ConsumerClaim]:
    move = _move(build)
    own, moved = consumers.get(build.work.server_id), consumers.get(move.uuid)
    if move.plan.held is None:  # nothing was changed yet
        return [own.claiming(own.allocations)] if own else []
    back = {**move.plan.held, **address_part(own.allocations if own else {})}
    claims = [claim_of(build.work, build.work.server_id, ConsumerType.INSTANCE, own, back)] if own or back else []
    return claims + ([moved.claiming({})] if moved else [])


async def offload(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Take servers off their hosts: guests go, then claims on hosts; ports and their addresses stay the servers'."""
    conductor = lease.conductor
    kept_hosts: list[tuple[str, str | None]] = [(build.work.server_id, None) for build in builds]
    remaining = await withdraw_elsewhere(conductor.compute, kept_hosts, owner=lease.owner)
    builds_clean = [build for build in builds if build.work.server_id not in remaining]
    changes = [
        staged(build.work, Stage.OFFLOAD, delay_s=conductor.settings.recheck_s)
        for build in builds
        if build.work.server_id in remaining
    ]
    server_ids = [build.work.server_id for build in builds_clean]
    crash_point("offload.before-unbind")
    await conductor.moves.unbind_ports(server_ids)
    crash_point("offload.after-unbind")
    consumers = await conductor.placement.get_consumers(server_ids)
    builds_held = await lease.keep_held(builds_clean)
    states = [consumers[build.work.server_id] for build in builds_held if build.work.server_id in consumers]
    crash_point("offload.before-release")
    await conductor.placement.claim(
        [ClaimGroup((state.claiming(address_part(state.allocations)),)) for state in states]
    )
    crash_point("offload.after-release")
    changes += [
        _end(build.work, _move(build), ENDED[MoveKind.SHELVE], status="SHELVED_OFFLOADED", host=None)
        for build in builds_held
    ]
    return (await lease.advance(builds, changes)).going_on


async def _release_moves(lease: Lease, builds: Sequence[Build]) -> None:
    """Release what was held on the sources."""
    if builds:
        crash_point("settle.before-release-move")
        await lease.conductor.placement.release([_move(build).uuid for build in builds])
        crash_point("settle.after-release-move")


def _end(
    work: Work,
    move: Move,
    move_status: str,
    *,
    status: str,
    host: str | None,
    ends: bool = True,
    before: bool = False,
    fault: Failure | None = None,
    guests_wanted: Mapping[str, str] = {},
) -> StageChange:
    """Return the change that ends the work. before: the server is what it was before the move."""
    plan = move.plan
    server = ServerChange(
        status=status,
        host=host,
        fault=fault or work.failure,
        network_info=None,
        power=plan.power if before else plan.power_wanted,
        flavor=plan.old_flavor if before else None,
        spec=plan.old_spec if before else None,
    )
    ended = replace(move, status=move_status)
    return staged(work, None, server=server, move=ended, move_ends=ends, guests_wanted=guests_wanted)


def _move(build: Build) -> Move:
    move = build.work.move
    assert move is not None, "only servers on the move come here"
    return move


def _source(build: Build) -> str:
    source = _move(build).source_host
    assert source is not None
    return source


def _dest(work: Work) -> str:
    assert work.placed is not None, "place comes before"
    return work.placed.host
