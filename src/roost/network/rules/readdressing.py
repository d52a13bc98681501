"""Decides which addresses a port keeps, loses and still needs when a client changes it, and which its guest may keep.

`requests` decides where the missing ones come from, as for a new port.
Source: Neutron, db/ipam_backend_mixin.py, which matches named fixed_ips with the addresses of a port.
"""

from collections.abc import Sequence, Set

from msgspec import Struct

from roost.network.errors import FixedIpsSubnetsNotOnSameSegment, InvalidInput, PortBound
from roost.network.model.ports import Address, FixedIpRequest, Port, is_of_server, is_server_id
from roost.network.rules import uses
from roost.network.rules.requests import Placing, refuse_many

DISTRIBUTED_OWNER = "network:distributed"
"""Ports of this owner are on all hosts at once, and may have addresses on several segments."""


class Matched(Struct, frozen=True):
    """What a client's list of fixed_ips means for a port's addresses.

    missing: what the port does not have yet. following: its EUI-64 addresses that the list does not name.
    """

    kept: tuple[Address, ...]
    dropped: tuple[Address, ...]
    missing: tuple[FixedIpRequest, ...]
    following: tuple[Address, ...] = ()


def match(held: Sequence[Address], fixed_ips: Sequence[FixedIpRequest], automatic: Set[str]) -> Matched:
    """Match the addresses that a port holds with those that a client names.

    Named addresses come first. An item that names only a subnet then keeps any other address of that subnet.
    automatic: subnets of EUI-64 addresses, which are not dropped here; see settle.
    Raises InvalidInput for too many items, and for an address that is named twice.
    """
    refuse_many(fixed_ips)
    named = [item.ip_address for item in fixed_ips if item.ip_address is not None]
    if len(named) != len(set(named)):
        raise InvalidInput("An address is named twice in fixed_ips.")
    unmatched = list(held)
    kept: list[Address] = []
    missing: list[FixedIpRequest] = []
    for item in sorted(fixed_ips, key=lambda item: item.ip_address is None):
        address = next((address for address in unmatched if _is(address, item)), None)
        if address is None:
            missing.append(item)
        else:
            unmatched.remove(address)
            kept.append(address)
    following = tuple(address for address in unmatched if address.subnet_id in automatic)
    dropped = [address for address in unmatched if address.subnet_id not in automatic]
    return Matched(tuple(kept), tuple(dropped), tuple(missing), following)


def settle(port: Port, matched: Matched, placing: Placing | None) -> Matched:
    """Return the match with its EUI-64 addresses decided: kept, or dropped where the port leaves their segment.

    A port leaves a segment when the placing is elsewhere and every named address that it keeps is there too. The
    EUI-64 addresses of the new segment come with the placing.
    """
    lost: list[Address] = []
    may_leave = port.device_owner != DISTRIBUTED_OWNER
    if placing and may_leave and all(item.provider_uuid == placing.provider_uuid for item in matched.kept):
        lost = [item for item in matched.following if item.provider_uuid != placing.provider_uuid]
    stays = [item for item in matched.following if item not in lost]
    return Matched((*matched.kept, *stays), (*matched.dropped, *lost), matched.missing)


def renews(before: Port, after: Port) -> bool:
    """Return whether a port needs other EUI-64 addresses than before: its MAC changed, or it is no router's now."""
    return before.mac_address != after.mac_address or (
        uses.gets_automatic(after.device_owner) and not uses.gets_automatic(before.device_owner)
    )


def refuse_spread(port: Port, kept: Sequence[Address], placing: Placing | None) -> None:
    """Raise FixedIpsSubnetsNotOnSameSegment when the kept and the new addresses are on several segments."""
    providers = {item.provider_uuid for item in kept} | ({placing.provider_uuid} if placing else set())
    if len(providers) > 1 and port.device_owner != DISTRIBUTED_OWNER:
        raise FixedIpsSubnetsNotOnSameSegment(
            f"The fixed_ips name subnets of {len(providers)} segments: all addresses of a port are on one."
        )


def refuse_mac_address(port: Port, mac_address: str) -> None:
    """Raise PortBound when a bound port is to get another MAC address: its host uses the old one."""
    if port.host is not None and mac_address != port.mac_address:
        raise PortBound(
            f"Unable to complete operation on port {port.id}, port is already bound, port type: {port.vif_type}, "
            f"old_mac {port.mac_address}, new_mac {mac_address}: unbind it first."
        )


def _is(address: Address, item: FixedIpRequest) -> bool:
    if item.ip_address is None:
        return address.subnet_id == item.subnet_id
    return address.address == item.ip_address and item.subnet_id in (None, address.subnet_id)


def list_leaving(port: Port, changed: Port | None, dropped: Sequence[Address]) -> Sequence[Address]:
    """Return the addresses that the guest of a port's server may still have after a change of the port.

    changed: the port afterwards, None if it is deleted. dropped: addresses that it loses. A port on no host has no
    guest.
    """
    if port.host is None or not is_of_server(port.device_owner) or not is_server_id(port.device_id):
        return ()
    return port.addresses if changed is None or changed.device_id != port.device_id else dropped
