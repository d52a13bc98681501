"""Decides which ports a server's build may have, and what binding and release change of a port.

`addressing` decides which address a port gets. The ledger decides whether there is one.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from roost.network.model.networks import Host, Network, Provider
from roost.network.model.ports import VIF_TYPE_UNBOUND, Address, Given, Parting, Port, PortOrigin
from roost.network.model.unknown_guests import LeftNic
from roost.network.rules import capacity, quotas, segments, uses
from roost.network.rules.addressing import Demand
from roost.network.rules.requests import DEFERRED, IMMEDIATE, NONE, claimed_demands
from roost.platform.quotas import QuotaUsage
from roost.platform.structs import copy_as
from roost.seams import network as seam
from roost.seams.service_types import COMPUTE_OWNER


class Reservation(Struct, frozen=True):
    """What to make and to reserve for a server to have all its ports. port_ids: in the order of its NICs.

    reserved: users' ports as they are from then on.
    """

    server_id: str
    port_ids: tuple[str, ...]
    new: tuple[Port, ...]
    reserved: tuple[Port, ...]


class Assignment(Struct, frozen=True):
    """A port is to be bound with one address for each demand, and with its EUI-64 addresses."""

    port_id: str
    provider_uuid: str
    demands: tuple[Demand, ...]
    automatic: tuple[Given, ...]


def decide_reservations(
    servers: Sequence[seam.ServerNics],
    networks: Mapping[str, Network],
    ports: Mapping[str, Port],
    claiming: Set[str] = frozenset(),
    refused: Mapping[str, str] = {},
    *,
    now: datetime,
    placed: bool = False,
    make: bool = True,
) -> list[Reservation | seam.PortsRefused]:
    """Return for each server, in order, what to make and to reserve, or why it cannot have a NIC.

    The first server that wants a port gets it.
    networks, ports: those that exist, locked. claiming: ports for which a client's request is claiming an address.
    refused: server id -> why it cannot have its NICs, whatever its ports are. placed: the servers have hosts, so ports
    on flat networks are made too. make: False to make and reserve nothing.
    """
    taken: dict[str, str] = {}
    answers: list[Reservation | seam.PortsRefused] = []
    for server in servers:
        reason = refused.get(server.server_id) or _refusal(server, networks, ports, taken, claiming)
        if reason is not None:
            answers.append(seam.PortsRefused(server.server_id, reason))
            continue
        ids = tuple(nic.port_id_of(server.server_id) for nic in server.nics)
        new: list[Port] = []
        reserved: list[Port] = []
        for nic, nic_port_id in zip(server.nics, ids, strict=True):
            taken[nic_port_id] = server.server_id
            port = ports.get(nic_port_id)
            if port is None:
                assert nic.network_id is not None
                network = networks[nic.network_id]
                if make and (placed or not network.flat):
                    new.append(_made(nic_port_id, nic, server, network, now))
            elif make and port.device_id != server.server_id:
                reserved.append(_reserved(port, server))
        answers.append(Reservation(server.server_id, ids, tuple(new), tuple(reserved)))
    return answers


def _made(port_id: str, nic: seam.Nic, server: seam.ServerNics, network: Network, now: datetime) -> Port:
    """Return the port that Roost makes for a NIC, reserved for the server's build."""
    return Port(
        id=port_id,
        network_id=network.id,
        project_id=server.project_id,
        device_id=server.server_id,
        device_owner=COMPUTE_OWNER + server.availability_zone,
        made_for=server.server_id,
        nic_tag=nic.tag if network.flat else None,
        ip_allocation=DEFERRED,
        reserved_from=PortOrigin(),
        port_security_enabled=network.port_security_enabled,
        created_at=now,
        updated_at=now,
    )


def _reserved(port: Port, server: seam.ServerNics) -> Port:
    """Return a user's port as a server's build reserves it.

    A port that Roost made for another server, and that a client detached, becomes the user's own. A bound port is
    unbound until the build binds it. So the server of a reserved port that is bound runs.
    """
    return replace(
        port,
        device_id=server.server_id,
        device_owner=COMPUTE_OWNER + server.availability_zone,
        reserved_from=copy_as(PortOrigin, port),
        made_for=None,
        host=None,
        vif_type=VIF_TYPE_UNBOUND,
    )


def refuse_over_quota(
    decided: Sequence[Reservation | seam.PortsRefused], usages: Mapping[str, QuotaUsage]
) -> list[Reservation | seam.PortsRefused]:
    """Return the decisions, with a refusal for each server whose new ports exceed its project's quota.

    The first servers get what there is. usages: by project, of those that have a limit.
    """
    shown = [
        [port for port in answer.new if port.nic_tag is None] if isinstance(answer, Reservation) else []
        for answer in decided
    ]
    wants = [(ports[0].project_id if ports else "", len(ports)) for ports in shown]
    return [
        answer if reason is None else seam.PortsRefused(answer.server_id, reason)
        for answer, reason in zip(decided, quotas.grant(usages, wants), strict=True)
    ]


def view(port: Port, nic: seam.Nic, server_id: str) -> seam.Port:
    """Return the port as the conductor needs to know it. An address that this very build assigned does not pin it."""
    return copy_as(
        seam.Port,
        port,
        tag=nic.tag,
        preserve_on_delete=port.made_for is None,
        needs_address=not port.addresses and port.ip_allocation != NONE,
        addresses=tuple(item.address for item in port.addresses),
        provider_uuid=port.provider_uuid,
        pinned=any(item.assigned_for != server_id for item in port.addresses),
        is_held=port.device_id == server_id,
    )


def planned_port(server: seam.ServerNics, nic: seam.Nic, port_id: str) -> seam.Port:
    """Return the port that a NIC gets once the server's host is known: on a flat network, or made by the agent."""
    return seam.Port(
        id=port_id,
        tag=nic.tag,
        network_id=nic.network_id or "",
        project_id=server.project_id,
        mac_address="",
        revision=0,
        preserve_on_delete=False,
        needs_address=True,
        is_held=False,
    )


def decide_bind(
    bind: seam.PortBind, port: Port | None, host: Host | None, providers: Mapping[str, Provider]
) -> seam.Bound | seam.BindRefused | Assignment | None:
    """Return what a bind changes of a port, or why it is refused.

    Bound: nothing, since it is bound so already. Assignment: the port gets its host and addresses. None: it gets its
    host only. providers: by UUID, the bind's and that of the port's addresses; all of the network's for a port that
    needs_automatic.
    """

    def refused(reason: str, *, changed: bool = False) -> seam.BindRefused:
        return seam.BindRefused(bind.port_id, reason, changed)

    if port is None:
        return refused(f"Port {bind.port_id} is gone.")
    if port.device_id != bind.server_id:
        return refused(f"Port {port.id} does not belong to server {bind.server_id}.")
    has = port.provider_uuid
    if port.host == bind.host and bind.provider_uuid in (None, has):
        return seam.Bound(port.id, tuple(item.address for item in port.addresses), port.revision)
    if port.revision != bind.revision:
        reason = f"Port {port.id} changed meanwhile: revision {port.revision}, not {bind.revision}."
        return refused(reason, changed=True)
    if has is not None and bind.provider_uuid not in (None, has):
        return refused(f"Port {port.id} has an address on {has} already, not on {bind.provider_uuid}.")
    provider_uuid = has or bind.provider_uuid
    if provider_uuid is None and needs_automatic(bind, port):
        if bind.claimed:
            return refused(f"Port {port.id} has lost the address that it had.", changed=True)
        return _automatic(port, host, providers) or refused(
            f"Host {bind.host} reaches no segment of network {port.network_id} where addresses need no claim."
        )
    if provider_uuid is None:
        return None
    provider = providers.get(provider_uuid)
    if provider is None:
        return refused(f"There is no segment, network or pool {provider_uuid}.")
    unreached = segments.find_refusal(bind.host, host, provider)
    if unreached is not None:
        return refused(unreached)
    if has is not None:
        return None
    demands = claimed_demands(port.id, bind.claimed, provider.subnets, bind.fixed_ip)
    return Assignment(port.id, provider_uuid, tuple(demands), tuple(uses.automatic(port, provider.subnets)))


def needs_automatic(bind: seam.PortBind, port: Port) -> bool:
    """Return whether the port has no address, and is to be bound without a claim: with EUI-64 addresses alone."""
    return bind.provider_uuid is None and not port.addresses and port.ip_allocation != NONE


def _automatic(port: Port, host: Host | None, providers: Mapping[str, Provider]) -> Assignment | None:
    """Return the port's EUI-64 addresses on the best provider of its network that the host reaches; None for none.

    A provider where nothing has to be claimed is better, then one with more such addresses.
    """
    choices = [
        (not capacity.classes(provider.subnets), len(addresses), Assignment(port.id, uuid, (), tuple(addresses)))
        for uuid, provider in providers.items()
        if any(subnet.network_id == port.network_id for subnet in provider.subnets)
        and segments.reaches(host, provider)
        and (addresses := uses.automatic(port, provider.subnets))
    ]
    return max(choices, key=lambda choice: choice[:2])[2] if choices else None


def list_addresses_since(port: Port, addresses_before: Sequence[str] | None) -> list[Address]:
    """Return the port's addresses that it did not have before; none if those are unknown (None)."""
    return [] if addresses_before is None else [item for item in port.addresses if item.address not in addresses_before]


def decide_parting(port: Port, *, restore: bool) -> Parting:
    """Return what becomes of a server's port when the server goes; see BuildClient.release_ports."""
    if port.made_for is not None:
        return Parting(port.id, None, port.addresses, True)
    origin = PortOrigin()
    dropped: list[Address] = []
    if restore and port.reserved_from is not None:
        origin = port.reserved_from
        dropped = [item for item in port.addresses if item.assigned_for is not None]
    return Parting(port.id, origin, tuple(dropped), bool(dropped) or not port.addresses)


def _refusal(
    server: seam.ServerNics,
    networks: Mapping[str, Network],
    ports: Mapping[str, Port],
    taken: Mapping[str, str],
    claiming: Set[str],
) -> str | None:
    """Return why the server cannot have its NICs, in one sentence; None if it can."""
    seen: set[str] = set()
    for nic in server.nics:
        nic_port_id = nic.port_id_of(server.server_id)
        if nic_port_id in seen:
            return f"Port {nic_port_id} is named twice."
        seen.add(nic_port_id)
        if taken.get(nic_port_id, server.server_id) != server.server_id:
            return f"Port {nic_port_id} is still in use."
        port = ports.get(nic_port_id)
        if nic.port_id is not None:
            reason = _refusal_of_port(server, nic_port_id, port, claiming)
        elif port is not None and port.made_for != server.server_id:
            reason = f"Port {nic_port_id} exists and was not made for this server."
        else:
            reason = _refusal_of_network(nic, networks)
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


def _refusal_of_port(server: seam.ServerNics, nic_port_id: str, port: Port | None, claiming: Set[str]) -> str | None:
    if port is None or port.project_id != server.project_id or port.hidden:
        return f"Port {nic_port_id} could not be found."
    # A port that is the server's but not reserved was given to it by a client, who could change it under the build.
    if port.device_id and (port.device_id != server.server_id or port.reserved_from is None):
        return f"Port {nic_port_id} is still in use."
    if port.ip_allocation == IMMEDIATE and not port.addresses:
        return f"Port {nic_port_id} requires a FixedIP in order to be used."
    if nic_port_id in claiming:
        return f"Port {nic_port_id} is being given an address: repeat the request."
    return None


def find_plugged(left: Iterable[LeftNic], servers_by_port: Mapping[str, str]) -> dict[str, str]:
    """Return port id -> why it cannot be the server's yet: another server's guest may still have its NIC.

    left: guests that may have addresses of these ports.
    """
    return {
        nic.port_id: f"Port {nic.port_id} is still in use: server {nic.server_id} has let it go, and host {nic.host} "
        "has not said yet that its guest has."
        for nic in left
        if servers_by_port.get(nic.port_id, nic.server_id) != nic.server_id
    }
