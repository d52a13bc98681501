"""Decides which segments a host reaches, and which host aggregates it is in. Finds what nobody can use for that reason.

The hosts that report a segment's physical network reach it. All hosts reach a segment without one. A network without
segments is like a segment. The hosts of a cell reach its pools of flat networks.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from roost.network.model.networks import FLAT_NAME, PLAIN_NAME, Host, Provider, ProviderSource
from roost.network.model.unknown_guests import Place
from roost.platform.grouping import grouped
from roost.seams.compute import HostAggregateState
from roost.seams.placement import SEGMENT_NAME

SUBNETS_SHOWN = 3
"""CIDRs of a segment that a sentence lists."""
_NAMESPACE = uuid.UUID("6f2c1c0e-5c0b-5d0a-9a53-726f6f737400")


def provider_name(source: ProviderSource) -> str:
    """Return the name of the resource provider. Source: Neutron's segments plugin."""
    if source.is_pool:
        return FLAT_NAME.format(source.provider_uuid)
    return (SEGMENT_NAME if source.routed else PLAIN_NAME).format(source.provider_uuid)


def host_aggregate(source: ProviderSource) -> HostAggregateState:
    """Return the host aggregate of a segment or pool, or of a plain network's physical network."""
    if source.routed or source.is_pool:
        return HostAggregateState(segment_aggregate_uuid(source.provider_uuid), provider_name(source))
    return plain_aggregate(source.physical_network)


def plain_aggregate(physical_network: str | None) -> HostAggregateState:
    """Return the host aggregate of all plain networks on a physical network; None for that of all hosts."""
    if physical_network is None:
        return HostAggregateState(_derived("all-hosts"), "all-hosts")
    return HostAggregateState(_derived(f"physical-network:{physical_network}"), f"Physical network {physical_network}")


def is_plain_aggregate(aggregate: HostAggregateState) -> bool:
    """Return whether the host aggregate is one of plain networks, of whatever physical network."""
    physical_network = aggregate.name.removeprefix(plain_aggregate("").name)
    return aggregate in (plain_aggregate(None), plain_aggregate(physical_network))


def segment_aggregate_uuid(segment_id: str) -> str:
    """Return the UUID of the host aggregate of a segment or of a flat network's pool, derived from its id."""
    return _derived(f"segment:{segment_id}")


def reaches(host: Host | None, place: Provider | Place) -> bool:
    """Return whether the host reaches the place's physical network, or is in its cell. It reaches one with neither."""
    if place.cell is not None:
        return host is not None and host.cell == place.cell
    return place.physical_network is None or (host is not None and place.physical_network in host.physical_networks)


def find_refusal(host_name: str, host: Host | None, provider: Provider) -> str | None:
    """Return why a port with addresses of the provider cannot be on the host, in one sentence; None if it can."""
    if reaches(host, provider):
        return None
    if provider.is_pool:
        return f"Pool {provider.provider_uuid} belongs to cell {provider.cell}, and host {host_name} to another."
    return f"Host {host_name} does not reach physical network {provider.physical_network}."


def aggregates_by_host(hosts: Iterable[Host], sources: Sequence[ProviderSource]) -> Mapping[str, frozenset[str]]:
    """Return host name -> the UUIDs of the sources' host aggregates that the host should be in."""
    places = {(source.cell, source.physical_network, host_aggregate(source).uuid) for source in sources}
    by_cell = grouped((cell, uuid) for cell, _, uuid in places)
    by_physical_network = grouped((name, uuid) for cell, name, uuid in places if cell is None)
    return {
        host.name: frozenset(by_cell.get(host.cell, ())).union(
            *(by_physical_network.get(name, ()) for name in (None, *host.physical_networks))
        )
        for host in hosts
    }


@lru_cache(maxsize=1 << 14)
def _derived(name: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, name))


def find_gaps(hosts: Sequence[Host], sources: Iterable[ProviderSource]) -> list[str]:
    """Return a sentence for each segment, network or pool that no host reaches, and for each host that reaches none."""
    everything = [source for source in sources if source.subnets]
    reached_by_host = aggregates_by_host(hosts, everything)
    reached = frozenset[str]().union(*reached_by_host.values())
    unreached = [source for source in everything if host_aggregate(source).uuid not in reached]
    unconnected = sorted(host.name for host in hosts if everything and not reached_by_host[host.name])
    return [
        *(f"no host reaches {_describe(source)}: {_remedy(source)}" for source in unreached),
        *(f"host {name} reaches no network: have its agent report a physical network of one" for name in unconnected),
    ]


def _describe(source: ProviderSource) -> str:
    kind = "the pool of cell" if source.is_pool else "segment" if source.routed else "network"
    cidrs = [subnet.cidr for subnet in source.subnets]
    more = ["..."] if len(cidrs) > SUBNETS_SHOWN else []
    return f"{kind} {source.cell or source.provider_uuid} ({', '.join([*cidrs[:SUBNETS_SHOWN], *more])})"


def _remedy(source: ProviderSource) -> str:
    if source.is_pool:
        return f"start an agent with --cell {source.cell}"
    if source.physical_network is not None:
        return f"have an agent report physical network {source.physical_network}"
    return "start an agent"
