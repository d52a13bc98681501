"""Decides what becomes of a port's addresses when a client names others: which stay, which go, which are wanted.

Which addresses there are for those wanted is decided in `requests`, as for a new port.
Source: Neutron, db/ipam_backend_mixin.py, how named fixed_ips are matched with those that a port has.
"""

from collections.abc import Sequence, Set

from msgspec import Struct

from roost.network.errors import FixedIpsSubnetsNotOnSameSegment, InvalidInput, PortBound
from roost.network.model.ports import Address, FixedIpRequest, Port
from roost.network.rules import uses
from roost.network.rules.requests import Placing, refuse_many

DISTRIBUTED_OWNER = "network:distributed"
"""Ports of services that are everywhere at once may have addresses on several segments."""


class Matched(Struct, frozen=True):
    """What a client's list of fixed_ips means for the addresses that a port has; wanted: what it does not have yet.

    following: those that follow from the MAC address and were not named.
    """

    kept: tuple[Address, ...]
    dropped: tuple[Address, ...]
    wanted: tuple[FixedIpRequest, ...]
    following: tuple[Address, ...] = ()


def match(held: Sequence[Address], fixed_ips: Sequence[FixedIpRequest], automatic: Set[str]) -> Matched:
    """Named addresses first, then one of the same subnet for each that names its subnet alone.

    automatic: subnets whose addresses follow from the MAC address: those stay, named or not; see settle.
    Raises InvalidInput for an address that is named twice, for too many.
    """
    refuse_many(fixed_ips)
    named = [item.ip_address for item in fixed_ips if item.ip_address is not None]
    if len(named) != len(set(named)):
        raise InvalidInput("An address is named twice in fixed_ips.")
    left = list(held)
    kept: list[Address] = []
    wanted: list[FixedIpRequest] = []
    for item in sorted(fixed_ips, key=lambda item: item.ip_address is None):
        has = next((address for address in left if _is(address, item)), None)
        if has is None:
            wanted.append(item)
        else:
            left.remove(has)
            kept.append(has)
    following = tuple(address for address in left if address.subnet_id in automatic)
    dropped = [address for address in left if address.subnet_id not in automatic]
    return Matched(tuple(kept), tuple(dropped), tuple(wanted), following)


def settle(port: Port, matched: Matched, placing: Placing | None) -> Matched:
    """What follows from the MAC address stays where the named addresses are, and does not hold a port on a segment that
    it leaves: those of the segment where it goes come with the addresses there."""
    leaves = (
        placing is not None
        and port.device_owner != DISTRIBUTED_OWNER
        and all(item.provider_uuid == placing.provider_uuid for item in matched.kept)
    )
    gone = [item for item in matched.following if leaves and placing and item.provider_uuid != placing.provider_uuid]
    stays = [item for item in matched.following if item not in gone]
    return Matched((*matched.kept, *stays), (*matched.dropped, *gone), matched.wanted)


def renews(before: Port, after: Port) -> bool:
    """Whether what follows from the MAC address is other than it was; a router's port has named what it has there."""
    return before.mac_address != after.mac_address or (
        uses.gets_automatic(after.device_owner) and not uses.gets_automatic(before.device_owner)
    )


def refuse_spread(port: Port, kept: Sequence[Address], placing: Placing | None) -> None:
    """Raise FixedIpsSubnetsNotOnSameSegment where what stays and what comes are on several segments."""
    providers = {item.provider_uuid for item in kept} | ({placing.provider_uuid} if placing else set())
    if len(providers) > 1 and port.device_owner != DISTRIBUTED_OWNER:
        raise FixedIpsSubnetsNotOnSameSegment(
            f"The fixed_ips name subnets of {len(providers)} segments: all addresses of a port are on one."
        )


def refuse_mac_address(port: Port, mac_address: str) -> None:
    """Raise PortBound where a bound port is to get another MAC address: its host has the old one in use."""
    if port.host is not None and mac_address != port.mac_address:
        raise PortBound(
            f"Unable to complete operation on port {port.id}, port is already bound, port type: {port.vif_type}, "
            f"old_mac {port.mac_address}, new_mac {mac_address}: unbind it first."
        )


def _is(address: Address, item: FixedIpRequest) -> bool:
    if item.ip_address is None:
        return address.subnet_id == item.subnet_id
    return address.address == item.ip_address and item.subnet_id in (None, address.subnet_id)
