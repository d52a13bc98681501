"""Ports of servers' builds that a host's agent makes and binds in one call, which the conductor does otherwise.

A port of Roost's own has the id that follows from its server and NIC, so it cannot be made twice. It is reserved for
the build, as one that the conductor makes. The network service claims for it when it is bound.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from roost.network.errors import IpAddressGenerationFailure, PortInUse, PortNotFound, RevisionNumberConstraintFailed
from roost.network.model.ports import Port, PortFilter
from roost.network.rules import port_bindings, requests
from roost.network.rules.requests import Placing
from roost.network.service import Networks, addresses, builds
from roost.network.service import ports as port_service
from roost.network.service.claims import Intents
from roost.platform.errors import BadRequest, Conflict, NotFound
from roost.platform.structs import copy_as
from roost.seams import network as seam
from roost.seams.service_types import COMPUTE_OWNER


async def plan_ports(
    networks: Networks, servers: Sequence[seam.ServerNics]
) -> list[seam.EnsuredPorts | seam.PortsRefused]:
    """See BuildClient.ensure_ports, with `make` False."""
    answers = await builds.reserve_ports(networks, servers, make=False)
    return [await _plan_named(networks, server, answer) for server, answer in zip(servers, answers, strict=True)]


async def _plan_named(
    networks: Networks, server: seam.ServerNics, answer: seam.EnsuredPorts | seam.PortsRefused
) -> seam.EnsuredPorts | seam.PortsRefused:
    """Pin ports that are still to be made to the segment of the address that their NIC names. Nothing is claimed."""
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
                placings = await builds.plan_named(tx, port.network_id, port.id, owner, nic.fixed_ip)
        except (BadRequest, Conflict, NotFound) as error:
            return seam.PortsRefused(server.server_id, error.told())
        provider_uuid = placings[0].provider_uuid
        planned.append(replace(port, provider_uuid=provider_uuid, pinned=True, fixed_ip=nic.fixed_ip))
    return seam.EnsuredPorts(server.server_id, tuple(planned))


class AgentPort(Struct, frozen=True, kw_only=True):
    """A NIC that an agent wants on its host. revision: of the port as the agent knows it; None if it knows none."""

    server_id: str
    project_id: str
    nic: seam.Nic
    host: str
    availability_zone: str = "nova"
    revision: int | None = None


async def take_port(networks: Networks, wanted: AgentPort) -> Port:
    """Return the NIC's port, made, reserved for the server's build and bound to the host, with claimed addresses.

    A port that has all this already is returned as it is. Raises NotFound when the server, or what the NIC names, does
    not exist. Raises Conflict when the port is another server's, or no segment that the host reaches has a free
    address; also when it is bound to another host, unless the revision is its present one.
    """
    await _refuse_gone(networks, wanted.server_id)
    taken = await _take(networks, wanted)
    try:
        await _refuse_gone(networks, wanted.server_id)
    except PortNotFound:
        # The server was deleted during this call, and its ports were given back before this one existed.
        await builds.release_server_ports(networks, [wanted.server_id], [taken.id], restore=True)
        raise
    return taken


async def _refuse_gone(networks: Networks, server_id: str) -> None:
    """Raise PortNotFound when the server does not exist."""
    if not await networks.compute.get_server_states([server_id]):
        raise PortNotFound(f"Server {server_id} could not be found: no port is made for it.")


async def _take(networks: Networks, wanted: AgentPort) -> Port:
    port_id = wanted.nic.port_id_of(wanted.server_id)
    ports_read = await port_service.list_ports(networks, PortFilter(ids=(port_id,)))
    before = ports_read[0] if ports_read else None
    if before is not None and before.device_id == wanted.server_id and _is_taken(before, wanted):
        return before
    if before is not None and wanted.revision not in (None, before.revision):
        raise RevisionNumberConstraintFailed(
            f"Constrained to {wanted.revision}, but current revision is {before.revision}"
        )
    if before is not None and wanted.revision is None and before.host not in (None, wanted.host):
        raise PortInUse(
            f"Port {port_id} is on {before.host} with server {before.device_id}: its revision is not named."
        )
    (answer,) = await builds.ensure_ports(networks, [copy_as(seam.ServerNics, wanted, nics=(wanted.nic,))])
    if isinstance(answer, seam.PortsRefused):
        raise Conflict(answer.reason)
    (port,) = answer.ports
    if before is not None and before.device_id == wanted.server_id:
        port = replace(port, revision=before.revision)  # who bound it meanwhile is not overruled
    if port.needs_address:
        await _claim_and_bind(networks, wanted, port)
    else:
        await _bind(networks, wanted, port, None)
    return await port_service.get_port(networks, port_id)


def _is_taken(port: Port, wanted: AgentPort) -> bool:
    return port.host == wanted.host and (bool(port.addresses) or port.ip_allocation == requests.NONE)


async def _claim_and_bind(networks: Networks, wanted: AgentPort, port: seam.Port) -> None:
    """Bind with what the conductor claimed, if the host reaches its segment; else claim on one that it reaches."""
    consumers = await networks.placement.get_consumers([port.id])
    for provider_uuid, resources in (consumers[port.id].allocations if port.id in consumers else {}).items():
        bind = copy_as(
            seam.PortBind,
            wanted,
            port_id=port.id,
            revision=port.revision,
            provider_uuid=provider_uuid,
            claimed=tuple(resources),
        )
        if isinstance((await builds.bind_ports(networks, [bind]))[0], seam.Bound):
            return
        port_now = await port_service.get_port(networks, port.id)  # a refused bind has raised its revision
        port = port_bindings.view(port_now, wanted.nic, wanted.server_id)
    async with Intents(networks) as intents:
        async with networks.database.transaction() as tx:
            state = await addresses.read_network(tx, port.network_id, wanted.host)
            owner = COMPUTE_OWNER + wanted.availability_zone
            plan = requests.plan_addresses(port.id, state, device_owner=owner, fixed_ips=None)
            await intents.open(tx, [port.id])
        if not plan.placings:
            raise IpAddressGenerationFailure(f"No subnet of network {port.network_id} has an address for a server.")
        await _bind(networks, wanted, port, await intents.claim(port, plan.placings, {}), intents=intents)


async def _bind(
    networks: Networks,
    wanted: AgentPort,
    port: seam.Port,
    placing: Placing | None,
    *,
    intents: Intents | None = None,
) -> None:
    """Bind the port, and close its intent. Raises Conflict, and writes nothing, when the port cannot be bound."""
    claimed = tuple(placing.claimed) if placing else ()
    provider_uuid = placing.provider_uuid if placing and claimed else None
    bind = copy_as(
        seam.PortBind, wanted, port_id=port.id, revision=port.revision, provider_uuid=provider_uuid, claimed=claimed
    )
    async with networks.database.transaction() as tx:
        for error in (await intents.close(tx) if intents else {}).values():
            raise error
        (answer,) = await builds.bind_batch(networks, tx, [bind])
        if isinstance(answer, seam.BindRefused):
            raise Conflict(answer.reason)
