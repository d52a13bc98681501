"""Decides what becomes of a server when a client deletes a port of it, and which ports an agent may delete with it."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.model.work import Failure, Stage, WorkState
from roost.seams.agent import GuestOrder
from roost.seams.network import LOST_PORT, Nic

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


def without_doubtful_ports(order: GuestOrder, nics: Sequence[Nic]) -> GuestOrder:
    """Return an order to let go of a guest without the ports that might be a user's; any other order as it is.

    nics: of the guest's server. An old agent deletes each port that is not to be preserved. What is kept of ports is a
    copy, which may be wrong, so Roost's are only those that the id says were made for a NIC; the conductor has others.
    """
    if order.desired != "absent":
        return order
    ids_made = {nic.port_id_of(order.server_id) for nic in nics if nic.port_id is None}
    return replace(
        order, ports=tuple(port for port in order.ports if port.preserve_on_delete or port.port_id in ids_made)
    )
