"""What operators' host aggregates ask of a server's host: zones, projects with hosts of their own, isolated aggregates.

Source: Nova, scheduler/request_filter.py: map_az_to_placement_aggregate, require_tenant_aggregate, isolate_aggregates.
"""

from collections.abc import Sequence

from msgspec import Struct

from roost.compute.model.cloud import HostAggregate

ZONE_KEY, PROJECT_KEY, TRAIT_KEY, REQUIRED = "availability_zone", "filter_tenant_id", "trait:", "required"


class IsolatedAggregate(Struct, frozen=True):
    """An aggregate whose hosts are only for servers that require all of its traits."""

    uuid: str
    name: str
    traits: frozenset[str]


class AggregatesAsked(Struct, frozen=True, kw_only=True):
    """What the aggregates mean for one server.

    zone: that it asks for; None: any. zone_aggregates: whose hosts are in the zone; None: it is the default one, which
    has all hosts that are in none of other_zones. project_aggregates: of its project alone, none where it has none.
    isolated: those that are only for some servers.
    """

    zone: str | None = None
    zone_aggregates: frozenset[str] | None = None
    other_zones: frozenset[str] = frozenset()
    project_id: str = ""
    project_aggregates: frozenset[str] = frozenset()
    isolated: tuple[IsolatedAggregate, ...] = ()


NOTHING_ASKED = AggregatesAsked()


def aggregates_asked(
    aggregates: Sequence[HostAggregate], *, zone: str | None, default_zone: str, project_id: str
) -> AggregatesAsked:
    """Return what these aggregates ask of the host of a server of a project that wants to be in a zone, or in any."""
    zoned = {aggregate.uuid: aggregate.metadata.get(ZONE_KEY) for aggregate in aggregates}
    named = frozenset(uuid for uuid, its_zone in zoned.items() if its_zone is not None and its_zone == zone)
    others = frozenset(uuid for uuid, its_zone in zoned.items() if its_zone is not None and its_zone != zone)
    return AggregatesAsked(
        zone=zone,
        zone_aggregates=None if zone == default_zone else named,
        other_zones=others,
        project_id=project_id,
        project_aggregates=frozenset(
            aggregate.uuid
            for aggregate in aggregates
            if any(key.startswith(PROJECT_KEY) and value == project_id for key, value in aggregate.metadata.items())
        ),
        isolated=tuple(
            IsolatedAggregate(aggregate.uuid, aggregate.name, traits)
            for aggregate in aggregates
            if (traits := _traits_required(aggregate))
        ),
    )


def _traits_required(aggregate: HostAggregate) -> frozenset[str]:
    return frozenset(
        key.removeprefix(TRAIT_KEY)
        for key, value in aggregate.metadata.items()
        if key.startswith(TRAIT_KEY) and value == REQUIRED
    )
