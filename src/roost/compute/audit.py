"""Decides what is drift of servers: where a server, its claim and its ports do not say the same.

About ACTIVE servers that nothing works on; who reads and repairs is `service/audit.py`.
"""

import ipaddress
from collections.abc import Mapping, Sequence

from msgspec import Struct

from roost.seams.audit import Drift, Kind
from roost.seams.compute import RequestSpec, ServerPort
from roost.seams.network import AttachedPort
from roost.seams.placement import ADDRESS_CLASSES, DISK_GB, MEMORY_MB, VCPU, Allocations


class QuietServer(Struct, frozen=True, kw_only=True):
    """An ACTIVE server that nothing works on. provider_uuid: its host's, None for a host that is not known."""

    id: str
    name: str
    project_id: str
    user_id: str
    host: str | None
    provider_uuid: str | None
    spec: RequestSpec
    ports: tuple[ServerPort, ...]


def claim_of(server: QuietServer, held: Allocations) -> dict[str, dict[str, int]]:
    """What the server holds in the ledger: on its host what it asked for, and the addresses that it holds itself.

    Those are of flat networks, whose audit is the network's.
    """
    assert server.provider_uuid is not None
    amounts = {VCPU: server.spec.vcpus, MEMORY_MB: server.spec.memory_mb, DISK_GB: server.spec.disk_gb}
    wanted = {server.provider_uuid: {name: amount for name, amount in amounts.items() if amount > 0}}
    for uuid, resources in held.items():
        addresses = {name: amount for name, amount in resources.items() if name in ADDRESS_CLASSES}
        if addresses and uuid != server.provider_uuid:
            wanted[uuid] = addresses
    return {uuid: resources for uuid, resources in wanted.items() if resources}


def judge_claim(server: QuietServer, held: Allocations) -> Drift | None:
    """Whether the server's claim is what it asked for, where it is. A host that is not known cannot be judged."""
    if server.provider_uuid is None:
        return None
    wanted = claim_of(server, held)
    if {uuid: dict(resources) for uuid, resources in held.items()} == wanted:
        return None
    says = f"claims {_show(held)}, should claim {_show(wanted)}"
    return Drift(kind=Kind.SERVER_CLAIM_WRONG, key=server.id, name=server.name, says=says)


def network_information(kept: Sequence[ServerPort], ports: Sequence[AttachedPort]) -> tuple[ServerPort, ...]:
    """What is kept with the server of its ports, as they are: those known first, in their order."""
    known = {port.port_id: port for port in kept if port.port_id}
    order = {port_id: number for number, port_id in enumerate(known)}
    return tuple(port for port in kept if not port.port_id) + tuple(
        ServerPort(
            port_id=port.id,
            tag=known[port.id].tag if port.id in known else "",
            network_id=port.network_id,
            network_name=port.network_name,
            mac_address=port.mac_address,
            addresses=tuple(sorted(port.addresses, key=lambda text: _number(text))),
            preserve_on_delete=port.preserve_on_delete,
        )
        for port in sorted(ports, key=lambda port: (order.get(port.id, len(order)), port.id))
    )


def judge_ports(server: QuietServer, ports: Sequence[AttachedPort]) -> list[Drift]:
    """Whether what is kept with the server are its ports with their addresses, and whether they are where it is."""
    found = []
    kept = {port.port_id: frozenset(port.addresses) for port in server.ports if port.port_id}
    there = {port.id: frozenset(port.addresses) for port in ports}
    if kept != there:
        says = f"has {_show_ports(kept)}, its ports are {_show_ports(there)}"
        found.append(Drift(kind=Kind.SERVER_PORTS_WRONG, key=server.id, name=server.name, says=says))
    found += [
        Drift(
            kind=Kind.PORT_ELSEWHERE,
            key=port.id,
            name=server.name,
            says=f"bound to {port.host or 'no host'}, its server {server.id} is on {server.host}",
        )
        for port in ports
        if port.host != server.host
    ]
    return found


def judge_mirror(
    host: str, wanted: frozenset[str], found: frozenset[str] | None, names: Mapping[str, str]
) -> Drift | None:
    """Whether a host's provider is in the placement aggregates of the host's aggregates; found: None without one."""
    if found is None:
        return Drift(kind=Kind.MIRROR_WRONG, key=host, name=host, says="its provider is missing")
    said = [
        f"{word} {', '.join(sorted(names.get(uuid, uuid) for uuid in uuids))}"
        for word, uuids in (("is not in", wanted - found), ("is also in", found - wanted))
        if uuids
    ]
    return Drift(kind=Kind.MIRROR_WRONG, key=host, name=host, says="; ".join(said)) if said else None


def _number(text: str) -> tuple[int, int]:
    address = ipaddress.ip_address(text)
    return address.version, int(address)


def _show(claim: Allocations) -> str:
    parts = [f"{n} {name} of {uuid}" for uuid, resources in sorted(claim.items()) for name, n in resources.items()]
    return ", ".join(parts) or "nothing"


def _show_ports(ports: Mapping[str, frozenset[str]]) -> str:
    parts = [f"{port_id} ({', '.join(sorted(addresses)) or 'no address'})" for port_id, addresses in ports.items()]
    return ", ".join(sorted(parts)) or "none"
