"""Decides whether what a port's guest sends is held to its own addresses, and which others it may use.

Source: Neutron, the extensions port-security and allowed-address-pairs; neutron-lib, api/validators/
allowedaddresspairs.py; neutron/plugins/ml2/plugin.py, _portsec_ext_port_update_processing.
"""

import ipaddress
from collections.abc import Sequence

from msgspec.structs import replace

from roost.network.errors import (
    AddressPairAndPortSecurityRequired,
    AllowedAddressPairExhausted,
    AllowedAddressPairsMissingIP,
    DuplicateAddressPairInRequest,
    InvalidInput,
)
from roost.network.model.ports import AddressPair
from roost.network.rules.addressing import canonical_mac

PAIRS_MAX = 10
"""Source: Neutron, max_allowed_address_pair."""
NETWORK_DEVICE = "network:"
"""The beginning of owners whose devices forward for others: their ports are never secured."""


def is_secured(device_owner: str, *, wanted: bool | None, network: bool) -> bool:
    """Return whether a new port is secured. wanted: as its client asks, None for nothing said.

    network: whether new ports of its network are.
    """
    if device_owner.startswith(NETWORK_DEVICE):
        return False
    return network if wanted is None else wanted


def read_pairs(given: Sequence[AddressPair]) -> tuple[AddressPair, ...]:
    """Return the pairs with canonical addresses, in order. A MAC address that is left out stays so: see with_own_mac.

    Raises AllowedAddressPairExhausted, AllowedAddressPairsMissingIP, InvalidInput.
    """
    if len(given) > PAIRS_MAX:
        raise AllowedAddressPairExhausted(f"The number of allowed address pair exceeds the maximum {PAIRS_MAX}.")
    return tuple(
        AddressPair(
            ip_address=_canonical_ip(pair.ip_address),
            mac_address=None if pair.mac_address is None else canonical_mac(pair.mac_address),
        )
        for pair in given
    )


def with_own_mac(pairs: Sequence[AddressPair], mac_address: str) -> tuple[AddressPair, ...]:
    """Return the pairs; those that name no MAC address get the port's. Raises DuplicateAddressPairInRequest."""
    filled = tuple(replace(pair, mac_address=pair.mac_address or mac_address) for pair in pairs)
    for number, pair in enumerate(filled):
        if pair in filled[:number]:
            raise DuplicateAddressPairInRequest(
                f"Request contains duplicate address pair: mac_address {pair.mac_address} ip_address {pair.ip_address}."
            )
    return filled


def refuse_pairs_unsecured(pairs: Sequence[AddressPair], *, is_secured: bool) -> None:
    """Raise AddressPairAndPortSecurityRequired for pairs of a port that is not secured: it may use any address."""
    if pairs and not is_secured:
        raise AddressPairAndPortSecurityRequired(
            "Port Security must be enabled in order to have allowed address pairs on a port."
        )


def _canonical_ip(text: str) -> str:
    """Return the address or the CIDR as it is stored; a CIDR keeps its host's part. Raises InvalidInput."""
    if not text:
        raise AllowedAddressPairsMissingIP("AllowedAddressPair must contain ip_address")
    what = f"allowed_address_pairs: ip_address '{text[:64]}'"
    try:
        known = ipaddress.ip_interface(text)
    except ValueError as error:
        raise InvalidInput(f"{what} is neither an address nor a CIDR.") from error
    if "%" in text:
        raise InvalidInput(f"{what} names an interface of one machine.")
    if known.is_multicast:
        raise InvalidInput(f"{what} is a multicast address, which nobody has.")
    return known.with_prefixlen if "/" in text else str(known.ip)
