"""Decides what becomes of a server when a client deletes a port of it."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from roost.compute.model.work import Failure, Stage, WorkState
from roost.seams.network import LOST_PORT

BUILDING = (Stage.CREATE_PORTS, Stage.PLACE, Stage.ALLOCATE, Stage.BIND, Stage.ASK, Stage.RETRY)
"""Stages that a conductor carries on by itself."""


class Endings(Struct, frozen=True):
    """Builds that end. now: nobody works on them, they wait for a host; marked: their conductor is to end them."""

    now: Mapping[str, Failure]
    marked: Mapping[str, Failure]


def end_builds(works: Iterable[WorkState], lost: Mapping[str, Sequence[str]]) -> Endings:
    """Return which of the servers are being built, and so end in ERROR.

    works: the locked rows. lost: server id -> the ports that were deleted. Servers that are being deleted, that fail
    or that run already are left out: a server that moves has a NIC less.
    """
    now: dict[str, Failure] = {}
    marked: dict[str, Failure] = {}
    for work in works:
        if work.deleting or work.moving or not lost.get(work.server_id):
            continue
        named = ", ".join(lost[work.server_id])
        failure = Failure(message=LOST_PORT.format(named))
        if work.stage is Stage.LAUNCH:
            now[work.server_id] = failure
        elif work.stage in BUILDING:
            marked[work.server_id] = failure
    return Endings(now, marked)
