"""What the compute service does for the network service, and what is kept with a server."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import UNSET, Struct, UnsetType

from roost.seams.network import Nic
from roost.seams.placement import DISK_GB, MEMORY_MB, VCPU


class HostAggregateState(Struct, frozen=True):
    """A host aggregate that the network service keeps, one per segment or physical network."""

    uuid: str
    name: str


class FlavorGroup(Struct, frozen=True, kw_only=True):
    """What the extra specs of a flavor ask for beside its size, from one provider; with the suffix "" from the host.

    resources: (resource class, amount), in order. required, forbidden: traits.
    """

    suffix: str
    resources: tuple[tuple[str, int], ...] = ()
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


class ForcedHost(Struct, frozen=True, kw_only=True):
    """The one host that a server may be on, as an operator said.

    anyway: disabled, or without the traits of the flavor and the image.
    """

    name: str
    provider_uuid: str
    anyway: bool = False


class RequestSpec(Struct, frozen=True, kw_only=True):
    """What a server asked for, kept with it for every later move.

    isolated: each flavor group from its own provider. image_traits: what its image requires of the host.
    image_checksum: of the image's bytes, as the image service said it; kept only where it did.
    """

    vcpus: int
    memory_mb: int
    disk_gb: int
    nics: tuple[Nic, ...] = ()
    availability_zone: str | None = None
    flavor_groups: tuple[FlavorGroup, ...] = ()
    isolated: bool = False
    forced_host: ForcedHost | None = None
    image_traits: frozenset[str] = frozenset()
    image_checksum: str | UnsetType = UNSET

    @property
    def host_resources(self) -> dict[str, int]:
        """Return what it asks of its host, by resource class: its size, with what extra specs add or replace."""
        amounts = {VCPU: self.vcpus, MEMORY_MB: self.memory_mb, DISK_GB: self.disk_gb}
        for group in self.flavor_groups:
            if group.suffix == "":
                amounts |= dict(group.resources)
        return {name: amount for name, amount in amounts.items() if amount > 0}


class ServerPort(Struct, frozen=True, kw_only=True):
    """One NIC of a server as last bound. preserve_on_delete: the user's own port, kept when the server goes.

    port_id: None on a flat network of the legacy kind, which has no ports. segment: the provider of its addresses.
    created_by: user; conductor or agent, as the order of the build says; roost for a NIC that came later. binding: of
    the port to the server's host; none: its host's agent makes it, under this id. revision: of the port when this was
    written. fixed_ip: the address that the agent is to ask for.
    """

    port_id: str | None
    tag: str
    network_id: str
    network_name: str
    mac_address: str
    addresses: tuple[str, ...]
    preserve_on_delete: bool
    segment: str | None = None
    created_by: str = ""
    binding: Literal["none", "unbound", "bound"] = "bound"
    revision: int = 0
    fixed_ip: str | None = None


class HostAggregateMembers(Struct, frozen=True):
    """A host aggregate and the hosts in it."""

    name: str
    hosts: frozenset[str]


class HostHeartbeat(Struct, frozen=True, kw_only=True):
    """When a host was last heard of, None for never, and whether it is up."""

    seen_at: datetime | None
    up: bool


class ServerState(Struct, frozen=True):
    """What a server may still hold.

    claiming: it may hold claims, since it runs, its work is unfinished, or a host may still have its guest.
    unfinished: its build or delete is still at work. hosts_plugged: hosts whose guest of it may have NICs that it has
    no more; one that is fenced, or whose host is forced down, has none.
    """

    claiming: bool
    unfinished: bool
    hosts_plugged: frozenset[str] = frozenset()


class PortsChange(Struct, frozen=True):
    """Ports of a server are no longer what they were. lost: those that were deleted while a build held them."""

    server_id: str
    lost: tuple[str, ...] = ()


class ComputeClient(Protocol):
    """Servers, hosts and host aggregates. Every call is in sets and can be repeated."""

    async def ensure_host_aggregates(self, aggregates: Sequence[HostAggregateState]) -> None:
        """Create those that do not exist yet.

        Remote: POST /os-aggregates, which chooses the UUID itself.
        """

    async def delete_host_aggregates(self, uuids: Sequence[str]) -> None:
        """Delete them, and their UUIDs from every provider.

        Remote: DELETE /os-aggregates/{id}, once POST /os-aggregates/{id}/action has removed every host.
        """

    async def set_segment_aggregates(
        self, aggregates_by_host: Mapping[str, frozenset[str]], *, managed: frozenset[str]
    ) -> None:
        """Put these hosts into these of the `managed` host aggregates and into no other managed one.

        Aggregates outside `managed`, and hosts that are not named, are left alone. Placement mirrors it before the
        call returns.

        Remote: POST /os-aggregates/{id}/action with add_host or remove_host, once for each host.
        """

    async def get_server_states(self, server_ids: Sequence[str]) -> dict[str, ServerState]:
        """Return those of the servers that exist, whose delete is still at work, or that a host may have a guest of.

        Remote: GET /servers/detail?all_tenants=true&uuid={id}: its status and OS-EXT-STS:task_state.
        """

    async def list_host_aggregates(self) -> dict[str, HostAggregateMembers]:
        """Return all host aggregates, by UUID: those that the network service keeps, and those of operators.

        Remote: GET /os-aggregates.
        """

    async def get_heartbeats(self, names: Sequence[str]) -> dict[str, HostHeartbeat]:
        """Return those of the hosts that are known, by name.

        Remote: GET /os-services?binary=nova-compute: their updated_at and state.
        """

    async def tell_recovery(self) -> str | None:
        """Return what is waited for while records that went back in time do not know what the hosts have; else None.

        Remote: none; Nova believes its database.
        """

    async def ports_changed(self, changes: Sequence[PortsChange]) -> None:
        """Look at these servers' ports again: what is kept with ACTIVE ones is as they are now, or they are gone.

        A build that lost a port ends in ERROR with the reason. Servers that do not exist are left out.

        Remote: POST /os-server-external-events with network-changed, or network-vif-deleted for a port that is lost.
        """
