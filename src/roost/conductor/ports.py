"""The first stage: a server's ports exist, and its user's own are reserved, before a host is chosen."""

from collections.abc import Sequence

from roost.compute.model import Failure, Stage
from roost.conductor.context import Build, Lease, moved
from roost.platform.crash import crash_point
from roost.seams.network import EnsuredPorts, PortsRefused


async def create_ports(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Make and reserve each server's ports, or end it in ERROR with the reason why one cannot be had."""
    ensured = await ensure_ports(lease, builds)
    moves = []
    for build, answer in zip(builds, ensured, strict=True):
        if isinstance(answer, PortsRefused):
            failure = Failure(message=answer.reason)
            moves.append(moved(build.work, Stage.FAIL, failure=failure, keep=True))
        else:
            moves.append(moved(build.work, Stage.PLACE, keep=True))
    ports = {answer.server_id: answer.ports for answer in ensured if isinstance(answer, EnsuredPorts)}
    return (await lease.advance(builds, moves, ports=ports)).going_on


async def ensure_ports(lease: Lease, builds: Sequence[Build]) -> list[EnsuredPorts | PortsRefused]:
    """The ports of each server, in order; servers without NICs are not asked about."""
    crash_point("create_ports.before-ensure")
    asked = [build.nics for build in builds if build.work.spec.nics]
    answers = (
        {answer.server_id: answer for answer in await lease.conductor.network.ensure_ports(asked)} if asked else {}
    )
    crash_point("create_ports.after-ensure")
    return [answers.get(build.work.server_id) or EnsuredPorts(build.work.server_id, ()) for build in builds]
