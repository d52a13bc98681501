"""The network service as agents know it that make, bind or delete ports themselves; release 2.0 deletes it."""

from typing import Protocol

from msgspec import Struct


class PortWanted(Struct, frozen=True, kw_only=True):
    """A port that an agent wants on its host for a NIC. port_id: None where there is none yet.

    revision: of the port as the order has it; if it is another by now, somebody else has bound it.
    """

    server_id: str
    project_id: str
    host: str
    tag: str
    network_id: str
    port_id: str | None = None
    revision: int | None = None
    fixed_ip: str | None = None


class PortTaken(Struct, frozen=True, kw_only=True):
    """A port that is on the host, with its addresses."""

    id: str
    mac_address: str
    addresses: tuple[str, ...]


class AgentNetwork(Protocol):
    """The network service as agents know it that make, bind or delete ports themselves.

    Every call can be repeated. Raises NetworkRefused, NetworkAway.
    """

    async def take_port(self, wanted: PortWanted) -> PortTaken:
        """Make the port if it is not there, and bind it.

        Remote: POST /v2.0/ports with binding:host_id; of one that is there PUT /v2.0/ports/{id}.
        """

    async def delete_port(self, port_id: str) -> None:
        """Delete a port that was made for a server.

        Remote: DELETE /v2.0/ports/{id}.
        """

    async def detach_port(self, port_id: str) -> None:
        """Take a user's port off its server.

        Remote: PUT /v2.0/ports/{id} with an empty device_id.
        """
