"""Where addresses of guests are that the records do not know, and the hidden ports that hold them."""

from collections.abc import Mapping

from msgspec import Struct

from roost.network.model.ports import Address


class Place(Struct, frozen=True, kw_only=True):
    """A subnet that a listed address is in, how hosts reach it, and which port has the address there.

    port_id: None where no port has it. server_id: whose that port is, "" where it is no server's. of_unknown_guest: the
    port is hidden, and holds the address for a guest on its host.
    """

    address: str
    subnet_id: str
    network_id: str
    provider_uuid: str
    physical_network: str | None = None
    cell: str | None = None
    port_id: str | None = None
    server_id: str = ""
    host: str | None = None
    of_unknown_guest: bool = False


class HeldPort(Struct, frozen=True, kw_only=True):
    """A hidden port as it should be: one for each NIC of a guest on each provider.

    listed: what the guest has, as (subnet id, address) -> whether the port is to have it: no other port does.
    """

    id: str
    network_id: str
    server_id: str
    host: str
    mac_address: str
    listed: Mapping[tuple[str, str], bool]


class LeftNic(Struct, frozen=True, kw_only=True):
    """A NIC that a server has lost and that its guest may still have. port_id: of the port that has its addresses.

    subnet_ids: of a hidden port, those in which it has addresses or may get them.
    """

    port_id: str
    server_id: str
    host: str
    subnet_ids: tuple[str, ...] = ()


class AdoptedPort(Struct, frozen=True, kw_only=True):
    """A hidden port that becomes a server's. id: its id from now on. nic_tag: on a flat network, its NIC's.

    addresses: as they are to be, claimed by the port where they count.
    """

    hidden_id: str
    id: str
    made_by_roost: bool
    nic_tag: str | None
    addresses: tuple[Address, ...]


class AdoptionPlan(Struct, frozen=True):
    """The ports by which a guest's NICs become its server's.

    adopted: hidden ports that change owner. bound: ports that are the server's already, and are only bound to the host.
    refusal: why the adoption cannot be, a sentence; "" if it can.
    """

    adopted: tuple[AdoptedPort, ...] = ()
    bound: tuple[str, ...] = ()
    refusal: str = ""
