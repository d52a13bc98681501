"""Request filters: small functions, in order, that narrow a request before candidates are asked for.

They see no hosts: they ask for what the ledger knows of them (traits, aggregates, trees, amounts).
Each returns the request unchanged where it has nothing to ask, and names what it asks for in the operator's words,
which `explain` prints where the funnel counts it. Source: docs/design.md section 7.
"""

from collections.abc import Callable
from functools import partial

from roost.scheduling.request import (
    Kind,
    Narrowing,
    NicRequest,
    Request,
    address_group,
    alternatives,
    place_of,
    reached_through,
    suffix_of,
)
from roost.scheduling.settings import SchedulingSettings
from roost.seams.compute import FlavorGroup
from roost.seams.placement import DISABLED, FAMILY_WORDS, RequestGroup, Requirement

RequestFilter = Callable[[Request, SchedulingSettings], Request]
DEFAULTS = SchedulingSettings()


def project_aggregates(request: Request, settings: SchedulingSettings) -> Request:
    """Ask for hosts of the aggregates that name the server's project, if any do; also for a forced host."""
    if not settings.limit_tenants_to_placement_aggregate:
        return request
    aggregates = request.aggregates
    if not aggregates.project_aggregates and settings.placement_aggregate_required_for_tenants:
        return request.narrowed(
            impossible=f"project {aggregates.project_id} has no hosts: no host aggregate names it in its metadata as "
            "filter_tenant_id (placement_aggregate_required_for_tenants)",
        )
    if not aggregates.project_aggregates:
        return request
    limited = Narrowing(
        words=f"in a host aggregate of project {aggregates.project_id}",
        requirement=Requirement.MEMBER_OF,
        names=tuple(sorted(aggregates.project_aggregates)),
    )
    return request.narrowed(limited, member_of=(*request.member_of, aggregates.project_aggregates))


def availability_zone(request: Request, _settings: SchedulingSettings) -> Request:
    """Ask for hosts of the zone that the server asks for; those of the default zone are in no other."""
    aggregates = request.aggregates
    if aggregates.zone is None or _is_forced_anyway(request):
        return request
    if aggregates.zone_aggregates is None:
        words = f"in availability zone {aggregates.zone}"
        return request.outside(words, aggregates.other_zones) if aggregates.other_zones else request
    if not aggregates.zone_aggregates:
        return request.narrowed(
            impossible=f"availability zone {aggregates.zone} has no hosts: no host aggregate makes it any more; make "
            "one with that availability_zone, or unshelve the server to another zone"
        )
    zoned = Narrowing(
        words=f"in availability zone {aggregates.zone}",
        requirement=Requirement.MEMBER_OF,
        names=tuple(sorted(aggregates.zone_aggregates)),
    )
    return request.narrowed(zoned, member_of=(*request.member_of, aggregates.zone_aggregates))


def isolated_aggregates(request: Request, settings: SchedulingSettings) -> Request:
    """Leave out hosts of aggregates that are only for servers which require other traits than this one."""
    if not settings.enable_isolated_aggregate_filtering or _is_forced_anyway(request):
        return request
    required = request.image_traits.union(*(group.required for group in request.flavor_groups))
    closed = [aggregate for aggregate in request.aggregates.isolated if not aggregate.traits <= required]
    if not closed:
        return request
    names = ", ".join(sorted(aggregate.name for aggregate in closed))
    return request.outside(f"outside of isolated aggregates {names}", frozenset(aggregate.uuid for aggregate in closed))


def disabled_hosts(request: Request, _settings: SchedulingSettings) -> Request:
    """Leave out hosts that their operator disabled or forced down; the compute service gives them the trait."""
    if _is_forced_anyway(request):
        return request
    enabled = Narrowing(kind=Kind.BE_OPEN, words="enabled", requirement=Requirement.NO_TRAIT, names=(DISABLED,))
    return request.narrowed(enabled, forbidden_traits=request.forbidden_traits | {DISABLED})


def forced_host(request: Request, _settings: SchedulingSettings) -> Request:
    """Ask for the one host that an operator named for the server, which still has to meet everything else."""
    host = request.forced_host
    if host is None:
        return request
    named = Narrowing(words=f"named {host.name}", requirement=Requirement.IN_TREE, names=(host.provider_uuid,))
    return request.narrowed(named, in_tree=host.provider_uuid)


def flavor_requirements(request: Request, _settings: SchedulingSettings) -> Request:
    """Ask for traits of the host, and for granular groups, as the flavor's extra specs ask for them.

    How its groups share providers holds for all groups of the query: with `isolate` also two NICs need two segments.
    """
    anyway = _is_forced_anyway(request)
    for group in request.flavor_groups:
        if group.suffix == "" and anyway:
            continue
        if group.suffix == "":
            request = request.narrowed(
                *_trait_narrowings(group, "the flavor"),
                required_traits=request.required_traits | group.required,
                forbidden_traits=request.forbidden_traits | group.forbidden,
            )
            continue
        granular = RequestGroup(
            suffix=group.suffix,
            resources=dict(group.resources),
            required=tuple(frozenset({trait}) for trait in sorted(group.required)),
            forbidden=group.forbidden,
        )
        request = request.narrowed(*_group_narrowings(group), groups=(*request.groups, granular))
    if request.isolated:
        apart = Narrowing(
            kind=Kind.HAVE,
            words="each group on a provider of its own, as group_policy of the flavor asks",
            requirement=Requirement.ISOLATED,
        )
        request = request.narrowed(apart, group_policy="isolate")
    return request


def _group_narrowings(group: FlavorGroup) -> list[Narrowing]:
    """Return what a granular group of a flavor asks for."""
    whose = f"group {group.suffix.removeprefix('_')} of the flavor"
    names = " and ".join(name for name, _ in group.resources)
    has = partial(Narrowing, kind=Kind.HAVE, suffix=group.suffix)
    return [
        *(
            has(words=f"{amount} {name} free for {whose}", requirement=Requirement.FREE, names=(name,))
            for name, amount in group.resources
        ),
        *_trait_narrowings(group, whose),
        has(words=f"{names} at all for {whose}", requirement=Requirement.INVENTORY),
    ]


def _trait_narrowings(group: FlavorGroup, whose: str) -> list[Narrowing]:
    has = partial(Narrowing, kind=Kind.HAVE, requirement=Requirement.TRAIT, suffix=group.suffix)
    lacks = partial(Narrowing, requirement=Requirement.NO_TRAIT, suffix=group.suffix)
    return [
        *(has(words=f"trait {trait} that {whose} requires", names=(trait,)) for trait in sorted(group.required)),
        *(
            lacks(words=f"without trait {trait} that {whose} forbids", names=(trait,))
            for trait in sorted(group.forbidden)
        ),
    ]


def image_traits(request: Request, _settings: SchedulingSettings) -> Request:
    """Ask for the traits that the server's image requires of the host."""
    if _is_forced_anyway(request):
        return request
    for trait in sorted(request.image_traits):
        required = Narrowing(
            kind=Kind.HAVE,
            words=f"trait {trait} that the image requires",
            requirement=Requirement.TRAIT,
            names=(trait,),
        )
        request = request.narrowed(required, required_traits=request.required_traits | {trait})
    return request


def routed_networks(request: Request, settings: SchedulingSettings) -> Request:
    """Ask for hosts that reach the networks: OR over a network's segments, AND over the NICs.

    A port with an address holds the server to its segment. A segment without an aggregate is skipped.
    """
    if not settings.query_placement_for_routed_network_aggregates:
        return request
    for nic in request.nics:
        aggregates = reached_through(nic)
        if not aggregates:
            return request.narrowed(
                impossible=f"no host reaches {place_of(nic)}, for it has no host aggregate; "
                "give it a physical network that the agent of some host reports",
            )
        reach = Narrowing(
            kind=Kind.REACH_NETWORK,
            words=place_of(nic),
            requirement=Requirement.MEMBER_OF,
            names=tuple(sorted(aggregates)),
            nic=nic,
        )
        request = request.narrowed(reach, member_of=(*request.member_of, aggregates))
    return request


def ip_aware(request: Request, settings: SchedulingSettings) -> Request:
    """Ask for one granular group of one address of each class for every NIC that needs some, from that NIC's network.

    Where none of a port's addresses are counted (SLAAC), reaching the network is enough.
    """
    for nic in request.nics if settings.ip_aware else ():
        if not nic.needs_address:
            continue
        if not any(segment.gives_addresses for segment in nic.network.segments):
            return request.narrowed(
                impossible=f"network {nic.network.name} has no subnet with an allocation pool that servers may use; "
                "add a subnet to it",
            )
        if not nic.classes:
            continue
        request = request.narrowed(*_address_narrowings(nic), groups=(*request.groups, address_group(nic)))
    return request


def _address_narrowings(nic: NicRequest) -> list[Narrowing]:
    """Return what the NIC's group asks for: an address of each class, and to be where there is such a subnet."""
    suffix, network = suffix_of(nic.tag), f"network {nic.network.name}"
    families = {name: f"{FAMILY_WORDS[name]} " if len(nic.classes or ()) > 1 else "" for name in nic.classes or ()}
    return [
        *(
            Narrowing(
                kind=Kind.HAVE,
                words=f"a free {family}address on {network}",
                requirement=Requirement.FREE,
                suffix=suffix,
                names=(name,),
                nic=nic,
            )
            for name, family in families.items()
        ),
        Narrowing(kind=Kind.REACH_SUBNET, words=f"a subnet of {network}", suffix=suffix, nic=nic),
    ]


def _is_forced_anyway(request: Request) -> bool:
    """Return whether an operator wants the one host also without what is said against it."""
    return request.forced_host is not None and request.forced_host.anyway


REQUEST_FILTERS: tuple[RequestFilter, ...] = (
    project_aggregates,
    availability_zone,
    disabled_hosts,
    isolated_aggregates,
    forced_host,
    flavor_requirements,
    image_traits,
    routed_networks,
    ip_aware,
)


def narrow(request: Request, settings: SchedulingSettings = DEFAULTS) -> list[Request]:
    """Return the request narrowed by every filter, once for each combination of kinds of segments."""
    kinds = alternatives(request) if settings.ip_aware else [request]
    return [apply_filters(kind, settings) for kind in kinds]


def apply_filters(request: Request, settings: SchedulingSettings = DEFAULTS) -> Request:
    """Narrow a request by every filter in order, up to one that finds it impossible."""
    for request_filter in REQUEST_FILTERS:
        request = request_filter(request, settings)
        if request.impossible is not None:
            break
    return request
