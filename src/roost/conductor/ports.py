"""The stages that make a server's ports.

They exist, and the user's own are reserved, before a host is chosen; but on flat networks of the legacy kind, where
they are made after that by a conductor of the host's cell, and are never shown.
"""

from collections.abc import Sequence

from roost.compute.model import Failure, Stage
from roost.conductor.context import Build, Lease, moved
from roost.platform.crash import crash_point
from roost.seams.network import EnsuredPorts, PortsRefused


async def create_ports(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Make and reserve each server's ports, or end it in ERROR with the reason why one cannot be had."""
    return await _go_on(lease, builds, await ensure_ports(lease, builds), Stage.PLACE)


async def allocate(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Make the ports on flat networks, or end in ERROR; binding them assigns what was claimed at `place`."""
    crash_point("allocate.before-ensure")
    ensured = await ensure_ports(lease, builds, placed=True)
    crash_point("allocate.after-ensure")
    return await _go_on(lease, builds, ensured, Stage.BIND)


async def ensure_ports(
    lease: Lease, builds: Sequence[Build], *, placed: bool = False
) -> list[EnsuredPorts | PortsRefused]:
    """The ports of each server, in order; servers without NICs are not asked about."""
    crash_point("create_ports.before-ensure")
    asked = [build.nics for build in builds if build.work.spec.nics]
    answers = await lease.conductor.network.ensure_ports(asked, placed=placed) if asked else []
    crash_point("create_ports.after-ensure")
    found = {answer.server_id: answer for answer in answers}
    return [found.get(build.work.server_id) or EnsuredPorts(build.work.server_id, ()) for build in builds]


async def _go_on(
    lease: Lease, builds: Sequence[Build], ensured: Sequence[EnsuredPorts | PortsRefused], stage: Stage
) -> list[Build]:
    moves = []
    for build, answer in zip(builds, ensured, strict=True):
        if isinstance(answer, PortsRefused):
            moves.append(moved(build.work, Stage.FAIL, failure=Failure(message=answer.reason), keep=True))
        else:
            moves.append(moved(build.work, stage, keep=True))
    ports = {answer.server_id: answer.ports for answer in ensured if isinstance(answer, EnsuredPorts)}
    return (await lease.advance(builds, moves, ports=ports)).going_on
