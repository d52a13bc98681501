"""Decides which addresses hidden ports hold for guests, and when such ports become a server's.

A guest that the records do not know runs, whatever the records say: nobody else may get its addresses. No port loses an
address to it. Nothing is claimed, because a claim could be refused. Once its server is made, the ports become the
server's and are claimed. A guest may also have addresses of a port that its server has lost.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from roost.network.errors import InvalidInput
from roost.network.model.networks import Host, ProviderSource, SubnetKind
from roost.network.model.ports import Port
from roost.network.model.unknown_guests import AdoptedPort, AdoptionPlan, HeldPort, Place
from roost.network.rules import addressing, capacity, segments
from roost.network.rules.capacity import claim_of
from roost.platform.structs import copy_as
from roost.seams import unknown_guests as seam


class HostPlan(Struct, frozen=True):
    """The hidden ports that a host's unknown guests should have, and the answer for each guest."""

    ports: tuple[HeldPort, ...]
    answers: tuple[seam.HeldAddresses, ...]


def plan_host(
    guests: Sequence[seam.UnknownGuest], host: Host | None, places_by_address: Mapping[str, Sequence[Place]]
) -> HostPlan:
    """Return the hidden ports for all unknown guests of one host. The first guest gets an address that two list.

    host: None when nobody has declared it, so that it reaches nothing. places_by_address: by canonical address.
    """
    ports: dict[str, HeldPort] = {}
    ports_by_pair: dict[tuple[str, str], HeldPort] = {}
    answers = []
    for guest in guests:
        kept, free, unknown = list[str](), list[str](), list[str]()
        taken: list[seam.AddressHolder] = []
        for nic in guest.nics:
            for address in nic.addresses:
                places = _reached(nic, host, places_by_address.get(canonical(address), ()))
                if not places:
                    unknown.append(address)
                for place in places:
                    pair = (place.subnet_id, place.address)
                    holder = _find_holder(guest, place, ports_by_pair.get(pair))
                    if holder is not None:
                        taken.append(holder)
                    else:
                        (free if place.port_id is None else kept).append(place.address)
                    if pair not in ports_by_pair:
                        holds = holder is None and (place.port_id is None or place.of_unknown_guest)
                        port = _with_place(ports, guest, nic, place, holds=holds)
                        ports[port.id] = ports_by_pair[pair] = port
        answers.append(
            copy_as(
                seam.HeldAddresses,
                guest,
                addresses_held=tuple(dict.fromkeys(kept)),
                free=tuple(dict.fromkeys(free)),
                used=tuple(taken),
                unknown=tuple(unknown),
            )
        )
    return HostPlan(tuple(ports.values()), tuple(answers))


def after_hold(answer: seam.HeldAddresses) -> seam.HeldAddresses:
    """Return the answer once the hidden ports are as planned."""
    return replace(answer, addresses_held=(*answer.addresses_held, *answer.free), free=())


def canonical(address: str) -> str:
    """Return the address as it is stored; text that is no address is returned as it is."""
    try:
        return addressing.canonical(address)
    except InvalidInput:
        return address


def list_pairs(guests: Iterable[seam.UnknownGuest]) -> list[tuple[str | None, str]]:
    """Return all addresses that the guests list, as (network id, address). Text that is no address is left out."""
    pairs: set[tuple[str | None, str]] = set()
    for guest in guests:
        for nic in guest.nics:
            for address in nic.addresses:
                with suppress(InvalidInput):
                    pairs.add((nic.network_id, addressing.canonical(address)))
    return sorted(pairs, key=lambda pair: (pair[0] or "", pair[1]))


def is_held(plan: HostPlan, listed: Mapping[str, Mapping[tuple[str, str], bool]]) -> bool:
    """Return whether the hidden ports list and have what is planned. listed: as store/unknown_guests.py returns it."""
    return listed == {port.id: port.listed for port in plan.ports}


def _reached(nic: seam.ListedNic, host: Host | None, places: Iterable[Place]) -> list[Place]:
    """Return the places that the host reaches, of the NIC's network if it names one."""
    return [
        place
        for place in places
        if host is not None and nic.network_id in (None, place.network_id) and segments.reaches(host, place)
    ]


def _find_holder(guest: seam.UnknownGuest, place: Place, planned: HeldPort | None) -> seam.AddressHolder | None:
    """Return the other server or guest that has the address, if any. planned: the hidden port that lists it."""
    if planned is not None and planned.listed[place.subnet_id, place.address]:
        is_other = planned.server_id != guest.server_id
        return copy_as(seam.AddressHolder, planned, address=place.address, port_id=planned.id) if is_other else None
    is_of_host = place.of_unknown_guest and place.host == guest.host
    is_own = place.server_id == guest.server_id and not place.of_unknown_guest
    # An address that another guest of this host held and no longer lists becomes free in the same transaction.
    if place.port_id is None or is_own or is_of_host:
        return None
    return copy_as(seam.AddressHolder, place, port_id=place.port_id, host=place.host or "")


def _with_place(
    ports: Mapping[str, HeldPort], guest: seam.UnknownGuest, nic: seam.ListedNic, place: Place, *, holds: bool
) -> HeldPort:
    """Return the hidden port of the guest's NIC on the place's provider, with the address listed.

    holds: the port has the address too; else another port has it still.
    """
    name = f"{guest.host} {place.network_id} {place.provider_uuid} {nic.mac_address}"
    port_id = str(uuid.uuid5(uuid.UUID(guest.server_id), name))
    port = ports.get(port_id) or copy_as(
        HeldPort,
        place,
        id=port_id,
        server_id=guest.server_id,
        host=guest.host,
        mac_address=nic.mac_address,
        listed={},
    )
    return replace(port, listed={**port.listed, (place.subnet_id, place.address): holds})


def plan_adoption(
    adoption: seam.Adoption, ports: Collection[Port], subnets_by_id: Mapping[str, SubnetKind]
) -> AdoptionPlan:
    """Return which ports become, or are already, those of the server's NICs; or why the guest cannot be adopted.

    ports: locked; all that hold an address of the guest, all of its server's, and those with an id that a NIC names.
    """
    own = {port.id: port for port in ports if port.device_id == adoption.server_id}
    adopted, bound = [], []
    for nic in adoption.nics:
        addresses = {canonical(address) for address in nic.addresses}
        holders = [port for port in ports if addresses & {item.address for item in port.addresses}]
        if nic.port_id in own and holders in ([own[nic.port_id]], []):
            if {item.address for item in own[nic.port_id].addresses} != addresses:
                return _refused(nic, f"port {nic.port_id} of its server has other addresses")
            bound.append(nic.port_id)
            continue
        hidden = [port for port in holders if port.of_unknown_guest and port.made_for == adoption.server_id]
        if len(hidden) != 1 or len(holders) != 1:
            return _refused(nic, "no single port holds its addresses")
        (port,) = hidden
        if (port.host, port.network_id) != (adoption.host, nic.network_id):
            return _refused(nic, f"they are held on another host, or of another network than {nic.network_id}")
        if any(other.id == nic.port_id for other in ports):
            return _refused(nic, f"there is another port {nic.port_id}")
        if port.mac_address != nic.mac_address:
            return _refused(nic, f"its MAC address {nic.mac_address} is another port's")
        adopted.append(
            AdoptedPort(
                hidden_id=port.id,
                id=nic.port_id,
                made_by_roost=nic.made_by_roost,
                nic_tag=nic.tag if subnets_by_id[port.addresses[0].subnet_id].is_pool else None,
                addresses=tuple(
                    replace(
                        item,
                        port_id=nic.port_id,
                        claimed=item.in_pool and capacity.claimed_by_ports(subnets_by_id[item.subnet_id]),
                    )
                    for item in port.addresses
                ),
            )
        )
    if extra := sorted(own.keys() - set(bound)):
        return AdoptionPlan(refusal=f"port {', '.join(extra)} of its server is none of the guest's NICs")
    return AdoptionPlan(tuple(adopted), tuple(bound))


def claims_of(plan: AdoptionPlan) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, dict[str, int]]]]:
    """Return what the server itself claims of flat networks' pools, and what each adopted port claims, by port id."""
    on_flat = [item for port in plan.adopted if port.nic_tag is not None for item in port.addresses]
    by_port = {port.id: claim for port in plan.adopted if (claim := claim_of(port.addresses))}
    return claim_of(replace(item, claimed=item.in_pool) for item in on_flat), by_port


def without_reserved(source: ProviderSource, adopted: Iterable[AdoptedPort]) -> ProviderSource:
    """Return the provider with fewer unclaimed addresses: those of the adopted ports are claimed from now on."""
    holdings = dict(source.holdings)
    for port in adopted:
        for item in port.addresses:
            counts = holdings.get(item.subnet_id)
            if item.in_pool and counts is not None and counts.unclaimed_inside:
                holdings[item.subnet_id] = replace(counts, unclaimed_inside=counts.unclaimed_inside - 1)
    return replace(source, holdings=holdings)


def _refused(nic: seam.AdoptedNic, why: str) -> AdoptionPlan:
    return AdoptionPlan(refusal=f"NIC {nic.tag} with {' and '.join(nic.addresses) or 'no address'}: {why}")
