"""Servers that may get other addresses where they go: asked for with an evacuation, when a whole segment is lost.

First a host is sought that reaches the addresses that there are. Only if none has room, the ports on routed networks
are free of theirs: `place` claims new ones beside them, and `bind` exchanges them, which returns the old claims. Until
then nothing of a port is changed, so that a move can be taken back.
"""

from collections.abc import Mapping, Sequence, Set

from msgspec.structs import replace

from roost.compute.model.work import Work
from roost.seams.network import NetworkView, Port
from roost.seams.placement import Allocations, ConsumerState


def may_readdress(work: Work) -> bool:
    """Return whether the server may get other addresses."""
    return work.move is not None and work.move.plan.readdress


def list_freeable(ports: Sequence[Port], networks: Mapping[str, NetworkView]) -> frozenset[str]:
    """Return the ids of the ports whose addresses are on segments of routed networks, but for flat ones."""
    return frozenset(
        port.id for port in ports if port.addresses and not port.pools and networks[port.network_id].routed
    )


def free_ports(ports: Sequence[Port], freed_ids: Set[str]) -> tuple[Port, ...]:
    """Return the ports as a host is sought for them: those that are free do not hold the server to their segments.

    One that the server got later has no tag, which its part of the request needs.
    """
    return tuple(
        replace(port, pinned=False, tag=port.tag or port.id) if port.id in freed_ids else port for port in ports
    )


def claim_both(
    ports: Sequence[Port], consumers: Mapping[str, ConsumerState], coming: Mapping[str, Allocations]
) -> dict[str, Allocations]:
    """Return what is to be claimed for the ports: what comes, and beside it what their addresses hold.

    coming: by port id. A port whose claim is right is left out; one with an earlier attempt's claim is not.
    """
    claims = dict(coming)
    for port in ports:
        state = consumers.get(port.id)
        if state is None or not port.addresses or port.pools:
            continue
        allocations_held = {
            uuid: resources for uuid, resources in state.allocations.items() if uuid == port.provider_uuid
        }
        claims[port.id] = {**coming.get(port.id, {}), **allocations_held}
        if claims[port.id] == state.allocations:
            del claims[port.id]
    return claims
