"""Request filters: small functions, in order, that narrow a request before candidates are asked for.

Each returns the request unchanged where it has nothing to say. Source: docs/design.md section 7.
"""

from collections.abc import Callable

from roost.scheduling.request import Request, address_group, place_of, reached_through
from roost.seams.placement import DISABLED, RequestGroup

Filter = Callable[[Request], Request]


def disabled_hosts(request: Request) -> Request:
    """Leave out hosts that their operator disabled or forced down; the compute service gives them the trait."""
    return request.narrowed("hosts that are not disabled", forbidden_traits=request.forbidden_traits | {DISABLED})


def forced_host(request: Request) -> Request:
    """Only the host that an operator named for the server, which still has to meet everything else."""
    host = request.forced_host
    return request if host is None else request.narrowed(f"only host {host.name}", in_tree=host.provider_uuid)


def flavor_requirements(request: Request) -> Request:
    """Traits of the host, and granular groups, as the flavor's extra specs ask for them.

    How its groups share providers holds for all groups of the query: with `isolate` also two NICs need two segments.
    """
    for group in request.flavor_groups:
        if group.suffix == "":
            request = request.narrowed(
                "the flavor's traits",
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
        request = request.narrowed(f"the flavor's group {group.suffix}", groups=(*request.groups, granular))
    if request.isolated:
        request = request.narrowed("each group on a provider of its own", group_policy="isolate")
    return request


def routed_networks(request: Request) -> Request:
    """Only hosts that reach the networks: OR over a network's segments, AND over the NICs.

    A port with an address holds the server to its segment. A segment without an aggregate is skipped.
    """
    for nic in request.nics:
        aggregates = reached_through(nic)
        if not aggregates:
            return request.narrowed(
                f"{place_of(nic)} can be reached from nowhere",
                impossible=f"no host reaches {place_of(nic)}, for it has no host aggregate; "
                "give it a physical network that the agent of some host reports",
            )
        request = request.narrowed(f"hosts that reach {place_of(nic)}", member_of=(*request.member_of, aggregates))
    return request


def ip_aware(request: Request) -> Request:
    """One granular group of one address of each class for every NIC that needs some, from that NIC's network.

    Where all that a port gets is no capacity, reaching the network is enough.
    """
    for nic in request.nics:
        if not nic.needs_address:
            continue
        if not any(segment.gives_addresses for segment in nic.network.segments):
            return request.narrowed(
                f"network {nic.network.name} has no addresses",
                impossible=f"network {nic.network.name} has no subnet with an allocation pool that servers may use; "
                "add a subnet to it",
            )
        if not nic.classes:
            continue
        request = request.narrowed(
            f"a free address on {nic.network.name}", groups=(*request.groups, address_group(nic))
        )
    return request


FILTERS: tuple[Filter, ...] = (disabled_hosts, forced_host, flavor_requirements, routed_networks, ip_aware)


def apply_filters(request: Request) -> Request:
    """Narrow a request by every filter in order, up to one that finds it impossible."""
    for narrow in FILTERS:
        request = narrow(request)
        if request.impossible is not None:
            break
    return request
