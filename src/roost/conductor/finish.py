"""What ends a build, well or badly: settling, time-outs, retries, the final ERROR, and deletes at any stage.

Claims and addresses are given back only when no host can have a guest of the server any more.
"""

from collections.abc import Sequence

from roost.compute.model.work import ServerChange, Stage
from roost.compute.service.nics import refresh_ports
from roost.compute.service.work import list_launches, withdraw_guests
from roost.conductor.context import Build, Lease, given_up, staged
from roost.conductor.launches import judge_launches
from roost.conductor.moves import settle_moves, trim_claims
from roost.platform.crash import crash_point


async def settle(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """End the work on servers that are ACTIVE: their addresses are theirs now, and they show what their ports are."""
    builds_made = [build for build in builds if build.work.move is None]
    moved = [build for build in builds if build.work.move is not None]
    assigned = [build for build in moved if build.work.placed and build.work.placed.providers_by_port]
    if server_ids := [build.work.server_id for build in (*builds_made, *assigned)]:
        await lease.conductor.network.settle_ports(server_ids)
    changes = await settle_moves(lease, moved) if moved else []
    # A port that a client changed meanwhile had its notice before there was anything to write anew.
    await refresh_ports(lease.conductor.compute, {build.work.server_id for build in builds})
    return (await lease.advance(builds, [*changes, *(staged(build.work, None) for build in builds_made)])).going_on


async def launch_timeout(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Look at launches that take long: wait on, choose another host, or end in ERROR, as `judge_launch` decides."""
    launches = await list_launches(lease.conductor.compute, [build.work.server_id for build in builds])
    changes = []
    builds_late = []
    for build in builds:
        launch = launches.get(build.work.server_id)
        if build.work.move is not None and launch and launch.reported == build.work.move.plan.power_wanted:
            changes.append(staged(build.work, Stage.SETTLE, keep=True))
        else:
            builds_late.append(build)
    changes += await judge_launches(lease, builds_late, launches)
    return (await lease.advance(builds, changes)).going_on


async def retry(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Send servers back to `place` with the same ports, or to ERROR after max_attempts failures."""
    most = lease.conductor.settings.max_attempts
    changes = []
    for build in builds:
        work = build.work
        if work.failures < most:
            changes.append(staged(work, Stage.PLACE, keep=True))
            continue
        last = work.failure.message if work.failure else "no reason was given"
        message = (
            f"Exceeded maximum number of retries: {work.failures} attempt{'' if work.failures == 1 else 's'} failed, "
            f"on {', '.join(work.excluded_hosts)}. The last one: {last}"
        )
        changes.append(given_up(work, message, host=work.failure.host if work.failure else None))
    return (await lease.advance([Build(build.work) for build in builds], changes)).going_on


async def fail(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """End servers in ERROR; everything they had is given back once no host can have a guest of theirs."""
    conductor = lease.conductor
    remaining = await withdraw_guests(conductor.compute, [build.work.server_id for build in builds], owner=lease.owner)
    clean = [build for build in builds if build.work.server_id not in remaining]
    await _release(lease, clean, "fail", restore=True)
    changes = []
    for build in builds:
        work = build.work
        done = work.server_id not in remaining
        host = None if done or work.placed is None else work.placed.host
        change = ServerChange(status="ERROR", host=host, fault=work.failure)
        stage = None if done else Stage.FAIL
        changes.append(staged(work, stage, server=change, delay_s=conductor.settings.recheck_s))
    return (await lease.advance(builds, changes)).going_on


async def delete(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Delete servers once no host can have a guest of theirs; until then they wait, claims and addresses with them."""
    conductor = lease.conductor
    server_ids = [build.work.server_id for build in builds]
    remaining = await withdraw_guests(conductor.compute, server_ids, owner=lease.owner, unknown_too=True)
    clean = [build for build in builds if build.work.server_id not in remaining]
    await _release(lease, [build for build in clean if build.work.active], "delete", restore=False)
    await _release(lease, [build for build in clean if not build.work.active], "delete", restore=True)
    changes = [
        staged(build.work, Stage.DELETE, delay_s=conductor.settings.recheck_s)
        if build.work.server_id in remaining
        else staged(build.work, None, gone=True)
        for build in builds
    ]
    return (await lease.advance(builds, changes)).going_on


async def _release(lease: Lease, builds: Sequence[Build], stage: str, *, restore: bool) -> None:
    """Release ports and addresses, then claims; restore: the users' ports return to how they came."""
    if not builds:
        return
    conductor = lease.conductor
    await trim_claims(lease, builds)
    crash_point(f"{stage}.before-release-ports")
    await conductor.network.release_ports([build.nics for build in builds], restore=restore)
    crash_point(f"{stage}.after-release-ports")
    crash_point(f"{stage}.before-release-claim")
    moves = [build.work.move.uuid for build in builds if build.work.move]
    await conductor.placement.release([*(build.work.server_id for build in builds), *moves])
    crash_point(f"{stage}.after-release-claim")
