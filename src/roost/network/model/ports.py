"""Ports, their addresses and bindings, and what becomes of them."""

import re
from datetime import datetime

from msgspec import Struct

from roost.network.model.networks import AddressRange, Changes, IpAddress, Uuid
from roost.seams.service_types import COMPUTE_OWNER

VIF_TYPE_BOUND = "ovs"
VIF_TYPE_UNBOUND = "unbound"
SERVER_ID = re.compile("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def vif_type_of(host: str | None) -> str:
    """Return how a port on the host is plugged; None or "" for a port on no host."""
    return VIF_TYPE_BOUND if host else VIF_TYPE_UNBOUND


def is_of_server(device_owner: str) -> bool:
    """Return whether the port is a server's: no other has several bindings. Source: Network API, binding-extended."""
    return device_owner.startswith(COMPUTE_OWNER)


def is_server_id(device_id: str) -> bool:
    """Return whether a port's device may be a server: clients may write anything there."""
    return SERVER_ID.fullmatch(device_id) is not None


HELD_OWNER = "roost:held"
"""The owner of hidden ports that hold addresses which a guest has, and which no server's port has.

The records do not know the guest, or its server has lost the NIC. On ports that clients see the owner means nothing.
"""


class Address(Struct, frozen=True, kw_only=True):
    """One address of a port.

    in_pool: taken from the subnet's free ranges. claimed: the port's claim in the ledger counts it.
    assigned_for: the server whose build assigned it, until that server is ACTIVE.
    """

    subnet_id: str
    address: str
    port_id: str
    in_pool: bool
    claimed: bool
    provider_uuid: str
    assigned_for: str | None = None


class PortOrigin(Struct, frozen=True, kw_only=True):
    """A user's port before a server's build reserved it. The port is restored so if the build fails."""

    device_id: str = ""
    device_owner: str = ""
    host: str | None = None
    vif_type: str = VIF_TYPE_UNBOUND


class AddressPair(Struct, frozen=True, kw_only=True):
    """An address, or a CIDR, that a port may use beside its own.

    mac_address: None until the port's own is filled in, see port_security.with_own_mac.
    """

    ip_address: str
    mac_address: str | None = None


class PortAttributes(Struct, frozen=True, kw_only=True):
    """What a port has and a client may ask for.

    made_for: the server that Roost made it for, and with which it is deleted; None for a user's own.
    """

    network_id: str
    project_id: str
    name: str = ""
    description: str = ""
    admin_state_up: bool = True
    device_id: str = ""
    device_owner: str = ""
    host: str | None = None
    vnic_type: str = "normal"
    binding_profile: str = "{}"
    tags: tuple[str, ...] = ()
    made_for: str | None = None
    allowed_address_pairs: tuple[AddressPair, ...] = ()


class Port(PortAttributes, frozen=True, kw_only=True):
    """A port with its addresses. mac_address: "" of one that is to be made with a new one.

    reserved_from: the port before a build reserved it; None without a build. nic_tag: None for ports that clients see.
    Of hidden ones, the tag of the server's NIC on a flat network, or "" where the owner is HELD_OWNER.
    left_at: of a port that holds what a guest has, when the guest's server lost the NIC; None of unknown guests.
    """

    id: str
    mac_address: str = ""
    ip_allocation: str
    vif_type: str = VIF_TYPE_UNBOUND
    reserved_from: PortOrigin | None = None
    revision: int = 1
    created_at: datetime
    updated_at: datetime
    nic_tag: str | None = None
    port_security_enabled: bool = True
    left_at: datetime | None = None
    addresses: tuple[Address, ...] = ()
    """The last of the fields: store/ports.py reads a page in their order."""

    @property
    def hidden(self) -> bool:
        """Return whether no client sees it: it is a server's on a flat network, or holds addresses for a guest."""
        return self.nic_tag is not None

    @property
    def of_unknown_guest(self) -> bool:
        """Return whether it holds addresses for a guest that the records do not know. Nobody claims them."""
        return self.hidden and self.device_owner == HELD_OWNER and self.left_at is None

    @property
    def provider_uuid(self) -> str | None:
        """Return the one provider of its addresses; None without addresses."""
        return self.addresses[0].provider_uuid if self.addresses else None

    @property
    def binding(self) -> "Binding":
        """Return its active binding."""
        return Binding(
            host=self.host or "", vnic_type=self.vnic_type, profile=self.binding_profile, vif_type=self.vif_type
        )


class Nic(Struct, frozen=True, kw_only=True):
    """What is around the NIC of a port. segment_id: None where its network has none, or several and it has no address.

    network_type, physical_network, segmentation_id: of the segment; without one, of the network itself. subnet_ids: of
    its addresses. port_security_enabled, allowed_address_pairs: of the port.
    """

    port_id: str
    network_id: str
    mtu: int
    segment_id: str | None
    network_type: str | None
    physical_network: str | None
    segmentation_id: int | None
    subnet_ids: tuple[str, ...] = ()
    port_security_enabled: bool = True
    allowed_address_pairs: tuple[AddressPair, ...] = ()


class Binding(Struct, frozen=True, kw_only=True):
    """A port's tie to a host; "" while it has none. profile: JSON. active: it is the one in the port's row."""

    host: str
    vnic_type: str = "normal"
    profile: str = "{}"
    vif_type: str = VIF_TYPE_UNBOUND
    active: bool = True


class FixedIpRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One address that a client asks for: by its subnet, by itself, or both."""

    subnet_id: Uuid | None = None
    ip_address: IpAddress | None = None


class PortRequest(PortAttributes, frozen=True, kw_only=True):
    """A port as a client asks for it. fixed_ips: None when not named, empty for no address at all.

    port_security_enabled: None for its network's.
    """

    mac_address: str | None = None
    fixed_ips: tuple[FixedIpRequest, ...] | None = None
    port_security_enabled: bool | None = None


class PortChanges(Changes, frozen=True, kw_only=True):
    """What a client changes of a port. host: "" to unbind."""

    mac_address: str | None = None
    admin_state_up: bool | None = None
    device_id: str | None = None
    device_owner: str | None = None
    host: str | None = None
    vnic_type: str | None = None
    binding_profile: str | None = None
    fixed_ips: tuple[FixedIpRequest, ...] | None = None
    port_security_enabled: bool | None = None
    allowed_address_pairs: tuple[AddressPair, ...] | None = None


class PortFilter(Struct, frozen=True, kw_only=True):
    """Which ports are wanted; None is any. hidden: those too that no client sees."""

    ids: tuple[str, ...] | None = None
    network_ids: tuple[str, ...] | None = None
    device_ids: tuple[str, ...] | None = None
    hidden: bool = False


class FreeChange(Struct, frozen=True):
    """A change of free ranges. removed, added: (subnet id, range)."""

    removed: tuple[tuple[str, AddressRange], ...]
    added: tuple[tuple[str, AddressRange], ...]


class Given(Struct, frozen=True):
    """An address that a port is given."""

    port_id: str
    subnet_id: str
    address: int
    in_pool: bool
    claimed: bool


class Parting(Struct, frozen=True):
    """What becomes of a port when its server goes.

    origin: the state to which it is restored; None: it is deleted. dropped: the addresses that it loses.
    unclaims: its claim may count more addresses than it keeps.
    """

    port_id: str
    origin: PortOrigin | None
    dropped: tuple[Address, ...]
    unclaims: bool

    @property
    def ends_moves(self) -> bool:
        """Return whether its inactive bindings are deleted: the port is no server's now, so nothing moves."""
        return self.origin is not None and not is_of_server(self.origin.device_owner)


class Mismarked(Struct, frozen=True):
    """An address that is not marked as it should be."""

    subnet_id: str
    address: str
    in_pool: bool
    claimed: bool
    in_pool_wanted: bool
    claimed_wanted: bool


class FreeState(Struct, frozen=True, kw_only=True):
    """A subnet's pools and free ranges. count_held: of its pools. overlapping: held addresses in a free range."""

    subnet_id: str
    name: str
    pools: tuple[AddressRange, ...]
    free: tuple[AddressRange, ...]
    count_held: int
    overlapping: int
