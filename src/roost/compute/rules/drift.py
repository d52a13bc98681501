"""Decides what is drift of servers: where a server, its claim and its ports do not say the same.

About ACTIVE servers that nothing works on; who reads and repairs is `service/audit.py`.
"""

import ipaddress
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from roost.compute.model.agents import AgentClash
from roost.compute.model.cloud import Host
from roost.compute.model.server import QuietServer, ServerNetwork
from roost.compute.model.work import EARLY
from roost.platform.drift import Drift, Kind, RepairedBy
from roost.seams.compute import ServerPort
from roost.seams.network import AttachedPort, HostReach
from roost.seams.placement import (
    ADDRESS_CLASSES,
    DISK_GB,
    MEMORY_MB,
    VCPU,
    Allocations,
    ProviderState,
    show_allocations,
)

HOST_CLASSES = (VCPU, MEMORY_MB, DISK_GB)

# fmt: off
HOST_WRONG = Kind("host-wrong",
    "a host is not what it was reported to be: its provider, or what the network service knows of it",
    "published again")
HOST_OLD = Kind("host-old", "a host is closed, since its agent is of a service version that is too low",
    "by you: start a newer agent, or lower [compute] service_version_min", RepairedBy.PERSON)
HOST_IDLE = Kind("host-idle", "a host is closed, since its agent polls and began none of its last launches",
    "by you: look why on the host; Roost tries it again by itself", RepairedBy.PERSON)
MIRROR_WRONG = Kind("mirror-wrong", "the provider of a host is not in the placement aggregates of its host aggregates",
    "set again")
GUEST_STRAY = Kind("guest-stray", "a host has a guest of a server that is not there, or is elsewhere",
    "destroyed by its agent", RepairedBy.ASKED)
GUEST_MISSING = Kind("guest-missing", "the host of a server has no guest of it",
    "by you: delete the server", RepairedBy.PERSON)
GUEST_UNKNOWN = Kind("guest-unknown",
    "a host has a guest that this database does not know, as after the restore of an older one",
    "by you: on the host, or with roost-manage guests adopt or destroy", RepairedBy.PERSON)
ADDRESS_TWICE = Kind("address-used-twice", "an unknown guest has an address that another port has too",
    "by you: destroy one of the two guests, or give one another address", RepairedBy.PERSON)
WENT_BACK = Kind("records-went-back",
    "the records went back in time, and do not know yet what all hosts have",
    "by you, if a host that is alive lists nothing: roost-manage recovery end", RepairedBy.PERSON)
AGENT_TWICE = Kind("agent-twice", "two agents run with one state directory, or a copy of it, and neither is served",
    "by you: stop one of them", RepairedBy.PERSON)
SERVER_CLAIM_STRAY = Kind("server-claim-stray", "a claim is of a server that may hold none", "given back")
SERVER_CLAIM_WRONG = Kind("server-claim-wrong", "an ACTIVE server's claim is missing, or is not what it asked for",
    "claimed anew, if there is room")
PORT_ELSEWHERE = Kind("port-elsewhere", "a port is bound to another host than its server is on",
    "by you", RepairedBy.PERSON)
SERVER_PORTS_WRONG = Kind("server-ports-wrong",
    "an ACTIVE server's network information is not its ports, or its flat addresses", "written anew")
# fmt: on


def judge_clash(clash: AgentClash) -> Drift:
    """Return the drift of two starts of one agent that both speak; its id is nobody's to know."""
    started, heard = (time.isoformat(timespec="seconds") for time in (clash.since, clash.former_at))
    return AGENT_TWICE.drift(
        clash.label or "an agent without a label",
        f"started at {started}, while {clash.former_label or 'an older one without a label'} runs, heard at {heard}",
    )


def claim_of(server: QuietServer, claim_held: Allocations) -> dict[str, dict[str, int]]:
    """Return what the server should hold: its size on its host, what its flavor asks for, and addresses of its own.

    Those are of flat networks, whose audit is the network's. What a flavor asks for beside its size may be on any
    provider of the host's tree, or on one that serves the host: it stays there, and what is missing is the host's.
    """
    assert server.provider_uuid is not None
    amounts_asked: Counter[str] = Counter(server.spec.host_resources)
    for group in server.spec.flavor_groups:
        if group.suffix:
            amounts_asked.update(dict(group.resources))
    own = {name: amounts_asked.pop(name) for name in HOST_CLASSES if name in amounts_asked}
    claim: dict[str, dict[str, int]] = {server.provider_uuid: own}
    for uuid, resources in claim_held.items():
        for name, amount in resources.items():
            kept = min(amount, amounts_asked[name])
            if name in ADDRESS_CLASSES and uuid != server.provider_uuid:
                kept = amount
            elif kept > 0:
                amounts_asked[name] -= kept
            if kept > 0:
                claim.setdefault(uuid, {})[name] = kept
    for name, missing in amounts_asked.items():
        if missing > 0:
            own[name] = own.get(name, 0) + missing
    return {uuid: resources for uuid, resources in claim.items() if resources}


def judge_claim(server: QuietServer, claim_held: Allocations) -> Drift | None:
    """Return the drift of a claim that is not what the server asked for, where it is; none on a host not known."""
    if server.provider_uuid is None:
        return None
    claim_wanted = claim_of(server, claim_held)
    if {uuid: dict(resources) for uuid, resources in claim_held.items()} == claim_wanted:
        return None
    says = f"claims {show_allocations(claim_held)}, should claim {show_allocations(claim_wanted)}"
    return SERVER_CLAIM_WRONG.drift(server.id, says, name=server.name)


def own_ports(project_id: str, ports: Sequence[AttachedPort]) -> tuple[AttachedPort, ...]:
    """Return the ports of this project: a port of another that names the server as its device is none of its NICs.

    Source: Nova, nova/network/neutron.py, which lists a server's ports by its project too.
    """
    return tuple(port for port in ports if port.project_id in (None, project_id))


def network_information(server: ServerNetwork, ports: Sequence[AttachedPort]) -> tuple[ServerPort, ...]:
    """Return what is to be kept with the server of its ports: those known first, in their order, then its NICs."""
    known = {_key(port.port_id, port.tag): port for port in server.ports}
    nics = server.spec.nics
    tags = {key: nic.tag for nic in nics for key in (nic.port_id_of(server.id), _key(None, nic.tag))}
    order = {key: number for number, key in enumerate((*known, *(key for key in tags if key not in known)))}
    port_maker = (server.order or EARLY).port_maker
    return tuple(
        _information(known.get(key), port, tags.get(key, port.tag), port_maker if key in tags else "roost")
        for key, port in sorted(
            ((_key(port.id, port.tag), port) for port in ports),
            key=lambda pair: (order.get(pair[0], len(order)), pair[0]),
        )
    )


def _information(kept: ServerPort | None, port: AttachedPort, tag: str, port_maker: str) -> ServerPort:
    """Return what is kept of a port as it is; a revision alone is no change."""
    now = ServerPort(
        port_id=port.id,
        tag=kept.tag if kept else tag,
        network_id=port.network_id,
        network_name=port.network_name,
        mac_address=port.mac_address,
        addresses=tuple(sorted(port.addresses, key=lambda text: _number(text))),
        preserve_on_delete=port.preserve_on_delete,
        segment=port.provider_uuid,
        created_by="user" if port.preserve_on_delete else port_maker,
        binding="bound" if port.host is not None or port.id is None else "unbound",
        revision=port.revision,
    )
    return kept if kept is not None and kept == replace(now, revision=kept.revision) else now


def judge_ports(server: QuietServer, ports: Sequence[AttachedPort]) -> list[Drift]:
    """Return the drift of what is kept with the server of its ports, and of ports that are not where it is."""
    drifts = []
    facts_kept = {_key(port.port_id, port.tag): _facts(port) for port in server.ports}
    facts_of_ports = {_key(port.id, port.tag): _facts(port) for port in ports}
    if facts_kept != facts_of_ports:
        says = f"has {_show_ports(facts_kept)}, its ports are {_show_ports(facts_of_ports)}"
        drifts.append(SERVER_PORTS_WRONG.drift(server.id, says, name=server.name))
    drifts += [
        PORT_ELSEWHERE.drift(
            port.id,
            f"bound to {port.host or 'no host'}, its server {server.id} is on {server.host}",
            name=server.name,
        )
        for port in ports
        if port.id is not None and port.host != server.host
    ]
    return drifts


def _key(port_id: str | None, tag: str) -> str:
    """Return what names a NIC: its port, or on a flat network its tag."""
    return port_id or f"NIC {tag}"


def _facts(port: ServerPort | AttachedPort) -> frozenset[str]:
    """Return what is to be the same, in words; a network may have another name by now."""
    kept = ("kept on delete",) if port.preserve_on_delete else ()
    return frozenset((*port.addresses, port.mac_address, *kept))


def judge_host(
    host: Host,
    state_wanted: ProviderState,
    state_found: ProviderState | None,
    reach_told: HostReach | None,
    *,
    ratios: Mapping[str, float] | None = None,
) -> Drift | None:
    """Return the drift of a host that the ledger or the network service has otherwise than it is.

    state_found, reach_told: None where they have none. ratios: resource class -> the allocation ratio that the host's
    aggregates say. Other ratios, and what part of an inventory is reserved, are an operator's.
    """
    differences = []
    if state_found is None:
        differences.append("its provider is missing")
    else:
        has, should = _sizes(state_found), _sizes(state_wanted)
        managed = state_wanted.managed_traits or frozenset()
        closed = (state_found.traits or frozenset()) & managed
        if state_found.name != state_wanted.name:
            differences.append(f"the name of its provider is {state_found.name}")
        if has != should:
            differences.append(f"its provider has {_show_sizes(has)}, should have {_show_sizes(should)}")
        for name, ratio in sorted((ratios or {}).items()):
            inventory = (state_found.inventories or {}).get(name)
            if inventory is not None and inventory.allocation_ratio != ratio:
                differences.append(
                    f"the ratio of {name} is {inventory.allocation_ratio:g}, its aggregates say {ratio:g}"
                )
        if closed != state_wanted.traits:
            differences.append(f"{'has' if closed else 'lacks'} the traits {', '.join(sorted(managed))}")
    reach = HostReach(frozenset(host.physical_networks), host.cell)
    if reach_told is None:
        differences.append("the network service does not know it")
    elif reach_told != reach:
        differences.append(f"the network service has it {_show_reach(reach_told)}, it is {_show_reach(reach)}")
    return HOST_WRONG.drift(host.name, "; ".join(differences), name=host.name) if differences else None


def judge_mirror(
    host: str, wanted_uuids: frozenset[str], found_uuids: frozenset[str], names: Mapping[str, str]
) -> Drift | None:
    """Return the drift of a host's provider that is not in the placement aggregates of the host's aggregates."""
    differences = [
        f"{word} {', '.join(sorted(names.get(uuid, uuid) for uuid in uuids))}"
        for word, uuids in (
            ("is not in", wanted_uuids - found_uuids),
            ("is also in", found_uuids - wanted_uuids),
        )
        if uuids
    ]
    return MIRROR_WRONG.drift(host, "; ".join(differences), name=host) if differences else None


def _number(text: str) -> tuple[int, int]:
    address = ipaddress.ip_address(text)
    return address.version, int(address)


def _sizes(state: ProviderState) -> dict[str, tuple[int, int, int, int]]:
    """Return resource class of hosts -> total, min_unit, max_unit, step_size."""
    return {
        name: (item.total, item.min_unit, item.max_unit, item.step_size)
        for name, item in sorted((state.inventories or {}).items())
        if name in HOST_CLASSES
    }


def _show_sizes(sizes: Mapping[str, tuple[int, int, int, int]]) -> str:
    parts = [f"{total} {name} ({least} to {most} by {step})" for name, (total, least, most, step) in sizes.items()]
    return ", ".join(parts) or "no inventory"


def _show_reach(reach: HostReach) -> str:
    return f"in cell {reach.cell} on {', '.join(sorted(reach.physical_networks)) or 'no physical network'}"


def _show_ports(ports: Mapping[str, frozenset[str]]) -> str:
    parts = [f"{key} ({', '.join(sorted(facts))})" for key, facts in ports.items()]
    return ", ".join(sorted(parts)) or "none"
