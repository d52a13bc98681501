"""Which hosts are in which availability zone, and in which host aggregate of an operator."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from roost.compute.model.cloud import HostAggregate
from roost.placement.search.index import Index
from roost.scheduling.host_aggregates import ZONE_KEY


class HostGroups(Struct, frozen=True):
    """Name -> names of hosts."""

    zones: Mapping[str, frozenset[str]]
    aggregates: Mapping[str, frozenset[str]]


def group_hosts(index: Index, aggregates: Sequence[HostAggregate], *, default_zone: str) -> HostGroups:
    """Return the zones of all hosts, and operators' aggregates; those that segments have are none."""
    hosts = {index.names[row] for row in index.trees().hosts.nonzero()[0].tolist()}
    zones: dict[str, frozenset[str]] = {}
    for aggregate in aggregates:
        if zone := aggregate.metadata.get(ZONE_KEY):
            zones[zone] = zones.get(zone, frozenset()) | (hosts & set(aggregate.hosts))
    if others := hosts.difference(*zones.values()):
        zones[default_zone] = zones.get(default_zone, frozenset()) | others
    of_operators = {a.name: frozenset(hosts & set(a.hosts)) for a in aggregates if a.of_operator}
    return HostGroups(dict(sorted(zones.items())), dict(sorted(of_operators.items())))
