"""Finds gaps in the layout of networks: what nobody can use although all records agree."""

from collections.abc import Iterable, Sequence

from roost.network.model.networks import Host, ProviderSource
from roost.network.rules import segments

SUBNETS_SHOWN = 3


def find_gaps(hosts: Sequence[Host], sources: Iterable[ProviderSource]) -> list[str]:
    """Return a sentence for each segment, network or pool that no host reaches, and for each host that reaches none."""
    everything = [source for source in sources if source.subnets]
    reached_by_host = segments.aggregates_by_host(hosts, everything)
    reached = frozenset[str]().union(*reached_by_host.values())
    unreached = [source for source in everything if segments.host_aggregate(source).uuid not in reached]
    unconnected = sorted(host.name for host in hosts if everything and not reached_by_host[host.name])
    return [
        *(f"no host reaches {_describe(source)}: {_remedy(source)}" for source in unreached),
        *(f"host {name} reaches no network: have its agent report a physical network of one" for name in unconnected),
    ]


def _describe(source: ProviderSource) -> str:
    kind = "the pool of cell" if source.cell is not None else "segment" if source.routed else "network"
    cidrs = [subnet.cidr for subnet in source.subnets]
    more = ["..."] if len(cidrs) > SUBNETS_SHOWN else []
    return f"{kind} {source.cell or source.provider_uuid} ({', '.join([*cidrs[:SUBNETS_SHOWN], *more])})"


def _remedy(source: ProviderSource) -> str:
    if source.cell is not None:
        return f"start an agent with --cell {source.cell}"
    if source.physical_network is not None:
        return f"have an agent report physical network {source.physical_network}"
    return "start an agent"
