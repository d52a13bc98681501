"""Decides whether hidden ports of an unknown guest can become its server's ports, and what is claimed for them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from roost.network.model.networks import ProviderSource, SubnetKind
from roost.network.model.ports import Port
from roost.network.model.unknown_guests import AdoptedPort, AdoptionPlan
from roost.network.rules import capacity
from roost.network.rules.holdings import claim_of
from roost.network.rules.unknown_guests import canonical
from roost.seams.placement import IPV4_ADDRESS
from roost.seams.unknown_guests import AdoptedNic, Adoption


def plan_adoption(
    adoption: Adoption,
    ports: Collection[Port],
    subnets_by_id: Mapping[str, SubnetKind],
    flat_networks: Collection[str] = frozenset(),
) -> AdoptionPlan:
    """Return which hidden ports become the server's and which ports are so already, or why a NIC has none.

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
                nic_tag=nic.tag if nic.network_id in flat_networks else None,
                mac_address=nic.mac_address,
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


def claims_of(
    plan: AdoptionPlan, pool_ids: Collection[str]
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, dict[str, int]]]]:
    """Return what the server itself claims of flat networks' pools, and what each adopted port claims, by port id."""
    pooled = [item.provider_uuid for port in plan.adopted for item in port.addresses if item.in_pool]
    amounts = Counter(uuid for uuid in pooled if uuid in pool_ids)
    by_port = {port.id: claim for port in plan.adopted if (claim := claim_of(port.addresses))}
    return {uuid: {IPV4_ADDRESS: amount} for uuid, amount in amounts.items()}, by_port


def without_reserved(source: ProviderSource, adopted: Iterable[AdoptedPort]) -> ProviderSource:
    """Return the provider with fewer unclaimed addresses: those of the adopted ports are claimed from now on."""
    holdings = dict(source.holdings)
    for port in adopted:
        for item in port.addresses:
            counts = holdings.get(item.subnet_id)
            if item.in_pool and counts is not None and counts.unclaimed_inside:
                holdings[item.subnet_id] = replace(counts, unclaimed_inside=counts.unclaimed_inside - 1)
    return replace(source, holdings=holdings)


def _refused(nic: AdoptedNic, why: str) -> AdoptionPlan:
    return AdoptionPlan(refusal=f"NIC {nic.tag} with {' and '.join(nic.addresses) or 'no address'}: {why}")
