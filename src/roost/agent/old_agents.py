"""The ports of guests where an agent makes, binds or deletes them itself; release 2.0 deletes it.

It does so with network credentials of its own. What is to be done follows from each port as the order has it, so that
an agent of any version does what is left: one whose port is bound does nothing. An agent of version 1 also gives ports
back once the guest is gone.
"""

import asyncio

import structlog
from msgspec.structs import replace

from roost.agent.drivers import LaunchFailed
from roost.seams.agent import GuestOrder, GuestPort, NetworkAway, NetworkRefused
from roost.seams.old_agents import AgentNetwork, PortWanted

VERSION_DELETES = 1
"""Agents of this service version and before delete ports."""
REPEATS_MAX = 10
PAUSE_FIRST_S, PAUSE_LAST_S = 0.1, 5.0

log = structlog.get_logger()


class AgentPorts:
    """network: None for an agent without network credentials, which takes ports as they were bound for it."""

    def __init__(self, network: AgentNetwork | None, *, service_version: int) -> None:
        self._network = network
        self._gives_back = service_version <= VERSION_DELETES
        self._was_away = False

    async def take(self, order: GuestOrder) -> GuestOrder:
        """Return the order with all its ports on its host. Raises LaunchFailed.

        A call that is under way comes to its end even if the launch is given up: otherwise the service could still be
        at it when the guest is said to be absent, and make a port that nobody gives back.
        """
        if all(port.binding == "bound" for port in order.ports):
            return order
        taking = asyncio.ensure_future(self._take_all(order))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.wait([taking])
            raise

    async def give_back(self, order: GuestOrder) -> None:
        """Delete the ports that were made for a server that is being deleted, and detach its user's own.

        What does not work is left to the conductor, which looks after all of them once no host has the guest.
        """
        if not self._gives_back or self._network is None:
            return
        for port in order.ports:
            if port.port_id is None:
                continue
            try:
                if port.preserve_on_delete:
                    await self._network.detach_port(port.port_id)
                else:
                    await self._network.delete_port(port.port_id)
            except (NetworkAway, NetworkRefused) as error:
                log.info("a port is left to the conductor", port=port.port_id, reason=str(error))

    async def _take_all(self, order: GuestOrder) -> GuestOrder:
        return replace(order, ports=tuple([await self._take(order, port) for port in order.ports]))

    async def _take(self, order: GuestOrder, port: GuestPort) -> GuestPort:
        if port.binding == "bound":
            return port
        if self._network is None:
            raise LaunchFailed(f"the agent of {order.host} has no network credentials to bind a port with")
        port_wanted = PortWanted(
            server_id=order.server_id,
            project_id=order.project_id,
            host=order.host,
            tag=port.tag,
            network_id=port.network_id,
            port_id=None if port.binding == "none" else port.port_id,
            revision=port.revision or None,
            fixed_ip=port.fixed_ip,
        )
        repeats, pause_s = 0, PAUSE_FIRST_S
        while True:
            try:
                taken = await self._network.take_port(port_wanted)
            except NetworkRefused as error:
                repeats += 1
                if not error.repeat or repeats > REPEATS_MAX:
                    raise LaunchFailed(f"a port could not be bound on {order.host}: {error}") from error
            except NetworkAway as error:
                if not self._was_away:
                    self._was_away = True
                    log.warning("the network service is away; launches wait for it", reason=str(error))
            else:
                self._was_away = False
                return replace(
                    port,
                    port_id=taken.id,
                    mac_address=taken.mac_address,
                    addresses=taken.addresses,
                    binding="bound",
                )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LAST_S)
