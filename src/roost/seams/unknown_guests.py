"""What the network service does for guests that the records do not know: their addresses are given to nobody else."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from roost.seams.placement import ConsumerClaim


class ListedNic(Struct, frozen=True, kw_only=True):
    """A NIC of a guest as its agent lists it. network_id: as its order had it, None where that is not known."""

    mac_address: str
    addresses: tuple[str, ...]
    network_id: str | None = None


class UnknownGuest(Struct, frozen=True, kw_only=True):
    """A guest that a host has and the records do not know, or know elsewhere, with what its agent says of its NICs."""

    server_id: str
    host: str
    nics: tuple[ListedNic, ...] = ()


class AddressHolder(Struct, frozen=True, kw_only=True):
    """A port that has an address which an unknown guest has too.

    server_id: whose the port is, "" where it is no server's; of the port of another unknown guest, that guest's.
    """

    address: str
    port_id: str
    server_id: str
    host: str

    @property
    def words(self) -> str:
        """Return who has the address."""
        whose = f"server {self.server_id}" if self.server_id else f"port {self.port_id}"
        return f"{whose} on host {self.host}" if self.host else whose


class HeldAddresses(Struct, frozen=True, kw_only=True):
    """What of an unknown guest's addresses nobody else is given.

    addresses_held: those that a hidden port has for it, or a port of its own server. free: those that nobody has yet.
    used: those that another port has already. unknown: those of no subnet, or of a segment or pool that its host does
    not reach.
    """

    server_id: str
    host: str
    addresses_held: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    used: tuple[AddressHolder, ...] = ()
    unknown: tuple[str, ...] = ()


class AdoptedNic(Struct, frozen=True, kw_only=True):
    """A NIC of a guest that becomes a server's. port_id: that its port has, or is to have.

    made_by_roost: the port goes with the server; else it is the user's own.
    """

    tag: str
    port_id: str
    network_id: str
    mac_address: str
    addresses: tuple[str, ...]
    made_by_roost: bool


class Adoption(Struct, frozen=True, kw_only=True):
    """An unknown guest that becomes a server's. claim: what the server is to hold beside the addresses of its NICs."""

    server_id: str
    project_id: str
    host: str
    availability_zone: str
    nics: tuple[AdoptedNic, ...]
    claim: ConsumerClaim


def held_sentence(count: int) -> str:
    """Return what is to be said where addresses of a network are short, and unknown guests hold some."""
    which = "1 of its addresses is" if count == 1 else f"{count} of its addresses are"
    return f"{which} held by unknown guests: see roost-manage guests list."


class GuestPortClient(Protocol):
    """The addresses of guests that the records do not know."""

    async def hold_addresses(
        self, guests_by_host: Mapping[str, Sequence[UnknownGuest]], *, as_of: float
    ) -> list[HeldAddresses]:
        """Hold for each host what its unknown guests have, and nothing else; answer for each guest: nothing is free.

        A hidden port has each address that is of a subnet which the host reaches and that no other port has. Nothing is
        claimed: the inventories say so much less. as_of: the time, in seconds since 1970, before which the guests were
        read; of a host of which something later is known nothing changes. Can be repeated.

        Remote: POST /v2.0/ports with binding:host_id and fixed_ips, DELETE /v2.0/ports/{id}; Neutron hides none.
        """

    async def list_held_addresses(self, guests: Sequence[UnknownGuest]) -> list[HeldAddresses]:
        """Return what is held of these guests' addresses now, and change nothing.

        Remote: GET /v2.0/ports?fixed_ips=ip_address={address}.
        """

    async def count_held_addresses(self, network_ids: Sequence[str]) -> dict[str, int]:
        """Return network -> how many addresses of its pools unknown guests hold; networks without any are left out.

        Remote: GET /v2.0/ports?device_owner=roost:held&network_id={id}.
        """

    async def adopt_ports(self, adoption: Adoption) -> str | None:
        """Make what holds a guest's addresses the ports of its server, on its host; claim all in one claim group.

        Ports that are the server's already are bound to the host. Return why it cannot be, a sentence: nothing has
        changed then. Can be repeated.

        Remote: POST /allocations, then PUT /v2.0/ports/{id} with device_id and binding:host_id.
        """

    async def list_holding_hosts(self) -> set[str]:
        """Return the hosts for whose unknown guests something is held.

        Remote: GET /v2.0/ports?device_owner=roost:held&fields=binding:host_id.
        """
