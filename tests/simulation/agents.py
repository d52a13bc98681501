"""How a host's agent has its ports: with the agent's own code, against the network service in this process."""

from collections.abc import Awaitable
from typing import TypeVar

from roost.agent.old_agents import AgentPorts
from roost.clients.network_api import REPEATED
from roost.network.model.ports import PortChanges
from roost.network.service import Networks, ports
from roost.network.service import old_agents as port_service
from roost.network.service.old_agents import AgentPort
from roost.platform.errors import RoostError
from roost.seams.agent import NetworkRefused
from roost.seams.network import Nic
from roost.seams.old_agents import PortTaken, PortWanted

T = TypeVar("T")
REFUSED_STATUS = 409


class LocalAgentNetwork:
    """AgentNetwork without HTTP: what an agent asks of ports, as the Network API reads it."""

    def __init__(self, networks: Networks) -> None:
        self._networks = networks

    async def take_port(self, wanted: PortWanted) -> PortTaken:
        """See AgentNetwork.take_port."""
        nic, revision = Nic(tag=wanted.tag, network_id=wanted.network_id, fixed_ip=wanted.fixed_ip), wanted.revision
        if wanted.port_id is not None:
            there = await _answer(ports.get_port(self._networks, wanted.port_id))
            revision = there.revision if revision is None else revision
            if nic.port_id_of(wanted.server_id) != there.id:
                nic = Nic(tag=wanted.tag, port_id=there.id)
        asked = AgentPort(
            server_id=wanted.server_id, project_id=wanted.project_id, nic=nic, host=wanted.host, revision=revision
        )
        port = await _answer(port_service.take_port(self._networks, asked))
        addresses = tuple(item.address for item in port.addresses)
        return PortTaken(id=port.id, mac_address=port.mac_address, addresses=addresses)

    async def delete_port(self, port_id: str) -> None:
        """See AgentNetwork.delete_port."""
        await _answer(ports.delete_port(self._networks, port_id))

    async def detach_port(self, port_id: str) -> None:
        """See AgentNetwork.detach_port."""
        changes = PortChanges(device_id="", device_owner="", host="")
        await _answer(ports.update_port(self._networks, port_id, changes))


async def _answer(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except RoostError as error:
        repeat = type(error).__name__ in REPEATED
        raise NetworkRefused(str(error), status=REFUSED_STATUS, repeat=repeat) from error


def ports_of(networks: Networks, version: int | None) -> AgentPorts:
    """Return how an agent of this service version has its ports; None: of one that does not say it."""
    return AgentPorts(LocalAgentNetwork(networks), service_version=3 if version is None else version)
