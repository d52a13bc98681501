"""The stages that make a server's ports.

They exist, and its user's own are reserved, before a host is chosen; but on flat networks of the legacy kind, where
they are made after that, by a conductor of the host's cell, and no client sees them.
"""

from collections.abc import Sequence

from roost.compute.model.work import Stage, StageChange
from roost.conductor.context import Build, Lease, given_up, staged
from roost.platform.crash import crash_point
from roost.seams.network import EnsuredPorts, Port, PortsRefused


async def create_ports(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Make and reserve each server's ports, or end it in ERROR with the reason why one cannot be had."""
    return await _go_on(lease, builds, await ensure_ports(lease, builds), Stage.PLACE)


async def allocate(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Make the ports on flat networks of servers that have a host; `bind` assigns what was claimed for them there."""
    crash_point("allocate.before-ensure")
    answers = await ensure_ports(lease, builds, placed=True)
    crash_point("allocate.after-ensure")
    return await _go_on(lease, builds, answers, Stage.BIND)


async def _go_on(
    lease: Lease, builds: Sequence[Build], answers: Sequence[EnsuredPorts | PortsRefused], stage: Stage
) -> list[Build]:
    ports, changes = _sort_answers(builds, answers)
    changes += [staged(build.work, stage, keep=True) for build in builds if build.work.server_id in ports]
    return (await lease.advance(builds, changes, ports=ports)).going_on


async def ensure_ports(
    lease: Lease, builds: Sequence[Build], *, placed: bool = False
) -> list[EnsuredPorts | PortsRefused]:
    """Return the ports of each server, in order, those of moving ones as they are; without NICs none is asked for."""
    crash_point("create_ports.before-ensure")
    old_agents = lease.conductor.old_agents
    with_nics = [build for build in builds if build.work.spec.nics and build.work.move is None]
    servers = [build.nics for build in with_nics if old_agents is None or build.work.stages.makes_ports]
    planned = [build for build in with_nics if not build.work.stages.makes_ports]
    moving = [build.nics for build in builds if build.work.move is not None]
    answered: list[EnsuredPorts | PortsRefused] = []
    if servers:
        answered += await lease.conductor.network.ensure_ports(servers, placed=placed)
    if planned and old_agents is not None:
        answered += await old_agents.plan_ports(lease, planned)
    if moving:
        answered += await lease.conductor.moves.read_ports(moving)
    answers = {answer.server_id: answer for answer in answered}
    crash_point("create_ports.after-ensure")
    return [answers.get(build.work.server_id) or EnsuredPorts(build.work.server_id, ()) for build in builds]


async def ports_held(
    lease: Lease, builds: Sequence[Build], answers: Sequence[EnsuredPorts | PortsRefused]
) -> tuple[dict[str, tuple[Port, ...]], list[StageChange]]:
    """Return the ports of the servers that the lease still holds, and the changes that end those that were refused.

    To be called after all else was read of the servers: a revision or a generation counts only if it was read under
    the lease. Servers whose lease is lost are in neither.
    """
    # R15: with a later one, this conductor would overwrite what the one that took over has done.
    server_ids_held = {build.work.server_id for build in await lease.keep_held(builds)} if builds else set()
    pairs = [(b, answer) for b, answer in zip(builds, answers, strict=True) if b.work.server_id in server_ids_held]
    return _sort_answers([build for build, _ in pairs], [answer for _, answer in pairs])


def _sort_answers(
    builds: Sequence[Build], answers: Sequence[EnsuredPorts | PortsRefused]
) -> tuple[dict[str, tuple[Port, ...]], list[StageChange]]:
    ports: dict[str, tuple[Port, ...]] = {}
    changes = []
    for build, answer in zip(builds, answers, strict=True):
        if isinstance(answer, PortsRefused):
            changes.append(given_up(build.work, answer.reason))
        else:
            ports[build.work.server_id] = answer.ports
    return ports, changes
