"""The network service as the agents of a world know it: the very calls of the Network API, without HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager

from roost.network.errors import PortChanged
from roost.network.model.ports import PortChanges
from roost.network.service import Networks
from roost.network.service import ports as port_service
from roost.network.service.old_agents import AgentPort, take_port
from roost.platform.errors import Conflict, NotFound
from roost.seams.agent import NetworkRefused
from roost.seams.network import Nic
from roost.seams.old_agents import PortTaken, PortWanted


class LocalAgentNetwork:
    """Implements roost.seams.old_agents.AgentNetwork. deleted, detached: the ports that were, in order."""

    def __init__(self, networks: Networks) -> None:
        self._networks = networks
        self.deleted: list[str] = []
        self.detached: list[str] = []

    async def take_port(self, wanted: PortWanted) -> PortTaken:
        """See AgentNetwork.take_port."""
        nic = Nic(tag=wanted.tag, network_id=wanted.network_id, fixed_ip=wanted.fixed_ip)
        if wanted.port_id not in (None, nic.port_id_of(wanted.server_id)):
            nic = Nic(tag=wanted.tag, port_id=wanted.port_id)
        port_wanted = AgentPort(
            server_id=wanted.server_id,
            project_id=wanted.project_id,
            nic=nic,
            host=wanted.host,
            revision=wanted.revision,
        )
        with refused():
            port = await take_port(self._networks, port_wanted)
        return PortTaken(
            id=port.id, mac_address=port.mac_address, addresses=tuple(item.address for item in port.addresses)
        )

    async def delete_port(self, port_id: str) -> None:
        """See AgentNetwork.delete_port."""
        self.deleted.append(port_id)
        with refused():
            await port_service.delete_port(self._networks, port_id)

    async def detach_port(self, port_id: str) -> None:
        """See AgentNetwork.detach_port."""
        self.detached.append(port_id)
        with refused():
            await port_service.update_port(self._networks, port_id, PortChanges(device_id="", device_owner="", host=""))


@contextmanager
def refused() -> Iterator[None]:
    """Raise as NetworkRefused what the Network API answers as 404 or 409."""
    try:
        yield
    except (Conflict, NotFound) as error:
        status = 404 if isinstance(error, NotFound) else 409
        raise NetworkRefused(str(error), status=status, repeat=isinstance(error, PortChanged)) from error
