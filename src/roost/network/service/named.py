"""Addresses that the NICs of a server's build name: claimed and assigned at once, or planned where agents do."""

from msgspec.structs import replace

from roost.network.errors import InvalidInput, PortChanged
from roost.network.model.ports import FixedIpRequest, PortFilter
from roost.network.rules import addressing, port_bindings, requests
from roost.network.rules.requests import Placing
from roost.network.service import Networks, addresses, claims
from roost.network.service.claims import Intents, Want
from roost.network.store import addresses as address_rows
from roost.network.store import ports
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.errors import BadRequest, Conflict, NotFound, Retry
from roost.seams import network as seam
from roost.seams.service_types import COMPUTE_OWNER


async def assign_named(
    networks: Networks, server: seam.ServerNics, answer: seam.EnsuredPorts | seam.PortsRefused
) -> seam.EnsuredPorts | seam.PortsRefused:
    """Claim and assign the addresses that the server's NICs name; return the server's answer with them.

    The addresses stay, whatever becomes of the build's others. A refusal gives none back: an address may be taken
    because the conductor that took this build over has assigned it.
    """
    if isinstance(answer, seam.PortsRefused):
        return answer
    pairs = zip(server.nics, answer.ports, strict=True)
    named = {port.id: (nic, port, nic.fixed_ip) for nic, port in pairs if nic.fixed_ip and not port.pools}
    if not named:
        return answer
    try:
        for _, port, fixed_ip in named.values():
            if port.needs_address:
                await assign_address(networks, port.id, fixed_ip)
            elif addressing.show(addressing.parse(fixed_ip)) not in port.addresses:
                raise InvalidInput(f"Port {port.id} has {', '.join(port.addresses)}, not {fixed_ip}.")
    except (BadRequest, Conflict, NotFound) as error:
        if error.retry is Retry.NOW:
            raise
        return seam.PortsRefused(server.server_id, error.told())
    async with networks.database.transaction() as tx:
        ports_read = {port.id: port for port in await ports.list_ports(tx, PortFilter(ids=tuple(named)))}
    lost = [port_id for port_id in named if port_id not in ports_read]
    if lost:
        return seam.PortsRefused(server.server_id, seam.LOST_PORT.format(lost[0]))
    views = {
        port_id: port_bindings.view(ports_read[port_id], nic, server.server_id)
        for port_id, (nic, _, _) in named.items()
    }
    return seam.EnsuredPorts(server.server_id, tuple(views.get(port.id, port) for port in answer.ports))


async def assign_address(networks: Networks, port_id: str, address: str) -> None:
    """Claim and give a named address to a port that has none. Raises PortChanged when the port is gone or changes."""
    async with Intents(networks) as intents:
        async with networks.database.transaction() as tx:
            locked = await ports.lock_ports(tx, [port_id])
            if port_id not in locked:
                raise PortChanged(f"Port {port_id} was deleted meanwhile.")
            port = locked[port_id]
            placings = await _plan(tx, port.network_id, port_id, port.device_owner, address)
            await intents.open(tx, [port_id])
        want = Want(port_id=port_id, project_id=port.project_id, placings=placings, ticket=intents.tickets[port_id])
        placing = await claims.claim_one(networks, want)
        async with networks.database.transaction() as tx:
            now = (await ports.lock_ports(tx, [port_id])).get(port_id)
            if now is None or now.revision != port.revision:
                raise PortChanged(f"Port {port_id} changed while it was given an address: repeat the request.")
            await intents.close_one(tx, port_id)
            subnets = await address_rows.lock_provider_subnets(tx, [placing.provider_uuid])
            await addresses.give_one(networks, tx, now, placing, subnets)
    crash_point("port.after-assign")


async def _plan(tx: Connection, network_id: str, port_id: str, device_owner: str, address: str) -> tuple[Placing, ...]:
    """Return how a port gets the named address.

    Raises what requests.plan_addresses raises, IpAddressAlreadyAllocated.
    """
    state, _ = await addresses.read_network(tx, network_id, "")
    plan = requests.plan_addresses(
        port_id,
        state,
        device_owner=device_owner,
        host=None,
        host_name="",
        fixed_ips=(FixedIpRequest(ip_address=address),),
    )
    await addresses.refuse_taken(tx, plan.placings)
    return plan.placings


async def plan_named(
    networks: Networks, server: seam.ServerNics, answer: seam.EnsuredPorts | seam.PortsRefused
) -> seam.EnsuredPorts | seam.PortsRefused:
    """Hold ports that are still to be made to the segment of the address that their NIC names; claim nothing."""
    if isinstance(answer, seam.PortsRefused):
        return answer
    planned = []
    for nic, port in zip(server.nics, answer.ports, strict=True):
        if nic.fixed_ip is None or port.is_held or port.pools:
            planned.append(port)
            continue
        try:
            async with networks.database.transaction() as tx:
                owner = COMPUTE_OWNER + server.availability_zone
                placings = await _plan(tx, port.network_id, port.id, owner, nic.fixed_ip)
        except (BadRequest, Conflict, NotFound) as error:
            return seam.PortsRefused(server.server_id, error.told())
        provider_uuid = placings[0].provider_uuid
        planned.append(replace(port, provider_uuid=provider_uuid, pinned=True, fixed_ip=nic.fixed_ip))
    return seam.EnsuredPorts(server.server_id, tuple(planned))
