"""What the network service does for the conductor and the compute service."""

import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from roost.seams.guests import NicNetwork
from roost.seams.placement import IPV4_ADDRESS

LOST_PORT = "Port {} was deleted while the server was being built."
"""Why a build ends that a client has taken a port from, whoever notices it first."""


class Nic(Struct, frozen=True, kw_only=True):
    """One network interface that a server asked for: a network, or a port that the user made.

    tag: names the NIC within its server ("0", "1", ...); with the server's id it fixes the id of Roost's port.
    """

    tag: str
    network_id: str | None = None
    port_id: str | None = None
    fixed_ip: str | None = None

    def port_id_of(self, server_id: str) -> str:
        """Return the user's port, or the derived id of Roost's own: the same for the same server and NIC, always."""
        return self.port_id or _derive_port_id(server_id, self.tag)


@lru_cache(maxsize=1 << 14)  # each stage of a boot asks again
def _derive_port_id(server_id: str, tag: str) -> str:
    return str(uuid.uuid5(uuid.UUID(server_id), tag))


class ServerNics(Struct, frozen=True, kw_only=True):
    """All NICs of one server, and who it belongs to. Of a server, never of a part of its NICs."""

    server_id: str
    project_id: str
    nics: tuple[Nic, ...]
    availability_zone: str = "nova"


class Port(Struct, frozen=True, kw_only=True):
    """A port as the conductor needs to know it.

    provider_uuid: the segment, or the network without segments, that its addresses are on; None without an address.
    pinned: has an address that must stay, so only hosts that reach provider_uuid will do.
    pools: on a flat network the providers from one of which its address comes, which its server claims itself; such a
    port exists once its server's host is known, before that its revision is 0. fixed_ip: the address that it is to get
    there, or wherever its server's agent makes it. is_held: it exists and is reserved for the server's build; a
    port that the agent is to make, or to reserve, is not.
    """

    id: str
    tag: str
    network_id: str
    project_id: str
    mac_address: str
    revision: int
    preserve_on_delete: bool
    needs_address: bool
    host: str | None = None
    addresses: tuple[str, ...] = ()
    provider_uuid: str | None = None
    pinned: bool = False
    pools: tuple[str, ...] = ()
    fixed_ip: str | None = None
    is_held: bool = True


class EnsuredPorts(Struct, frozen=True):
    """The server's ports exist and are reserved for its build; in the order of its NICs."""

    server_id: str
    ports: tuple[Port, ...]


class PortsRefused(Struct, frozen=True):
    """A NIC cannot be had; none of the server's ports is left reserved or made. reason: a sentence."""

    server_id: str
    reason: str


class Segment(Struct, frozen=True, kw_only=True):
    """A segment with addresses, or a whole network without segments.

    placement_aggregate: the hosts that reach it; None when it has none yet. classes: the resource classes of which a
    port without addresses claims one each there, in the order of ADDRESS_CLASSES; none where all that a port gets is
    no capacity (SLAAC). gives_addresses: a server's port gets an address there at all.
    """

    provider_uuid: str
    name: str
    placement_aggregate: str | None
    classes: tuple[str, ...]
    gives_addresses: bool = True


class NetworkView(Struct, frozen=True, kw_only=True):
    """A network as scheduling needs to know it. A plain network has one `Segment`: itself.

    flat: of the legacy kind; its segments are its pools, and it is as routed as any. has_subnets: whether servers can
    have ports there at all. project_id: whose it is; shared, external: who else sees it; on one that is external only,
    others have no ports.
    """

    id: str
    name: str
    routed: bool
    segments: tuple[Segment, ...]
    flat: bool = False
    has_subnets: bool = True
    project_id: str = ""
    shared: bool = False
    external: bool = False


class PortBind(Struct, frozen=True, kw_only=True):
    """Put a port on a host.

    provider_uuid: where its addresses are claimed and are now to be assigned; None: it has some, or claims none.
    claimed: the resource classes of which it holds one each there: it gets exactly one address for each, beside those
    that are no capacity; none: it was to have no other. revision: as read; a port that changed since is refused.
    fixed_ip: the address that it is to get, exactly.
    """

    port_id: str
    server_id: str
    host: str
    provider_uuid: str | None
    revision: int
    claimed: tuple[str, ...] = (IPV4_ADDRESS,)
    fixed_ip: str | None = None


class Bound(Struct, frozen=True):
    """The port is on the host, with these addresses."""

    port_id: str
    addresses: tuple[str, ...]
    revision: int


class BindRefused(Struct, frozen=True):
    """The port is as it was. reason: a sentence. changed: it is not what the bind was made for; another one may do."""

    port_id: str
    reason: str
    changed: bool = False


class AttachedPort(Struct, frozen=True, kw_only=True):
    """A server's port as it is. preserve_on_delete: the user's own, kept when the server goes.

    id: None on a flat network, where its tag names the NIC. project_id: whose the port is, which need not be whose the
    server is: clients may write any device; None on a flat network, where the server itself holds the address.
    provider_uuid: that its addresses are on.
    """

    id: str | None
    tag: str = ""
    project_id: str | None
    network_id: str
    network_name: str
    mac_address: str
    host: str | None
    addresses: tuple[str, ...]
    preserve_on_delete: bool
    revision: int
    provider_uuid: str | None = None


class UnreachedPort(Struct, frozen=True, kw_only=True):
    """A port with addresses that a host does not reach. place: where they are, in words."""

    id: str
    addresses: tuple[str, ...]
    place: str

    def sentence(self) -> str:
        """Return what it means for the server."""
        return f"The port with address {' and '.join(self.addresses)} holds the server to {self.place}."


class PortAttachment(Struct, frozen=True, kw_only=True):
    """A NIC that a server on a host is to get: a port of the user's, or one that is made on a network."""

    server_id: str
    project_id: str
    host: str
    network_id: str | None = None
    port_id: str | None = None
    fixed_ip: str | None = None
    availability_zone: str = "nova"


class HostReach(Struct, frozen=True):
    """A host as the network service knows it: the physical networks that it reaches, and its cell."""

    physical_networks: frozenset[str]
    cell: str


class NetworkClient(Protocol):
    """Networks, and the hosts that reach them. Every call is in sets and can be repeated."""

    async def get_networks(self, network_ids: Sequence[str]) -> dict[str, NetworkView]:
        """Return networks with their segments, by id; unknown ones are left out.

        Remote: GET /v2.0/networks?id={id}, /v2.0/segments?network_id={id} and /v2.0/subnets?network_id={id};
        the placement aggregate of a segment is GET /resource_providers/{segment}/aggregates.
        """

    async def list_network_ids(self, *, limit: int, project_id: str | None) -> list[str]:
        """Return at most `limit` networks, the oldest first: what a server can mean that names none.

        project_id: those that it owns, and shared ones; None: of all networks.

        Remote: GET /v2.0/networks?tenant_id={project_id}&shared=false and GET /v2.0/networks?shared=true.
        """

    async def set_hosts(
        self, physical_networks_by_host: Mapping[str, Sequence[str]], *, cells_by_host: Mapping[str, str] = {}
    ) -> None:
        """Record that these hosts reach these physical networks, and no others; other hosts are left alone.

        cells_by_host: the cells that they belong to; one that is not named is in cell1.

        Remote: none; Neutron hears of physical networks from agents of its own, over its message queue.
        """


class NicClient(Protocol):
    """What is around the NICs of guests, for those who make them."""

    async def get_nic_networks(self, port_ids: Sequence[str]) -> dict[str, NicNetwork]:
        """Return port id -> what is around its NIC, of hidden ports too; unknown ones are left out.

        Remote: GET /v2.0/ports?id={id}, then /v2.0/networks, /v2.0/segments and /v2.0/subnets of their networks.
        """

    async def give_up_ports(self, server_ids: Sequence[str]) -> None:
        """Give away what servers' ports gave up, of guests that have it no more.

        Remote: none; Neutron gives them away at once.
        """


class PortClient(NetworkClient, Protocol):
    """The ports that servers have."""

    async def get_port_projects(self, port_ids: Sequence[str]) -> dict[str, str]:
        """Return port id -> the project that owns it; unknown ones are left out.

        Remote: GET /v2.0/ports?id={id}&fields=id&fields=project_id.
        """

    async def list_attached_ports(self, server_ids: Sequence[str]) -> dict[str, tuple[AttachedPort, ...]]:
        """Return server id -> the ports that say they are its, whoever's, and its NICs on flat networks.

        Servers without any are left out.

        Remote: GET /v2.0/ports?device_id={server_id}.
        """

    async def list_unreached_ports(self, hosts_by_server: Mapping[str, str]) -> dict[str, tuple[UnreachedPort, ...]]:
        """Return server id -> its ports whose addresses that host does not reach; servers without any are left out.

        Remote: GET /v2.0/ports?device_id={server_id}, /v2.0/segments?network_id={id} and /v2.0/agents?host={host}.
        """

    async def attach_port(self, wanted: PortAttachment) -> str:
        """Attach a NIC to a running server, bound to its host, with addresses that are claimed before; return the port.

        Raises NotFound, BadRequest and Conflict: the port is not the project's or in use, the host does not reach the
        segment of its address, no segment that the host reaches has an address free. Nothing is left then.

        Remote: POST /v2.0/ports with device_id and binding:host_id; of the user's own PUT /v2.0/ports/{id}.
        """

    async def detach_port(self, server_id: str, port_id: str) -> None:
        """Take a NIC off a server: a port that was made for it is deleted, a user's keeps its addresses.

        Raises NotFound.

        Remote: DELETE /v2.0/ports/{id}; of the user's own PUT /v2.0/ports/{id} with an empty device_id.
        """


class BuildClient(NetworkClient, Protocol):
    """The ports of servers that come and go."""

    async def ensure_ports(
        self, servers: Sequence[ServerNics], *, placed: bool = False, make: bool = True
    ) -> list[EnsuredPorts | PortsRefused]:
        """Make each server's missing ports and reserve its user's own for its build, whole or not at all; in order.

        A user's port must exist, belong to the project and have an empty device_id, unless this build has reserved it.
        A network must exist and have a subnet. No address is assigned here unless the NIC or the port names it; a
        server that is refused for such an address keeps its ports until they are released.

        placed: the servers' hosts are chosen, so that ports on flat networks are made as well. make: False to make and
        reserve nothing, and to return what is not there as it would be made.

        Remote: POST /v2.0/ports without a host, by which a routed network defers the address; of the user's own
        PUT /v2.0/ports/{id} with device_id.
        """

    async def bind_ports(self, binds: Sequence[PortBind]) -> list[Bound | BindRefused]:
        """Bind, and assign the address that is claimed already; in order. One refusal undoes no other.

        Remote: PUT /v2.0/ports/{id} with binding:host_id, and If-Match for the revision.
        """

    async def unassign_ports(self, revisions: Mapping[str, int]) -> None:
        """Take the build's own addresses off ports that leave their segment, and unbind them; their claims stay.

        revisions: port id -> its revision as read; a port that changed since is left as it is.

        Remote: PUT /v2.0/ports/{id} with fixed_ips [] and an empty binding:host_id, and If-Match for the revision.
        """

    async def settle_ports(self, server_ids: Sequence[str]) -> None:
        """End the reservation of the ports of servers that are ACTIVE now: their addresses pin from here on.

        Remote: none; Neutron reserves no port for a build.
        """

    async def release_ports(self, servers: Sequence[ServerNics], *, restore: bool) -> None:
        """Delete Roost's ports of servers that go, and return their claims; unbind and keep the user's ports.

        restore: the server never ran, so the user's ports return to the state in which they came: an address that the
        build assigned goes as well. Without it they keep their addresses.

        Remote: DELETE /v2.0/ports/{id}; of the user's own PUT /v2.0/ports/{id} with an empty device_id.
        """


class MoveClient(Protocol):
    """The ports of servers that move; `BuildClient.bind_ports` takes them from one host to another."""

    async def read_ports(self, servers: Sequence[ServerNics]) -> list[EnsuredPorts]:
        """Return the ports that the servers have now, in order; NICs whose ports are gone are left out.

        Remote: GET /v2.0/ports?device_id={server_id}.
        """

    async def add_bindings(self, hosts_by_port: Sequence[tuple[str, str]]) -> list[str | None]:
        """Add inactive bindings, as (port id, host); return for each why it cannot be, a sentence, or None.

        `bind_ports` makes the one on its host the active one. Addresses stay as they are.

        Remote: POST /v2.0/ports/{id}/bindings; then PUT /v2.0/ports/{id}/bindings/{host}/activate.
        """

    async def drop_bindings(self, hosts_by_server: Sequence[tuple[str, str]]) -> None:
        """Drop the inactive bindings that servers' ports have on hosts, as (server id, host).

        Remote: DELETE /v2.0/ports/{id}/bindings/{host}.
        """

    async def return_ports(
        self, binds: Sequence[PortBind], addresses_before: Mapping[str, tuple[str, ...]]
    ) -> list[Bound | BindRefused]:
        """Bind ports to the hosts that their servers came from, whatever those hosts reach; in order.

        addresses_before: port id -> what the port had when its server left. A port that got another address since,
        which the host does not reach, loses that one, and its claim is returned. Every other address stays, and all
        those of a port that is not named here. A port without any is bound without any. Refused: a port that changed,
        is gone, or is another server's.

        Remote: PUT /v2.0/ports/{id} with binding:host_id, and fixed_ips without the other address where that fails.
        """

    async def readdress_ports(self, binds: Sequence[PortBind]) -> list[Bound | BindRefused]:
        """Bind ports that have addresses with the ones that are claimed beside them instead; in order.

        The old addresses and their claims are returned. One refusal undoes no other; a port that does not hold both
        claims is refused as changed.

        Remote: PUT /v2.0/ports/{id} with fixed_ips and binding:host_id, and If-Match for the revision.
        """

    async def trim_claims(self, server_ids: Sequence[str]) -> None:
        """Return what the servers' ports claim beyond their addresses.

        Remote: none; in Neutron no port has a claim of its own.
        """

    async def unbind_ports(self, server_ids: Sequence[str]) -> None:
        """Take the servers' ports off their hosts; they stay the servers', with their addresses.

        Remote: PUT /v2.0/ports/{id} with an empty binding:host_id.
        """
