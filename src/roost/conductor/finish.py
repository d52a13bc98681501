"""What ends a build, well or badly: settling, time-outs, retries, the final ERROR, and deletes at any stage.

Claims and addresses are given back only when no host can have a guest of the server any more.
"""

from collections.abc import Sequence

from roost.compute.model import Failure, Move, ServerChange, Stage, Work
from roost.compute.service.nics import ports_changed
from roost.compute.service.work import list_begun, withdraw_guests
from roost.conductor.context import Build, Lease, moved
from roost.platform.crash import crash_point
from roost.seams.compute import PortsChange


async def settle(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """The servers are ACTIVE: from now on their addresses are theirs, and they show what their ports are."""
    ids = [build.work.server_id for build in builds]
    await lease.conductor.network.settle_ports(ids)
    # What a client gave them while they were being built was told when there was nobody who showed it.
    await ports_changed(lease.conductor.compute, [PortsChange(server_id) for server_id in ids])
    return (await lease.advance(builds, [moved(build.work, None) for build in builds])).going_on


async def launch_timeout(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """A launch took too long: another host if this one has not begun, ERROR if it has and does not come to an end."""
    conductor = lease.conductor
    settings = conductor.settings
    ids = [build.work.server_id for build in builds]
    begun_s = await list_begun(conductor.compute, ids)
    never_begun = [server_id for server_id in ids if server_id not in begun_s]
    # A host that begins at this very moment is seen here: its guest is then not withdrawn, but wanted gone.
    remaining = await withdraw_guests(conductor.compute, never_begun, owner=lease.owner) if never_begun else set()
    moves = []
    for build in builds:
        work = build.work
        host = work.placed.host if work.placed else ""
        if work.server_id in begun_s and begun_s[work.server_id] < settings.launch_timeout_s:
            moves.append(moved(work, Stage.LAUNCH, delay_s=settings.launch_timeout_s - begun_s[work.server_id]))
        elif work.server_id in begun_s or work.server_id in remaining:
            message = f"{host} began to launch the server and did not come to an end"
            moves.append(moved(work, Stage.FAIL, failure=Failure(message=message, host=host), keep=True))
        else:
            message = f"{host} did not begin to launch the server within {settings.begin_timeout_s:g} s"
            moves.append(_to_another_host(work, Failure(message=message, host=host)))
    return (await lease.advance(builds, moves)).going_on


def _to_another_host(work: Work, failure: Failure) -> Move:
    # Not counted as a failure: the death of an agent is no attempt.
    excluded = (*work.excluded_hosts, failure.host) if failure.host else work.excluded_hosts
    return moved(work, Stage.RETRY, excluded_hosts=excluded, failure=failure, keep=True)


async def retry(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Back to `place` with the same ports, or to ERROR after max_attempts failures."""
    most = lease.conductor.settings.max_attempts
    moves = []
    for build in builds:
        work = build.work
        if work.failures < most:
            moves.append(moved(work, Stage.PLACE, keep=True))
            continue
        last = work.failure.message if work.failure else "no reason was given"
        message = (
            f"Exceeded maximum number of retries: {work.failures} launch{'' if work.failures == 1 else 'es'} failed, "
            f"on {', '.join(work.excluded_hosts)}. The last one: {last}"
        )
        failure = Failure(message=message, host=work.failure.host if work.failure else None)
        moves.append(moved(work, Stage.FAIL, failure=failure, keep=True))
    return (await lease.advance([Build(build.work) for build in builds], moves)).going_on


async def fail(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """End servers in ERROR; everything they had is given back once no host can have a guest of theirs."""
    conductor = lease.conductor
    remaining = await withdraw_guests(conductor.compute, [build.work.server_id for build in builds], owner=lease.owner)
    clean = [build for build in builds if build.work.server_id not in remaining]
    await _release(lease, clean, "fail", restore=True)
    moves = []
    for build in builds:
        work = build.work
        done = work.server_id not in remaining
        host = None if done or work.placed is None else work.placed.host
        change = ServerChange(status="ERROR", host=host, fault=work.failure)
        stage = None if done else Stage.FAIL
        moves.append(moved(work, stage, server=change, delay_s=conductor.settings.recheck_s))
    return (await lease.advance(builds, moves)).going_on


async def delete(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Delete servers once no host can have a guest of theirs; until then they wait, claims and addresses with them."""
    conductor = lease.conductor
    remaining = await withdraw_guests(conductor.compute, [build.work.server_id for build in builds], owner=lease.owner)
    clean = [build for build in builds if build.work.server_id not in remaining]
    await _release(lease, [build for build in clean if build.work.active], "delete", restore=False)
    await _release(lease, [build for build in clean if not build.work.active], "delete", restore=True)
    moves = [
        moved(build.work, Stage.DELETE, delay_s=conductor.settings.recheck_s)
        if build.work.server_id in remaining
        else moved(build.work, None, gone=True)
        for build in builds
    ]
    return (await lease.advance(builds, moves)).going_on


async def _release(lease: Lease, builds: Sequence[Build], stage: str, *, restore: bool) -> None:
    """Give back ports and addresses, then claims; restore: the users' ports return to how they came."""
    if not builds:
        return
    conductor = lease.conductor
    crash_point(f"{stage}.before-release-ports")
    await conductor.network.release_ports([build.nics for build in builds], restore=restore)
    crash_point(f"{stage}.after-release-ports")
    crash_point(f"{stage}.before-release-claim")
    await conductor.placement.release([build.work.server_id for build in builds])
    crash_point(f"{stage}.after-release-claim")
