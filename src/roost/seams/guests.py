"""What a guest is made from, beside its sizes: its image, its disk, the networks of its NICs, where its memory is.

These are parts of an order to an agent (seams/agent.py). Every field came with service version 6 and has a default.
"""

from typing import Annotated

from msgspec import Meta, Struct


class Route(Struct, frozen=True, kw_only=True):
    """A route that a subnet's guests are told of."""

    destination: str
    nexthop: str


class NicSubnet(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subnet of which a NIC has addresses. gateway: None without one. ra_mode, address_mode: as Neutron's."""

    cidr: str
    gateway: str | None = None
    dns: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    dhcp: bool = True
    ra_mode: str | None = None
    address_mode: str | None = None


class NicSegment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The segment that a NIC is on. network_type: flat, vlan, vxlan and so on. segmentation_id: of a VLAN, its tag."""

    id: str
    network_type: str
    physical_network: str | None = None
    segmentation_id: int | None = None


class AddressPair(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An address, or a CIDR, that a NIC may use beside its own. mac_address: None for the NIC's own."""

    ip_address: str
    mac_address: str | None = None


class NicNetwork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is around a NIC. segment: None where the network has no segment that is known to Roost.

    An order has one for each of its ports, in their order. port_id: its port's; "" on a flat network of the legacy
    kind. port_security: what the NIC sends is held to its own MAC and addresses, and to the pairs.
    """

    port_id: str
    mtu: int = 1500
    segment: NicSegment | None = None
    subnets: tuple[NicSubnet, ...] = ()
    port_security: bool = True
    pairs_allowed: tuple[AddressPair, ...] = ()


class GuestImage(Struct, frozen=True, kw_only=True):
    """The image of a guest's root disk. url: where an agent gets it; "": it is built in. checksum: of its bytes."""

    id: str
    url: str = ""
    checksum: str = ""


class DiskKept(Struct, frozen=True, kw_only=True):
    """The root disk that a new guest goes on with: the one that its server's guest has on a host.

    needed: without it there is no guest; otherwise it begins anew where it is not found.
    """

    host: str
    needed: bool = True


class MemorySource(Struct, frozen=True, kw_only=True):
    """Where two agents meet, of which one sends memory, or a disk. address: HOST:PORT of the destination.

    token: is good for once.
    """

    address: Annotated[str, Meta(max_length=300)]
    token: Annotated[str, Meta(max_length=128)]
