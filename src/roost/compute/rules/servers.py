"""What a request for servers may say, what the servers are then called, and what their status means. No I/O."""

import ipaddress
import re
from collections.abc import Sequence

from msgspec import Struct

from roost.compute.model.server import NicAsked, ServerFault
from roost.seams.network import Nic

SERVERS_MAX = 1000
"""How many servers one request can make."""

NICS_MAX = 64
TAG_LENGTH_MAX = 60

HOSTNAME_LENGTH_MAX = 63
HOSTNAME = re.compile("[a-zA-Z0-9][a-zA-Z0-9-]{0,61}[a-zA-Z0-9]")
QUALIFIED_HOSTNAME = re.compile("[a-zA-Z0-9._-]{1,255}")

POWER_STATES = {"active": 1, "paused": 3, "stopped": 4, "resized": 4, "shelved": 4, "suspended": 7}
"""OS-EXT-STS:vm_state -> what OS-EXT-STS:power_state says, 0 for others. Source: Compute API."""
CRASHED = 6


class Counts(Struct, frozen=True):
    """How many servers: at least, and at most if there is room."""

    least: int
    most: int


def read_counts(min_count: int | None, max_count: int | None) -> Counts | str:
    """Return how many servers a request means; a sentence where there is none. Source: Compute API, multiple create."""
    least = 1 if min_count is None else min_count
    most = least if max_count is None else max_count
    if least < 1 or most < 1:
        return "min_count and max_count must be at least 1."
    if least > most:
        return "min_count must be <= max_count"
    if most > SERVERS_MAX:
        return f"{most} servers were asked for: one request can make {SERVERS_MAX}."
    return Counts(least, most)


class Destination(Struct, frozen=True):
    """Where servers are to be. zone: None where none was named; host: the only one that will do."""

    zone: str | None
    host: str | None


def read_destination(availability_zone: str | None, *, host: str | None, hypervisor: str | None) -> Destination | str:
    """Return where a request wants its servers, or the sentence why that cannot be.

    availability_zone: ZONE, ZONE:HOST, ZONE:HOST:NODE or ZONE::NODE. A host has one hypervisor, of its own name.
    Whether there is such a zone is looked at with the servers.
    Source: Nova, compute/api.py, parse_availability_zone; api/openstack/compute/servers.py, its texts.
    """
    zone, *forced = (availability_zone or "").split(":")
    if len(forced) > 2:
        return f"Unable to parse availability_zone {availability_zone}: expected ZONE, ZONE:HOST or ZONE:HOST:NODE."
    named = {name for name in forced if name}
    named_apart = {name for name in (host, hypervisor) if name}
    if named and named_apart:
        return (
            "One mechanism with host and/or hypervisor_hostname and another mechanism with zone:host:node "
            "are mutually exclusive."
        )
    names = sorted(named | named_apart)
    if len(names) > 1:
        return f"{' and '.join(names)} are two hosts: a host has one hypervisor, of its own name."
    return Destination(zone or None, names[0] if names else None)


def zone_sentence(zone: str, zones: Sequence[str]) -> str:
    """Return the refusal of a zone that is none of those there are. Source: Nova, compute/api.py, its text."""
    return f"The requested availability zone is not available: {zone}. There are: {', '.join(zones)}."


def nic_problem(nics: Sequence[NicAsked], *, count: int) -> str | None:
    """Return why servers cannot have these NICs, or None. Source: Nova, api/openstack/compute/servers.py, its texts.

    count: how many servers are to have them: a port and an address can be in one server only.
    """
    if len(nics) > NICS_MAX:
        return f"{len(nics)} networks were asked for: a server can have {NICS_MAX}."
    for nic in nics:
        problem = _one_nic_problem(nic, count)
        if problem:
            return problem
    ports = [nic.port_id for nic in nics if nic.port_id]
    if len(set(ports)) < len(ports):
        return "A port can be given to a server only once."
    tags = [nic.tag for nic in nics if nic.tag is not None]
    if len(set(tags)) < len(tags):
        return "Network tags must be unique within a server."
    return None


def _one_nic_problem(nic: NicAsked, count: int) -> str | None:
    if nic.port_id is None and nic.network_id is None:
        return "Bad networks format: network uuid is not in proper format (None)"
    if nic.tag is not None and not 1 <= len(nic.tag) <= TAG_LENGTH_MAX:
        return f"A network tag has 1 to {TAG_LENGTH_MAX} characters."
    if nic.port_id and count > 1:
        return "A port belongs to one server: ask for one server at a time, each with a port of its own."
    if nic.fixed_ip is None:
        return None
    if nic.port_id:
        return f"Port {nic.port_id} has addresses of its own: leave fixed_ip {nic.fixed_ip} out."
    if count > 1:
        return "max_count cannot be greater than 1 if an fixed_ip is specified."
    try:
        address = ipaddress.ip_address(nic.fixed_ip)
    except ValueError:
        return f"Invalid fixed IP address ({nic.fixed_ip})"
    # No port has an address with a zone, and the database cannot read one.
    zoned = isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None
    return f"Invalid fixed IP address ({nic.fixed_ip})" if zoned else None


def number_nics(nics: Sequence[NicAsked]) -> tuple[Nic, ...]:
    """Return the NICs, each with a tag of its own within the server: the client's, else its place in the order.

    A port decides alone: a network named beside it is left out, as Nova does.
    """
    taken = {nic.tag for nic in nics if nic.tag is not None}
    free = (str(number) for number in range(2 * len(nics)) if str(number) not in taken)
    return tuple(
        Nic(
            tag=next(free) if nic.tag is None else nic.tag,
            network_id=None if nic.port_id else nic.network_id,
            port_id=nic.port_id,
            fixed_ip=nic.fixed_ip,
        )
        for nic in nics
    )


def server_names(name: str, count: int) -> tuple[str, ...]:
    """Return the names of the servers of one request. Source: Nova numbers them from 1 if there are several."""
    if count == 1:
        return (name,)
    return tuple(f"{name}-{number}" for number in range(1, count + 1))


def make_hostname(name: str, server_id: str) -> str:
    """Return the hostname of a server that was given none: its name as far as that can be one."""
    dashed = re.sub(r"[\s._-]+", "-", name.lower())
    label = re.sub(r"[^a-z0-9-]", "", dashed)[:HOSTNAME_LENGTH_MAX].strip("-")
    return label or f"server-{server_id}"


def hostname_problem(hostname: str, *, qualified: bool, count: int = 1) -> str | None:
    """Return why servers cannot have this hostname, or None.

    qualified: it may have a domain, as from microversion 2.94 on. count: how many servers are to have it.
    Source: Compute API, "Create Server", microversions 2.90 and 2.94.
    """
    if count > 1:
        return f"hostname={hostname}: {count} servers were asked for, and one hostname is of one server."
    if qualified and QUALIFIED_HOSTNAME.fullmatch(hostname) is None:
        return f"hostname={hostname}: expected 1 to 255 letters, digits, hyphens, dots and underscores."
    if not qualified and HOSTNAME.fullmatch(hostname) is None:
        return (
            f"hostname={hostname}: expected 2 to {HOSTNAME_LENGTH_MAX} letters, digits and hyphens, no hyphen first or "
            "last; a domain needs microversion 2.94."
        )
    return None


def fault_details(fault: ServerFault) -> str:
    """Return what there is to say beyond the message: where it failed, and how many hosts each requirement left."""
    parts = [fault.details] if fault.details else []
    if fault.host:
        parts.append(f"host: {fault.host}")
    parts += [f"{requirement}: {hosts} host{'' if hosts == 1 else 's'} left" for requirement, hosts in fault.funnel]
    return "\n".join(parts)


def power_state(vm_state: str, *, has_crashed: bool) -> int:
    """Return what OS-EXT-STS:power_state says."""
    return CRASHED if has_crashed else POWER_STATES.get(vm_state, 0)
