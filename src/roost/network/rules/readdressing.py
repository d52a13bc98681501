"""Decides what a client's change makes of a port: what it keeps, loses and still needs, and what its guest may keep.

`requests` decides where the missing ones come from, as for a new port.
Source: Neutron, db/ipam_backend_mixin.py, which matches named fixed_ips with the addresses of a port.
"""

from collections.abc import Sequence, Set
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from roost.network.errors import FixedIpsSubnetsNotOnSameSegment, InvalidInput, PortBound
from roost.network.model.ports import (
    Address,
    FixedIpRequest,
    Port,
    PortChanges,
    is_of_server,
    is_server_id,
    vif_type_of,
)
from roost.network.rules import port_security, requests, uses
from roost.network.rules.addressing import canonical_mac
from roost.network.rules.capacity import claim_of
from roost.network.rules.requests import NetworkState, Placing, refuse_many
from roost.platform.structs import with_changes
from roost.seams.placement import covers_allocations, same_allocations

DISTRIBUTED_OWNER = "network:distributed"
"""Ports of this owner are on all hosts at once, and may have addresses on several segments."""


class ChangePlan(Struct, frozen=True):
    """What a client's change makes of a port.

    before: the port as it was locked. after: as it is to be, with the addresses that it keeps. dropped: those that it
    loses. placings: alternatives for those that it gets; empty if it gets none. needs_claim: the ledger is
    asked before anything is written, for a claim or for which of several placings has room. trims: once all is written,
    the claim is larger than the addresses.
    """

    before: Port
    after: Port
    dropped: tuple[Address, ...] = ()
    placings: tuple[Placing, ...] = ()
    needs_claim: bool = False
    trims: bool = False


def apply_changes(port: Port, changes: PortChanges) -> Port:
    """Return the port as it is to be, with the addresses that it has.

    Raises InvalidInput, DuplicateAddressPairInRequest, AddressPairAndPortSecurityRequired, PortBound.
    """
    fields: dict[str, Any] = {}
    if changes.device_id and changes.device_id != port.made_for:
        fields["made_for"] = None  # it does not go with the server that it was made for
    if changes.mac_address is not None:
        fields["mac_address"] = canonical_mac(changes.mac_address)
    if changes.host is not None:
        fields |= {"host": changes.host or None, "vif_type": vif_type_of(changes.host)}
    changed = replace(with_changes(port, changes), **fields)
    pairs = port_security.with_own_mac(changed.allowed_address_pairs, changed.mac_address)
    port_security.refuse_pairs_unsecured(pairs, is_secured=changed.port_security_enabled)
    changed = replace(changed, allowed_address_pairs=pairs)
    refuse_mac_address(port, changed.mac_address)
    return changed


def plan_change(
    port: Port, changed: Port, fixed_ips: Sequence[FixedIpRequest] | None, state: NetworkState | None
) -> ChangePlan:
    """Return what becomes of a port's addresses when a client names others, or another host.

    changed: see apply_changes. state: None when the client names neither. An address for another of the same provider
    and IP version needs no claim: the claim of the one that goes covers the one that comes.
    Raises InvalidInput, FixedIpsSubnetsNotOnSameSegment, and what requests.plan_addresses and requests.refuse_host do.
    """
    if state is None:
        return ChangePlan(port, changed)
    matched = Matched(kept=port.addresses, dropped=(), missing=())
    if fixed_ips is not None:
        gets_automatic = uses.gets_automatic(changed.device_owner)
        automatic_ids = {subnet.id for subnet in state.subnets if gets_automatic and uses.is_automatic(subnet)}
        matched = match(port.addresses, fixed_ips, automatic_ids)
    is_deferred = port.ip_allocation == requests.DEFERRED and not port.addresses and port.host is None
    placings: tuple[Placing, ...] = ()
    if matched.missing or (fixed_ips is None and is_deferred):
        placings = requests.plan_addresses(
            port.id, state, device_owner=changed.device_owner, fixed_ips=matched.missing or None
        ).placings
    placing = placings[0] if placings else None
    matched = decide_automatic(changed, matched, placing)
    if fixed_ips is not None:
        refuse_spread(port, matched.kept, placing)
    after = replace(changed, addresses=matched.kept)
    if changed.host not in (None, port.host):
        requests.refuse_host(after, state)
    claim_dropped, claim_coming = claim_of(matched.dropped), placing.claim if placing else {}
    needs_claim = len(placings) > 1 or not covers_allocations(claim_dropped, claim_coming)
    trims = not same_allocations(claim_dropped, {} if needs_claim else claim_coming)
    return ChangePlan(port, after, matched.dropped, placings, needs_claim, trims)


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
    automatic: subnets of EUI-64 addresses, which are not dropped here; see decide_automatic.
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


def decide_automatic(port: Port, matched: Matched, placing: Placing | None) -> Matched:
    """Return the match with `following` decided: kept, or dropped where the port leaves their segment.

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
    """Return the addresses that the guest of a port's server may still have after a change of the port (R50).

    changed: the port afterwards, None if it is deleted. dropped: addresses that it loses. A port on no host has no
    guest.
    """
    if port.host is None or not is_of_server(port.device_owner) or not is_server_id(port.device_id):
        return ()
    return port.addresses if changed is None or changed.device_id != port.device_id else dropped
