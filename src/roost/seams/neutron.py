"""What a Neutron beside Roost's ledger tells of its segments: which addresses there are, and which ports have them."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from roost.platform.errors import Retry, RoostError


class NeutronUnavailable(RoostError):
    """Neutron cannot be asked."""

    retry = Retry.NOW


class NeutronNetwork(Struct, frozen=True):
    """A network, as people know it."""

    id: str
    name: str = ""
    project_id: str = ""


class NeutronSegment(Struct, frozen=True):
    """A segment of a network."""

    id: str
    network_id: str


class NeutronSubnet(Struct, frozen=True, kw_only=True):
    """An IPv4 subnet on a segment. pools: first and last address of each, as text."""

    id: str
    segment_id: str
    gateway_ip: str | None = None
    enable_dhcp: bool = False
    pools: tuple[tuple[str, str], ...] = ()
    network_id: str = ""
    name: str = ""
    cidr: str = ""


class NeutronPort(Struct, frozen=True, kw_only=True):
    """A port. addresses: (subnet id, address), of every IP version."""

    id: str
    network_id: str = ""
    device_id: str = ""
    device_owner: str = ""
    project_id: str = ""
    addresses: tuple[tuple[str, str], ...] = ()


class PortPage(Struct, frozen=True):
    """Ports of Neutron. changed_at: when the latest of them was changed, by Neutron's clock; "" if it does not say."""

    ports: Sequence[NeutronPort]
    changed_at: str


class NeutronClient(Protocol):
    """A Neutron, asked as a user who sees everything. Every call raises NeutronUnavailable."""

    async def list_networks(self) -> list[NeutronNetwork]:
        """Return all networks.

        Remote: GET /v2.0/networks, in pages.
        """

    async def list_segments(self) -> list[NeutronSegment]:
        """Return all segments.

        Remote: GET /v2.0/segments, in pages.
        """

    async def list_subnets(self) -> list[NeutronSubnet]:
        """Return the IPv4 subnets that are on a segment.

        Remote: GET /v2.0/subnets?ip_version=4, in pages.
        """

    async def list_ports(
        self, *, changed_since: str = "", ids: Sequence[str] = (), device_id: str = ""
    ) -> PortPage | None:
        """Return all ports, or those changed since a time; None where Neutron cannot tell those.

        ids: only those of them that exist. device_id: only those of one server.

        Remote: GET /v2.0/ports?changed_since={time}&id={id}&device_id={server}, in pages.
        """
