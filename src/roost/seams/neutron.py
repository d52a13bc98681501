"""What a Neutron beside Roost's ledger tells of its segments: which addresses there are, and which ports have them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from roost.platform.errors import Retry, RoostError


class NeutronUnavailable(RoostError):
    """Neutron cannot be asked."""

    retry = Retry.NOW
    is_confidential = True


class NeutronPartial(NeutronUnavailable):
    """Neutron shows a part of what there is only: its policy hides the rest from this user.

    The sentence names the right and the lines of policy that grant it.
    """

    def __init__(self, hidden: str, *rights: str) -> None:
        lines = "; ".join(f'"{right}": "role:admin or role:service"' for right in rights)
        many = "s" if len(rights) > 1 else ""
        super().__init__(
            f"{hidden}: its user needs the right{many} {' and '.join(rights)}, which the role admin has. "
            f"In Neutron's policy.yaml this grants it to the role service: {lines}"
        )


GET_SEGMENT = "get_segment"
GET_SEGMENT_ID = "get_subnet:segment_id"
GET_AVAILABILITY = "get_network_ip_availability"
"""Rights by the names of Neutron's policy. Source: Neutron 29, neutron/conf/policies/."""


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
    """An IPv4 subnet. pools: first and last address of each, as text. segment_id: "" for one on no segment.

    service_types: the device owners that it is for; none: for all.
    """

    id: str
    segment_id: str
    gateway_ip: str | None = None
    enable_dhcp: bool = False
    pools: tuple[tuple[str, str], ...] = ()
    network_id: str = ""
    name: str = ""
    cidr: str = ""
    service_types: tuple[str, ...] = ()


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
    """A Neutron, asked as a user who should see everything. Every call with a remote one raises NeutronUnavailable."""

    def who_asks(self) -> str:
        """Return which user asks, with its roles as far as they are known, in words."""

    def forget_token(self) -> None:
        """Ask with a new token from now on: the user may have got a right meanwhile."""

    async def list_networks(self) -> list[NeutronNetwork]:
        """Return all networks.

        Remote: GET /v2.0/networks, in pages.
        """

    async def list_segments(self) -> list[NeutronSegment]:
        """Return all segments.

        Remote: GET /v2.0/segments, in pages.
        """

    async def list_subnets(self) -> list[NeutronSubnet]:
        """Return the IPv4 subnets. Raises NeutronPartial where it is hidden on which segments they are.

        Remote: GET /v2.0/subnets?ip_version=4, in pages.
        """

    async def count_addresses(self, network_ids: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        """Return network -> IPv4 subnet -> how many addresses Neutron itself counts as used, whoever has them.

        A network that is deleted is left out; nothing is returned to who may not ask.

        Remote: GET /v2.0/network-ip-availabilities?network_id={id}
        """

    async def list_ports(
        self, *, changed_since: str = "", ids: Sequence[str] = (), device_id: str = ""
    ) -> PortPage | None:
        """Return all ports, or those changed since a time; None where Neutron cannot tell those.

        ids: only those of them that exist. device_id: only those of one server.

        Remote: GET /v2.0/ports?changed_since={time}&id={id}&device_id={server}, in pages.
        """
