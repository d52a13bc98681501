"""Networks, segments, subnets and hosts, and how lists of them are asked for.

Addresses are text at the edges and whole numbers inside `AddressRange`, so that rules can count. IPv6 ones are above
2^32 (see addressing.parse), so that a number says its family. UUIDs are canonical.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType, field

PLAIN_NAME = "Neutron network id {}"
FLAT_NAME = "Flat pool id {}"
MTU_DEFAULT = 1500
CELL_DEFAULT = "cell1"


def described(**schema: Any) -> Meta:
    """Return metadata that adds to the schema of a type; api/__init__.py folds it in."""
    return Meta(extra_json_schema={"allOf": [schema]})


Uuid = Annotated[str, described(format="uuid")]
IpAddress = Annotated[str, described(anyOf=[{"format": "ipv4"}, {"format": "ipv6"}])]
Cidr = Annotated[str, described(pattern="^[0-9A-Fa-f:.]{2,45}/[0-9]{1,3}$")]

Kind = Literal["network", "segment", "subnet", "port"]
"""What has tags."""

ListKind = Literal["network", "segment", "subnet", "port", "agent", "network_ip_availability"]
"""What has lists that the database filters, orders and cuts."""

AGENT_TYPE: Literal["Roost agent"] = "Roost agent"
AGENT_BINARY: Literal["roost-agent"] = "roost-agent"


class AddressRange(Struct, frozen=True, order=True):
    """Consecutive addresses of one family as whole numbers, both ends included."""

    first: int
    last: int


class Link(Struct, frozen=True, forbid_unknown_fields=True):
    """What carries a segment, such as a VLAN or a tunnel. segmentation_id: None if nobody named one."""

    network_type: str = field(name="provider:network_type")
    physical_network: str | None = field(default=None, name="provider:physical_network")
    segmentation_id: int | None = field(default=None, name="provider:segmentation_id")


class NetworkOwner(Struct, frozen=True):
    """The owner of a network, and whether other projects may use it."""

    project_id: str
    shared: bool
    external: bool


class NetworkRequest(Struct, frozen=True, kw_only=True):
    """A network as a client asks for it. links: of its segments, in their order.

    network_type, physical_network, segmentation_id: of its one segment, or its own without any. flat: its subnets are
    pools of cells. port_security_enabled: of ports that are made on it from now on and say nothing themselves.
    """

    name: str
    project_id: str
    description: str
    network_type: str | None
    physical_network: str | None
    segmentation_id: int | None
    admin_state_up: bool = True
    shared: bool = False
    external: bool = False
    mtu: int = MTU_DEFAULT
    links: tuple[Link, ...] = ()
    flat: bool = False
    port_security_enabled: bool = True


class Network(NetworkRequest, frozen=True, kw_only=True):
    """A network; routed when its subnets belong to segments, flat when they are pools of cells, else plain.

    segmented: a subnet belongs to a segment. links: filled in only where the network is shown.
    """

    id: str
    tags: tuple[str, ...] = ()
    revision: int
    created_at: datetime
    updated_at: datetime
    subnet_ids: tuple[str, ...] = ()
    segment_ids: tuple[str, ...] = ()
    segmented: bool = False


class SegmentRequest(Struct, frozen=True, kw_only=True):
    """A segment as a client asks for it; physical_network None: all hosts reach it."""

    network_id: str
    name: str | None
    description: str
    network_type: str
    physical_network: str | None
    segmentation_id: int | None

    @property
    def link(self) -> Link:
        """Return the link that carries the segment."""
        return Link(self.network_type, self.physical_network, self.segmentation_id)


class Segment(SegmentRequest, frozen=True, kw_only=True):
    """A part of a routed network that some hosts reach."""

    id: str
    tags: tuple[str, ...] = ()
    revision: int
    created_at: datetime
    updated_at: datetime


class Changes(Struct, frozen=True, kw_only=True):
    """What a client changes; None leaves it. Of segments no more than this. revision: the one that it must have."""

    name: str | None = None
    description: str | None = None
    revision: int | None = None


class NetworkChanges(Changes, frozen=True, kw_only=True):
    """What a client changes of a network. link: the attributes of the network's link that the client names."""

    admin_state_up: bool | None = None
    shared: bool | None = None
    external: bool | None = None
    mtu: int | None = None
    port_security_enabled: bool | None = None
    link: Mapping[str, str | int | None] = {}


class HostRoute(Struct, frozen=True, forbid_unknown_fields=True):
    """A route that hosts of a subnet are given: to a CIDR, by way of an address."""

    destination: Cidr
    nexthop: IpAddress


class SubnetKind(Struct, frozen=True, kw_only=True):
    """The attributes of a subnet that decide which ports get which addresses of it.

    id: "" of one that is to be made. service_types: the device owners that it is for; none: for all. See
    roost.network.rules.uses. cell: of a flat network, the cell whose pool it is.
    """

    id: str = ""
    network_id: str
    segment_id: str | None
    name: str
    ip_version: int
    cidr: str
    enable_dhcp: bool
    ipv6_ra_mode: str | None = None
    ipv6_address_mode: str | None = None
    service_types: tuple[str, ...] = ()
    cell: str | None = None

    @property
    def is_pool(self) -> bool:
        """Return whether it is a flat network's pool: a provider of its own, whose addresses servers claim."""
        return self.cell is not None

    @property
    def provider_uuid(self) -> str:
        """Return the resource provider whose inventory counts this subnet's pools: of a flat network, its own."""
        return self.id if self.is_pool else self.segment_id or self.network_id


class SubnetRequest(SubnetKind, frozen=True, kw_only=True):
    """A subnet as a client asks for it, with its allocation pools, in order."""

    description: str
    project_id: str
    gateway_ip: str | None
    dns_nameservers: tuple[str, ...] = ()
    host_routes: tuple[HostRoute, ...] = ()
    pools: tuple[AddressRange, ...] = ()


class Subnet(SubnetRequest, frozen=True, kw_only=True):
    """A subnet. spreading: older ports are still to get addresses of it."""

    id: str
    tags: tuple[str, ...] = ()
    revision: int
    created_at: datetime
    updated_at: datetime
    spreading: bool = False


class Host(Struct, frozen=True):
    """A host, the physical networks that it reaches, and the cell that it belongs to."""

    name: str
    physical_networks: frozenset[str]
    cell: str = CELL_DEFAULT


class Agent(Struct, frozen=True, kw_only=True):
    """The agent of a host that the network service knows. seen_at: its last heartbeat, if any."""

    id: str
    host: Host
    seen_at: datetime | None
    alive: bool


class Holdings(Struct, frozen=True, kw_only=True):
    """How many addresses of a subnet ports hold: claimed ones inside and outside its pools, unclaimed ones inside."""

    claimed_inside: int = 0
    claimed_outside: int = 0
    unclaimed_inside: int = 0


class Provider(Struct, frozen=True, kw_only=True):
    """What stands behind one resource provider: a segment, a network without segments, or a flat network's pool.

    name: for people. physical_network, cell: of the hosts that reach it; cell: of pools alone. subnets: filled in only
    where a bind may need an address of them.
    """

    provider_uuid: str
    name: str = ""
    routed: bool = False
    physical_network: str | None
    cell: str | None = None
    subnets: tuple[SubnetKind, ...] = ()

    @property
    def is_pool(self) -> bool:
        """Return whether it is a flat network's pool: see SubnetKind.is_pool."""
        return self.cell is not None


class ProviderSource(Provider, frozen=True, kw_only=True):
    """A provider with all its subnets, and subnet id -> how many addresses ports hold there."""

    subnets: tuple[Subnet, ...]
    holdings: Mapping[str, Holdings] = {}


class SubnetChanges(Changes, frozen=True, kw_only=True):
    """What a client changes of a subnet; UNSET leaves it too. pools: (first, last)."""

    gateway_ip: str | UnsetType | None = UNSET
    enable_dhcp: bool | None = None
    dns_nameservers: tuple[str, ...] | None = None
    host_routes: tuple[HostRoute, ...] | None = None
    service_types: tuple[str, ...] | None = None
    segment_id: str | UnsetType | None = UNSET
    pools: tuple[tuple[str, str], ...] | None = None


class ListFilter(Struct, frozen=True):
    """A filter of a list: a row passes if the attribute, as clients see it, has one of the values.

    null: a row passes too if the attribute has no value.
    """

    name: str
    values: Sequence[object]
    null: bool = False


class ListQuery(Struct, frozen=True, kw_only=True):
    """A page of a list. Filters and attributes are named as clients name them.

    order: (attribute, whether it descends); `id` is among them, so that no two rows are equal. after: the position of
    the marker. reverse: the page ends before it. seen_by: the project that sees the list; None: who sees all.
    """

    filters: tuple[ListFilter, ...] = ()
    order: tuple[tuple[str, bool], ...] = (("id", False),)
    reverse: bool = False
    after: tuple[object, ...] | None = None
    limit: int | None = None
    seen_by: str | None = None


class ListRow(NamedTuple):
    """What a page shows: the id, and the position in the order of the list, after which it can be read on.

    values: of further columns.
    """

    id: str
    position: tuple[object, ...]
    values: tuple[Any, ...] = ()


class AddressCounts(Struct, frozen=True, kw_only=True):
    """Addresses of a subnet, or of all subnets of a network.

    total: of the pools, or of the whole CIDR where there are none. in_subnet: those that hosts can have. in_pools:
    those of the pools. used: those that ports hold.
    in_subnet = used_in_pools + used_outside + reserved + free.
    """

    total: int = 0
    in_subnet: int = 0
    in_pools: int = 0
    used: int = 0
    used_in_pools: int = 0

    @property
    def used_outside(self) -> int:
        """Return how many are held and in no pool."""
        return self.used - self.used_in_pools

    @property
    def reserved(self) -> int:
        """Return how many are in no pool and held by nobody: a port gets one only by naming it."""
        return self.in_subnet - self.in_pools - self.used_outside

    @property
    def free(self) -> int:
        """Return how many are in a pool and held by nobody."""
        return self.in_pools - self.used_in_pools
