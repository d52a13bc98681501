"""Decides which ports a server's build may have, and what binding, unbinding and giving back changes of a port.

Which address a port gets is decided in `addressing`; that there is one, in the ledger.
"""

from collections.abc import Mapping, Sequence, Set

import msgspec
from msgspec import Struct

from roost.network.model.networks import Host, Network, SubnetKind
from roost.network.model.ports import Address, Given, NewPort, Parting, Port, PortOrigin, Reserved
from roost.network.rules import capacity, quotas, segments, uses
from roost.network.rules.addressing import Demand
from roost.network.rules.requests import IMMEDIATE, NONE, claimed_demands
from roost.platform.quotas import QuotaUsage
from roost.seams import network as seam
from roost.seams.service_types import COMPUTE_OWNER


class Reservation(Struct, frozen=True):
    """What it takes that a server has all its ports. port_ids: in the order of its NICs."""

    server_id: str
    port_ids: tuple[str, ...]
    new: tuple[NewPort, ...]
    reserved: tuple[Reserved, ...]


class ReachableSubnets(Struct, frozen=True):
    """A provider's physical network, or its cell, and its subnets where an address is to be assigned."""

    physical_network: str | None
    subnets: tuple[SubnetKind, ...] = ()
    cell: str | None = None


class Assignment(Struct, frozen=True):
    """A port is to be bound with these addresses: one for each demand, and those that follow from its MAC."""

    port_id: str
    provider_uuid: str
    demands: tuple[Demand, ...]
    automatic: tuple[Given, ...]


def is_of_server(device_owner: str) -> bool:
    """Whether it is a server's port: no others have several bindings. Source: Network API, binding-extended."""
    return device_owner.startswith(COMPUTE_OWNER)


def port_id(server_id: str, nic: seam.Nic) -> str:
    """The port of a server's NIC, whether it exists or not."""
    return nic.port_id_of(server_id)


def decide_reservations(
    servers: Sequence[seam.ServerNics],
    networks: Mapping[str, Network],
    ports: Mapping[str, Port],
    claiming: Set[str] = frozenset(),
    lost: Mapping[str, str] | None = None,
    *,
    placed: bool = False,
    make: bool = True,
) -> list[Reservation | seam.PortsRefused]:
    """For each server, in order: what to make and to reserve, or why a NIC cannot be had.

    networks, ports: those that exist, as locked by this transaction. claiming: ports that are just getting an address
    by a client's request. lost: servers whose port a client deleted during the build, which ends. placed: their hosts
    are chosen, so they get ports on flat networks too. make: False where nothing is to be made or reserved. The first
    server that wants a port gets it.
    """
    taken: dict[str, str] = {}
    answers: list[Reservation | seam.PortsRefused] = []
    for server in servers:
        reason = _refusal(server, networks, ports, taken, claiming)
        if lost and server.server_id in lost:
            reason = seam.LOST_PORT.format(lost[server.server_id])
        if reason is not None:
            answers.append(seam.PortsRefused(server.server_id, reason))
            continue
        owner = COMPUTE_OWNER + server.availability_zone
        ids = tuple(port_id(server.server_id, nic) for nic in server.nics)
        new: list[NewPort] = []
        reserved: list[Reserved] = []
        for nic, wanted in zip(server.nics, ids, strict=True):
            taken[wanted] = server.server_id
            port = ports.get(wanted)
            if port is None:
                assert nic.network_id is not None
                tag = nic.tag if networks[nic.network_id].flat else None
                if make and (placed or tag is None):
                    new.append(NewPort(wanted, nic.network_id, server.project_id, server.server_id, owner, tag))
            elif make and port.device_id != server.server_id:
                origin = PortOrigin(
                    device_id=port.device_id, device_owner=port.device_owner, host=port.host, vif_type=port.vif_type
                )
                reserved.append(Reserved(wanted, server.server_id, owner, origin))
        answers.append(Reservation(server.server_id, ids, tuple(new), tuple(reserved)))
    return answers


def refuse_over_quota(
    decided: Sequence[Reservation | seam.PortsRefused], usages: Mapping[str, QuotaUsage]
) -> list[Reservation | seam.PortsRefused]:
    """The same, without the servers whose new ports their project may not have; the first get what there is.

    usages: of the projects that have a limit.
    """
    answers: list[Reservation | seam.PortsRefused] = []
    given: dict[str, int] = {}
    for answer in decided:
        shown = [port for port in answer.new if port.nic_tag is None] if isinstance(answer, Reservation) else []
        if shown and shown[0].project_id in usages:
            project_id = shown[0].project_id
            usage = usages[project_id]
            had = given.get(project_id, 0)
            reason = quotas.refusal(msgspec.structs.replace(usage, used=usage.used + had), len(shown))
            if reason is not None:
                answers.append(seam.PortsRefused(answer.server_id, reason))
                continue
            given[project_id] = had + len(shown)
        answers.append(answer)
    return answers


def view(port: Port, nic: seam.Nic, server_id: str) -> seam.Port:
    """The port as the conductor needs to know it. An address that this very build assigned does not pin it."""
    return seam.Port(
        id=port.id,
        tag=nic.tag,
        network_id=port.network_id,
        project_id=port.project_id,
        mac_address=port.mac_address,
        revision=port.revision,
        preserve_on_delete=port.made_for is None,
        needs_address=not port.addresses and port.ip_allocation != NONE,
        host=port.host,
        addresses=tuple(item.address for item in port.addresses),
        provider_uuid=port.provider_uuid,
        pinned=any(item.assigned_for != server_id for item in port.addresses),
        is_held=port.device_id == server_id,
    )


def decide_bind(
    bind: seam.PortBind, port: Port | None, host: Host | None, providers: Mapping[str, ReachableSubnets]
) -> seam.Bound | seam.BindRefused | Assignment | None:
    """Bound: it is so already. Assignment: it may, with addresses. None: it may as it is. Else why it may not.

    providers: what stands behind the provider of the bind and of the port's addresses; for a port that claims nothing
    and has none, behind all of its network's.
    """

    def refused(reason: str, *, changed: bool = False) -> seam.BindRefused:
        return seam.BindRefused(bind.port_id, reason, changed)

    if port is None:
        return refused(f"Port {bind.port_id} is gone.")
    if port.device_id != bind.server_id:
        return refused(f"Port {port.id} does not belong to server {bind.server_id}.")
    has = port.provider_uuid
    settled = has is not None or bind.provider_uuid is None
    if port.host == bind.host and settled and bind.provider_uuid in (None, has):
        return seam.Bound(port.id, tuple(item.address for item in port.addresses), port.revision)
    if port.revision != bind.revision:
        reason = f"Port {port.id} changed meanwhile: revision {port.revision}, not {bind.revision}."
        return refused(reason, changed=True)
    if has is not None and bind.provider_uuid not in (None, has):
        return refused(f"Port {port.id} has an address on {has} already, not on {bind.provider_uuid}.")
    wanted = has or bind.provider_uuid
    if wanted is None and needs_automatic(bind, port):
        if bind.claimed:
            return refused(f"Port {port.id} has lost the address that it had.", changed=True)
        return _automatic(port, host, providers) or refused(
            f"Host {bind.host} reaches no segment of network {port.network_id} where addresses need no claim."
        )
    if wanted is None:
        return None
    behind = providers.get(wanted)
    if behind is None:
        return refused(f"There is no segment, network or pool {wanted}.")
    if not segments.reaches(host, behind.physical_network):
        return refused(f"Host {bind.host} does not reach physical network {behind.physical_network}.")
    if not segments.is_in_cell(host, behind.cell):
        return refused(f"Pool {wanted} belongs to cell {behind.cell}, and host {bind.host} to another.")
    if has is not None:
        return None
    demands = claimed_demands(port.id, bind.claimed, behind.subnets, bind.fixed_ip)
    return Assignment(port.id, wanted, tuple(demands), tuple(uses.automatic(port, behind.subnets)))


def needs_automatic(bind: seam.PortBind, port: Port) -> bool:
    """Whether a port that has no address and claims none is to get those that follow from its MAC."""
    return bind.provider_uuid is None and not port.addresses and port.ip_allocation != NONE


def _automatic(port: Port, host: Host | None, providers: Mapping[str, ReachableSubnets]) -> Assignment | None:
    """The segment that the host reaches, best one where nothing has to be claimed, with most such addresses."""
    found = [
        (not capacity.classes(behind.subnets), len(given), Assignment(port.id, uuid, (), tuple(given)))
        for uuid, behind in providers.items()
        if any(subnet.network_id == port.network_id for subnet in behind.subnets)
        and segments.reaches(host, behind.physical_network)
        and (given := uses.automatic(port, behind.subnets))
    ]
    return max(found, key=lambda item: item[:2])[2] if found else None


def list_addresses_since(port: Port, addresses_before: Sequence[str] | None) -> list[Address]:
    """Return the port's addresses that it did not have before; none where nobody knows what it had."""
    return [] if addresses_before is None else [item for item in port.addresses if item.address not in addresses_before]


def decide_parting(port: Port, *, restore: bool) -> Parting:
    """What becomes of a server's port when the server goes; see BuildClient.release_ports."""
    addresses = [(item.subnet_id, item.address) for item in port.addresses]
    if port.made_for is not None:
        return Parting(port.id, None, tuple(addresses), True)
    origin = PortOrigin()
    dropped: list[tuple[str, str]] = []
    if restore and port.reserved_from is not None:
        origin = port.reserved_from
        dropped = [(item.subnet_id, item.address) for item in port.addresses if item.assigned_for is not None]
    return Parting(port.id, origin, tuple(dropped), bool(dropped) or not addresses)


def _refusal(
    server: seam.ServerNics,
    networks: Mapping[str, Network],
    ports: Mapping[str, Port],
    taken: Mapping[str, str],
    claiming: Set[str],
) -> str | None:
    """Why the server cannot have its NICs, in one sentence; None if it can."""
    seen: set[str] = set()
    for nic in server.nics:
        wanted = port_id(server.server_id, nic)
        if wanted in seen:
            return f"Port {wanted} is named twice."
        seen.add(wanted)
        if taken.get(wanted, server.server_id) != server.server_id:
            return f"Port {wanted} is still in use."
        reason = _refusal_of_network(nic, networks) if nic.port_id is None else None
        port = ports.get(wanted)
        if nic.port_id is not None:
            reason = _refusal_of_port(server, wanted, port, claiming)
        elif port is not None and port.made_for != server.server_id:
            reason = f"Port {wanted} exists and was not made for this server."
        if reason is not None:
            return reason
    return None


def _refusal_of_network(nic: seam.Nic, networks: Mapping[str, Network]) -> str | None:
    network = networks.get(nic.network_id or "")
    if network is None:
        return f"Network {nic.network_id} could not be found."
    if not network.subnet_ids:
        return f"Network {network.id} has no subnet: create one, or name a port."
    return None


def _refusal_of_port(server: seam.ServerNics, wanted: str, port: Port | None, claiming: Set[str]) -> str | None:
    if port is None or port.project_id != server.project_id or port.hidden:
        return f"Port {wanted} could not be found."
    # Not reserved is not held: a client that gave it to the very server could go on changing it under the build.
    if port.device_id and (port.device_id != server.server_id or port.reserved_from is None):
        return f"Port {wanted} is still in use."
    if port.ip_allocation == IMMEDIATE and not port.addresses:
        return f"Port {wanted} requires a FixedIP in order to be used."
    if wanted in claiming:
        return f"Port {wanted} is being given an address: repeat the request."
    return None
