"""Turns what a server asked for, and its ports, into the request that filters narrow and the ledger answers."""

import itertools
import math
from collections.abc import Mapping, Sequence
from enum import Enum, auto

from msgspec import Struct
from msgspec.structs import replace

from roost.scheduling.host_aggregates import NOTHING_ASKED, AggregatesAsked
from roost.seams.compute import FlavorGroup, ForcedHost, RequestSpec
from roost.seams.network import NetworkView, Port, Segment
from roost.seams.placement import IPV4_ADDRESS, IPV6_ADDRESS, CandidateQuery, RequestGroup, Requirement

KINDS_MAX = 64
"""Combinations of unlike segments that one server's NICs may be on, each of which is a search of its own."""

CANDIDATES_PER_SERVER = 4
CANDIDATES_MIN = 128
CANDIDATES_MAX = 1000

KIND_WORDS = {
    (IPV4_ADDRESS, IPV6_ADDRESS): "IPv4 and IPv6",
    (IPV4_ADDRESS,): "IPv4 alone",
    (IPV6_ADDRESS,): "IPv6 alone",
    (): "no addresses that run out",
}


class NicRequest(Struct, frozen=True, kw_only=True):
    """One port's part of a request: the network that it is on, and what it still needs or is held to.

    pinned_to: the provider that its address is on, so that only hosts reaching it will do; if it needs one, the pool of
    a flat network that it must come from. needs_address: it is to get one. classes: the kind of segment that it is to
    be on, by what is claimed there; None: any.
    """

    tag: str
    network: NetworkView
    needs_address: bool
    pinned_to: str | None = None
    classes: tuple[str, ...] | None = None


class Kind(Enum):
    """What a requirement is about: its verb, and the advice where it leaves no host."""

    BE = auto()
    BE_OPEN = auto()
    HAVE = auto()
    REACH_NETWORK = auto()
    REACH_SUBNET = auto()


_VERBS = {
    Kind.HAVE: ("with ", "with "),
    Kind.REACH_NETWORK: ("reach ", "reaches "),
    Kind.REACH_SUBNET: ("reach ", "reaches "),
}
"""Of many hosts, and of one."""


class Narrowing(Struct, frozen=True, kw_only=True):
    """One requirement that a filter added, in the operator's words, with where placement's funnel counts it.

    words: without the verb of its kind. requirement: None for every step of the group that no other narrowing names.
    suffix: of the request group, "" for the host's own. names: as in the funnel's step; none: any. nic: whom it is
    about.
    """

    words: str
    kind: Kind = Kind.BE
    requirement: Requirement | None = None
    suffix: str = ""
    names: tuple[str, ...] = ()
    nic: NicRequest | None = None

    def describe(self, *, hosts: int = 2) -> str:
        """Return the requirement as it reads after so many hosts."""
        return _VERBS.get(self.kind, ("", ""))[hosts == 1] + self.words


class Request(Struct, frozen=True, kw_only=True):
    """What one server, or many alike, ask of the ledger; servers with equal requests are placed together.

    resources: of the host itself. source_host: the excluded host that a move is to leave.
    flavor_groups, isolated, forced_host, image_traits: as in the request spec. required_traits,
    forbidden_traits, in_tree, member_of, forbidden_aggregates: what the filters ask of the host. aggregates: what
    operators' host aggregates ask of it. groups: granular groups, each with its
    suffix; group_policy: how they share providers. narrowings: what each filter asked for.
    impossible: why no host can do, found without asking the ledger.
    """

    resources: tuple[tuple[str, int], ...]
    nics: tuple[NicRequest, ...]
    flavor_groups: tuple[FlavorGroup, ...] = ()
    isolated: bool = False
    forced_host: ForcedHost | None = None
    image_traits: frozenset[str] = frozenset()
    aggregates: AggregatesAsked = NOTHING_ASKED
    excluded_hosts: frozenset[str] = frozenset()
    source_host: str | None = None
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    in_tree: str | None = None
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    groups: tuple[RequestGroup, ...] = ()
    group_policy: str = "none"
    narrowings: tuple[Narrowing, ...] = ()
    impossible: str | None = None

    def narrowed(self, *narrowings: Narrowing, **changes: object) -> "Request":
        """Return the request with changes, and what they ask for."""
        return replace(self, narrowings=(*self.narrowings, *narrowings), **changes)

    def outside(self, words: str, aggregates: frozenset[str]) -> "Request":
        """Return the request for hosts in none of these placement aggregates; the funnel counts all such as one."""
        earlier = [narrowing for narrowing in self.narrowings if narrowing.requirement is Requirement.NOT_MEMBER_OF]
        others = tuple(
            narrowing for narrowing in self.narrowings if narrowing.requirement is not Requirement.NOT_MEMBER_OF
        )
        words_all = " and ".join([narrowing.words for narrowing in earlier] + [words])
        return replace(
            self,
            narrowings=(*others, Narrowing(words=words_all, requirement=Requirement.NOT_MEMBER_OF)),
            forbidden_aggregates=self.forbidden_aggregates | aggregates,
        )


def build_request(
    spec: RequestSpec,
    ports: Sequence[Port],
    networks: Mapping[str, NetworkView],
    *,
    excluded_hosts: Sequence[str] = (),
    source_host: str | None = None,
    free_to_leave: bool = False,
    aggregates: AggregatesAsked = NOTHING_ASKED,
) -> Request:
    """Return the request of a server with these ports.

    aggregates: what operators' host aggregates ask of its host.
    free_to_leave: an address that this very build assigned does not hold the port to its segment any more.
    """
    nics = []
    for port in ports:
        has_address = stays(port, free_to_leave=free_to_leave)
        nics.append(
            NicRequest(
                tag=port.tag,
                network=networks[port.network_id],
                needs_address=not has_address and (port.needs_address or port.provider_uuid is not None),
                pinned_to=port.provider_uuid if has_address else port.pools[0] if port.fixed_ip else None,
            )
        )
    return Request(
        resources=tuple(spec.host_resources.items()),
        nics=tuple(nics),
        flavor_groups=spec.flavor_groups,
        isolated=spec.isolated,
        forced_host=spec.forced_host,
        image_traits=spec.image_traits,
        aggregates=aggregates,
        excluded_hosts=frozenset(excluded_hosts),
        source_host=source_host if source_host in excluded_hosts else None,
    )


def stays(port: Port, *, free_to_leave: bool) -> bool:
    """Return whether the address that a port has, or has a claim for, is kept; one that pins it always is."""
    return port.provider_uuid is not None and (port.pinned or not free_to_leave)


def alternatives(request: Request) -> list[Request]:
    """Return the request once for every combination of kinds of segments that its NICs may be on; nearly always one.

    Segments of one network are of one kind when a port claims the same classes on them: what a granular group asks for.
    """
    kinds = [kinds_of(nic.network) if nic.needs_address else (None,) for nic in request.nics]
    count = math.prod(len(kinds_of_nic) for kinds_of_nic in kinds)
    if count > KINDS_MAX:
        names = ", ".join(sorted({nic.network.name for nic in request.nics if nic.needs_address}))
        reason = (
            f"the segments of networks {names} differ in their IP versions, so that its NICs could be on {count} "
            f"combinations of them, of which at most {KINDS_MAX} are tried; give the segments of a network "
            "subnets of the same IP versions, or name ports that have addresses"
        )
        return [replace(request, impossible=reason)]
    return [
        replace(
            request,
            nics=tuple(
                nic if kind is None else replace(nic, classes=kind)
                for nic, kind in zip(request.nics, combination, strict=True)
            ),
        )
        for combination in itertools.product(*kinds)
    ]


def kinds_of(network: NetworkView) -> tuple[tuple[str, ...] | None, ...]:
    """Return the kinds of segments where a port gets addresses, those that give most first; one None without any."""
    kinds = {
        segment.classes
        for segment in network.segments
        if segment.gives_addresses and segment.placement_aggregate is not None
    }
    return tuple(sorted(kinds, key=lambda kind: (-len(kind), kind))) or (None,)


def suffix_of(tag: str) -> str:
    """Return the suffix of a NIC's granular group, by the NIC's tag."""
    return f"_nic{tag}"


def reached_through(nic: NicRequest) -> frozenset[str]:
    """Return the placement aggregates whose hosts reach the NIC's network, or the segment that it is held to."""
    return frozenset(
        segment.placement_aggregate
        for segment in nic.network.segments
        if segment.placement_aggregate is not None and _may_be_on(nic, segment)
    )


def place_of(nic: NicRequest) -> str:
    """Return where a NIC has to be, in words: a network, or the one segment of it that an address is on."""
    network = f"network {nic.network.name}"
    segment_names = [segment.name for segment in nic.network.segments if segment.provider_uuid == nic.pinned_to]
    if segment_names and nic.network.routed:
        return f"{'cell' if nic.network.flat else 'segment'} {segment_names[0]} of {network}"
    if nic.classes is not None and len(kinds_of(nic.network)) > 1:
        return f"{network} where it has {KIND_WORDS[nic.classes]}"
    return network


def address_group(nic: NicRequest) -> RequestGroup:
    """Return one address of each class for a NIC: all from one provider, a plain network or a segment of its kind."""
    assert nic.classes, "a kind without classes asks for nothing"
    resources = dict.fromkeys(nic.classes, 1)
    if not nic.network.routed:
        return RequestGroup(
            suffix=suffix_of(nic.tag), resources=resources, in_tree=nic.network.segments[0].provider_uuid
        )
    if nic.pinned_to is not None:
        return RequestGroup(suffix=suffix_of(nic.tag), resources=resources, in_tree=nic.pinned_to)
    aggregates = frozenset(
        segment.placement_aggregate
        for segment in nic.network.segments
        if segment.placement_aggregate is not None and segment.classes == nic.classes
    )
    return RequestGroup(suffix=suffix_of(nic.tag), resources=resources, member_of=(aggregates,))


def _may_be_on(nic: NicRequest, segment: Segment) -> bool:
    if nic.classes is None or nic.pinned_to is not None:
        return nic.pinned_to in (None, segment.provider_uuid)
    if not segment.gives_addresses:
        return nic.classes != ()  # what asks for an address there says that there is none
    return segment.classes == nic.classes


def build_queries(requests: Sequence[Request], *, servers: int) -> list[CandidateQuery]:
    """Return the queries of a request's alternatives, with enough candidates for so many servers."""
    limit = min(CANDIDATES_MAX, max(CANDIDATES_MIN, CANDIDATES_PER_SERVER * servers))
    return [build_query(request, limit=limit) for request in requests]


def build_query(request: Request, *, limit: int) -> CandidateQuery:
    """Return the request as the ledger reads it. limit: how many candidates are wanted, excluded hosts not counted."""
    host = RequestGroup(
        suffix="",
        resources=dict(request.resources),
        required=tuple(frozenset({trait}) for trait in sorted(request.required_traits)),
        forbidden=request.forbidden_traits,
        member_of=request.member_of,
        forbidden_aggregates=request.forbidden_aggregates,
        in_tree=request.in_tree,
    )
    return CandidateQuery(
        groups=(host, *request.groups),
        group_policy=request.group_policy,
        limit=limit + len(request.excluded_hosts),
    )
