"""Says why no host was found, in a sentence that an operator can act on, with the funnel behind it.

Placement counts hosts by resource classes, traits and placement aggregates; here these become networks and segments.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.model.work import Cause
from roost.scheduling.causes import find_cause
from roost.scheduling.request import Kind, Narrowing, NicRequest, Request, place_of, suffix_of
from roost.seams.addresses import Counts, show_exhausted, show_free
from roost.seams.network import NetworkView, Port
from roost.seams.placement import (
    DISK_GB,
    MEMORY_MB,
    VCPU,
    Candidates,
    Funnel,
    FunnelStep,
    Requirement,
    Shortage,
)
from roost.seams.unknown_guests import held_sentence

Usages = Mapping[str, Mapping[str, tuple[int, int]]]
"""Provider UUID -> resource class -> (capacity, used)."""

SEGMENTS_MAX = 32
"""Segments of one network that a sentence lists one by one."""

PLACES_MAX = 3
"""Segments that are named for each of two shortages."""

CLASS_WORDS = {VCPU: "CPU", MEMORY_MB: "memory", DISK_GB: "disk"}
HOST_AGGREGATES = frozenset({Requirement.MEMBER_OF, Requirement.NOT_MEMBER_OF})
SHAPE = frozenset({Requirement.INVENTORY, Requirement.IN_TREE, Requirement.MEMBER_OF})


class Row(Struct, frozen=True):
    """One line of the operator's funnel. requirement: what placement counted, if it did. name: of what, if of one."""

    narrowing: Narrowing
    hosts_left: int
    requirement: Requirement | None = None
    name: str = ""


class ClosedHosts(Struct, frozen=True):
    """How many hosts of the whole cloud get no servers, and why; some may be counted twice."""

    down: int = 0
    disabled: int = 0
    of_silent_cells: int = 0
    too_old: int = 0
    idle: int = 0

    @property
    def words(self) -> str:
        """Return what besides being disabled keeps servers from hosts."""
        down = [f"{self.down} down"] if self.down else []
        cells = [f"{self.of_silent_cells} in a cell whose conductors are gone"] if self.of_silent_cells else []
        old = [f"{self.too_old} with too old an agent"] if self.too_old else []
        idle = [f"{self.idle} that began no launch"] if self.idle else []
        return ", ".join(down + cells + old + idle)


ALL_OPEN = ClosedHosts()


class Explanation(Struct, frozen=True):
    """message: for people. funnel: (requirement in the operator's words, hosts left), in order, never growing.

    cause: what the funnel ended with.
    """

    message: str
    funnel: tuple[tuple[str, int], ...] = ()
    cause: Cause | None = None


def explain(
    tried: Sequence[tuple[Request, Candidates | None]],
    usages: Usages,
    *,
    ports: Sequence[Port] = (),
    closed: ClosedHosts = ALL_OPEN,
    empty_aggregates: Collection[str] = frozenset(),
    earlier: str | None = None,
    held: Mapping[str, int] | None = None,
) -> Explanation:
    """Return why a server with these ports cannot be placed.

    tried: the alternatives of its request, with what the search answered, None where there was none because the request
    is impossible; the one that came furthest is told whole. usages: of `addresses_asked`. closed: hosts that were left
    out. empty_aggregates: those that no host is in. earlier: the last failure, with its host. held: network -> how many
    of its addresses unknown guests have.
    """
    funnels = [
        list(_rows(request_tried, answer, closed)) if request_tried.impossible is None and answer else []
        for request_tried, answer in tried
    ]
    best = max(range(len(tried)), key=lambda number: sum(row.hosts_left > 0 for row in funnels[number]))
    (request, answer_best), rows = tried[best], funnels[best]
    empty = next((row for row in rows if row.hosts_left == 0), None)
    sentences = [
        _headline(request, rows),
        *_advice(request, empty, rows, closed),
        *_short_elsewhere(request, answer_best, closed),
        *_others(rows, [others for number, others in enumerate(funnels) if number != best]),
        *_pinned_ports(request, ports),
        *_addresses(request, empty, usages, held or {}),
        *_unreached(request, empty_aggregates),
        *_failed(request, earlier),
    ]
    return Explanation(
        " ".join(sentences),
        tuple((row.narrowing.describe(), row.hosts_left) for row in rows),
        find_cause(request, *((empty.narrowing, empty.requirement, empty.name) if empty else (None, None, ""))),
    )


def show_funnel(request: Request, funnel: Funnel, closed: ClosedHosts = ALL_OPEN) -> tuple[tuple[str, int], ...]:
    """Return how many hosts each requirement leaves, in the operator's words, whether any is left at the end or not."""
    rows = _rows(request, Candidates((), {}, funnel), closed)
    return tuple((row.narrowing.describe(), row.hosts_left) for row in rows)


def addresses_asked(request: Request) -> list[str]:
    """Return the providers whose use `explain` needs to know."""
    return sorted(
        {segment.provider_uuid for nic in request.nics if nic.needs_address for segment in nic.network.segments}
    )


# From placement's steps to the operator's.


def _rows(request: Request, answer: Candidates, closed: ClosedHosts) -> Iterator[Row]:
    if answer.candidates:
        roots = {candidate.root_uuid for candidate in answer.candidates}
        # Whole groups of hosts that are out of the question are named: the others would be the way out.
        groups = [
            narrowing.describe()
            for narrowing in request.narrowings
            if narrowing.nic is None and narrowing.requirement in HOST_AGGREGATES
        ]
        yield Row(Narrowing(words=", ".join(["with all that was asked for", *groups])), len(roots))
        where = "is not already" if request.excluded_hosts == {request.source_host} else "has not failed before"
        yield Row(Narrowing(words=f"where the server {where}"), 0)
        return
    waiting = list(request.narrowings)
    rows_told: set[tuple[str, str]] = set()
    before = 0
    for step in answer.funnel.steps if answer.funnel else ():
        narrowing = _tell(request, waiting, step, closed)
        key = (narrowing.describe(), narrowing.nic.network.id if narrowing.nic else "")
        # A requirement that placement counts twice, or as a part of another, is a line only where it left fewer hosts.
        silent = step.requirement is Requirement.INVENTORY or (step.suffix != "" and step.requirement in SHAPE)
        if step.hosts_left < before or not (silent or key in rows_told):
            yield Row(narrowing, step.hosts_left, step.requirement, step.names[0] if len(step.names) == 1 else "")
            rows_told.add(key)
            before = step.hosts_left


def _take_narrowing(waiting: list[Narrowing], step: FunnelStep) -> Narrowing | None:
    """Return what a filter said of this step, once where several filters ask for the same."""
    for narrowing in waiting:
        if narrowing.suffix != step.suffix or narrowing.requirement not in (None, step.requirement):
            continue
        if narrowing.requirement is None:
            return narrowing
        if narrowing.names in ((), step.names):
            waiting.remove(narrowing)
            return narrowing
    return None


def _tell(request: Request, waiting: list[Narrowing], step: FunnelStep, closed: ClosedHosts) -> Narrowing:
    """Return the step as operators read it: as its filter says, or in placement's words."""
    narrowing = _take_narrowing(waiting, step)
    if narrowing is not None:
        is_told_why = narrowing.kind is Kind.BE_OPEN and closed.words
        return replace(narrowing, words=f"up and enabled ({closed.words})") if is_told_why else narrowing
    match step.requirement:
        case Requirement.HOSTS:
            return Narrowing(words="considered")
        case Requirement.TOGETHER:
            words = _together(request)
        case Requirement.FREE if step.suffix == "":
            words = f"{show_amount(step.names[0], step.amount)} free"
        case Requirement.INVENTORY if step.suffix == "":
            words = f"{joined([CLASS_WORDS.get(name, name) for name in step.names])} at all"
        case _:
            words = step.describe()
    return Narrowing(kind=Kind.HAVE, words=words)


def show_amount(resource_class: str, amount: int) -> str:
    """Return an amount of a resource class in words."""
    match resource_class:
        case "VCPU":
            return "1 VCPU" if amount == 1 else f"{amount} VCPUs"
        case "MEMORY_MB":
            return f"{amount} MB memory"
        case "DISK_GB":
            return f"{amount} GB disk"
    return f"{amount} {resource_class}"


def _together(request: Request) -> str:
    several = [f"{count} addresses of network {network.name}" for network, count in _shared(request)]
    return f"{joined(several)} for one server" if several else "all of it together"


def _shared(request: Request) -> list[tuple[NetworkView, int]]:
    """Return the networks of which one server asks for several addresses, and how many."""
    networks = {nic.network.id: nic.network for nic in request.nics}
    counts = Counter(nic.network.id for nic in request.nics if nic.needs_address and nic.classes)
    return [(networks[network_id], count) for network_id, count in counts.items() if count > 1]


# Sentences.


def _headline(request: Request, rows: Sequence[Row]) -> str:
    if request.impossible is not None:
        return f"No valid host was found: {request.impossible}."
    parts = []
    for number, row in enumerate(rows):
        text = _counted(row, first=number == 0)
        if number and row.hosts_left == 0 and rows[number - 1].hosts_left == 0:
            # Requirements after the one that left no host are not to blame.
            first = number == 1 or rows[number - 2].hosts_left > 0
            text = f"and so {text}" if first else text
        parts.append(text)
    return f"No valid host was found: {', '.join(parts) or 'no host has what was asked for'}."


def _counted(row: Row, *, first: bool) -> str:
    noun = ("host " if row.hosts_left == 1 else "hosts ") if first else ""
    return f"{row.hosts_left} {noun}{row.narrowing.describe(hosts=row.hosts_left)}"


def joined(names: Sequence[str]) -> str:
    """Return names as people list them."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _advice(request: Request, empty: Row | None, rows: Sequence[Row], closed: ClosedHosts) -> Iterator[str]:
    """Yield what to do about a requirement that left nobody, where its words do not say it."""
    host = request.forced_host
    match empty:
        case Row(requirement=Requirement.IN_TREE) if host is not None:
            yield f"The server may be on host {host.name} alone, which is none of those that were left before."
        case Row(requirement=Requirement.MEMBER_OF, narrowing=Narrowing(nic=NicRequest() as nic)) if host is not None:
            yield (
                f"The server may be on host {host.name} alone, which does not reach {place_of(nic)}: "
                f"name a host that does, or have its agent report {_physical(nic)}."
            )
        case Row(requirement=Requirement.HOSTS):
            yield "There is no host at all: start an agent on one."
        case Row(narrowing=Narrowing(kind=Kind.BE_OPEN)) if closed.of_silent_cells:
            yield "Conductors of a cell are gone: start one, as by `roost serve conductor --cell NAME`."
        case Row(narrowing=Narrowing(kind=Kind.BE_OPEN)) if closed.down:
            disabled = (
                f", {closed.disabled} {'is' if closed.disabled == 1 else 'are'} disabled" if closed.disabled else ""
            )
            down = "1 host is down" if closed.down == 1 else f"{closed.down} hosts are down"
            yield f"{down}{disabled}: start the agent of a host, or enable one that is up."
        case Row(narrowing=Narrowing(kind=Kind.BE_OPEN)):
            yield "Every host is disabled: enable one, or accept one that waits (roost-manage host list)."
        case Row(narrowing=Narrowing(kind=Kind.REACH_NETWORK, nic=NicRequest() as nic)):
            reached = (row for row in rows if row.hosts_left and row.narrowing.kind is Kind.REACH_NETWORK)
            others = [row.narrowing.describe() for row in reached]
            that = [*(["is up"] if closed.down else []), *([f"can {joined(others)}"] if others else [])]
            who = f"No enabled host{' that ' * bool(that)}{joined(that)}{' also' * bool(others)} reaches"
            what = "enable a host that does or start its agent" if closed.down else "enable a host that does"
            yield f"{who} {place_of(nic)}: {what}, or have its agent report {_physical(nic)}."
        case Row(requirement=requirement, narrowing=Narrowing(nic=NicRequest() as nic)) if requirement in SHAPE:
            yield f"Hosts reach network {nic.network.name} only where it has no subnet: add a subnet there."


def _short_elsewhere(request: Request, answer: Candidates | None, closed: ClosedHosts) -> Iterator[str]:
    """Say of two things that are both there, in different places: some hosts have one of them, others the other."""
    funnel = answer.funnel if answer else None
    if funnel is None or not funnel.shortages:
        return
    sides = []
    for shortage, place in zip(funnel.shortages, _places(request, funnel.shortages), strict=True):
        has, lacks = (
            _tell(request, list(request.narrowings), step, closed).words for step in (shortage.has, shortage.lacks)
        )
        hosts = f"1 host{place} has" if shortage.hosts == 1 else f"{shortage.hosts} hosts{place} have"
        sides.append(f"{hosts} {has} but not {lacks}")
    yield f"{'; '.join(sides)}."


def _places(request: Request, shortages: Sequence[Shortage]) -> list[str]:
    """Return the segments where each shortage is, of the first network that tells them apart; else nothing."""
    suffixes = {step.suffix for shortage in shortages for step in (shortage.has, shortage.lacks)}
    for nic in sorted(request.nics, key=lambda nic: suffix_of(nic.tag) not in suffixes):
        names = [
            sorted(
                segment.name
                for segment in nic.network.segments
                if segment.placement_aggregate in shortage.placement_aggregates
            )
            for shortage in shortages
        ]
        if nic.network.routed and all(names) and len({tuple(side) for side in names}) > 1:
            kind = "cell" if nic.network.flat else "segment"
            return [
                f" of {kind}{'s' if len(side) > 1 else ''} {joined(_listed(side, most=PLACES_MAX))}" for side in names
            ]
    return [""] * len(shortages)


def _others(rows: Sequence[Row], funnels: Sequence[Sequence[Row]]) -> Iterator[str]:
    """Yield how far the other alternatives came, where it differs: up to what left nobody."""
    rows_told = {(row.narrowing.words, row.hosts_left) for row in rows}
    for other in funnels:
        upto = next((number for number, row in enumerate(other, 1) if row.hosts_left == 0), len(other))
        parts = [
            _counted(row, first=False) for row in other[:upto] if (row.narrowing.words, row.hosts_left) not in rows_told
        ]
        if parts:
            yield f"Tried as well: {', '.join(parts)}."


def _physical(nic: NicRequest) -> str:
    if not nic.network.routed:
        return "its physical network"
    names = sorted(segment.name for segment in nic.network.segments if nic.pinned_to in (None, segment.provider_uuid))
    if nic.network.flat:
        return f"cell {' or '.join(_listed(names))}"
    if len(names) == 1:
        return f"the physical network of segment {names[0]}"
    return f"the physical network of one of its segments ({', '.join(_listed(names))})"


def _listed(names: Sequence[str], *, most: int = SEGMENTS_MAX) -> list[str]:
    more = len(names) - most
    return [*names[:most], f"{more} more"] if more > 0 else list(names)


def _pinned_ports(request: Request, ports: Sequence[Port]) -> Iterator[str]:
    """Yield a sentence for each port whose address leaves the server only some of the hosts."""
    addresses = {port.tag: " and ".join(port.addresses) for port in ports}
    for nic in request.nics:
        if nic.pinned_to is not None and nic.network.flat:
            yield f"The address of NIC {nic.tag} holds the server to {place_of(nic)}."
        elif nic.pinned_to is not None:
            port = f"The port with address {addresses[nic.tag]}" if addresses.get(nic.tag) else f"Port {nic.tag}"
            yield f"{port} holds the server to {place_of(nic)}."


def _addresses(request: Request, empty: Row | None, usages: Usages, held: Mapping[str, int]) -> Iterator[str]:
    """Yield, for each network that an address is wanted of, how many are free, segment by segment, and are held."""
    networks = {nic.network.id: nic.network for nic in request.nics if nic.needs_address}
    for network in networks.values():
        counts = _counts(network, usages)
        if not counts:
            continue
        yield f"{_addresses_head(request, network, empty, counts)}: {_by_segment(network, counts)}."
        if held.get(network.id):
            yield held_sentence(held[network.id])


def _addresses_head(request: Request, network: NetworkView, empty: Row | None, counts: Sequence["_Count"]) -> str:
    if exhausted := show_exhausted(network.name, [of_segment for _, of_segment in counts]):
        return exhausted
    shared = _shared(request)
    match empty:
        case Row(requirement=Requirement.TOGETHER) if [network_shared.id for network_shared, _ in shared] == [
            network.id
        ]:
            return f"No host that is left reaches {shared[0][1]} free addresses of network {network.name}"
        case Row(requirement=Requirement.FREE, narrowing=Narrowing(nic=NicRequest(network=network_short))) if (
            network_short.id == network.id
        ):
            return f"No host that is left reaches a free address of network {network.name}"
    return f"Addresses of network {network.name}"


_Count = tuple[str, Counts]
"""A segment's name, and what it has."""


def _counts(network: NetworkView, usages: Usages) -> list[_Count]:
    """Return what is free segment by segment, by name; without segments that have no pools."""
    counts: list[_Count] = []
    for segment in sorted(network.segments, key=lambda segment: segment.name):
        usage = usages.get(segment.provider_uuid, {})
        capacities = {name: usage.get(name, (0, 0)) for name in segment.classes}
        free_by_class = {name: (max(capacity - used, 0), capacity) for name, (capacity, used) in capacities.items()}
        if free_by_class:
            counts.append((segment.name, free_by_class))
    return counts


def _by_segment(network: NetworkView, counts: Sequence[_Count]) -> str:
    everywhere = [of_segment for _, of_segment in counts]

    def sentence(some: Sequence[_Count]) -> str:
        return show_free([of_segment for _, of_segment in some], everywhere)

    if not network.routed:
        return sentence(counts)
    shown = [f"{count[0]} {sentence([count])}" for count in counts[:SEGMENTS_MAX]]
    rest = counts[SEGMENTS_MAX:]
    if rest:
        shown.append(f"{len(rest)} more segment{'' if len(rest) == 1 else 's'} {sentence(rest)}")
    return ", ".join(shown)


def _unreached(request: Request, empty_aggregates: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each network of which some segments, but not all, are reached by no host."""
    for network in {nic.network.id: nic.network for nic in request.nics}.values():
        names = sorted(segment.name for segment in network.segments if segment.placement_aggregate in empty_aggregates)
        if not network.flat and 0 < len(names) < len(network.segments):
            which = "segment" if len(names) == 1 else "segments"
            whose = "its physical network" if len(names) == 1 else "their physical networks"
            listed = joined(_listed(names))
            yield f"No host reaches {which} {listed} of network {network.name}: have agents report {whose}."


def _failed(request: Request, earlier: str | None) -> Iterator[str]:
    if request.source_host in request.excluded_hosts:
        yield f"The server is to leave {request.source_host}, so that host is not tried."
    hosts = ", ".join(sorted(request.excluded_hosts - {request.source_host}))
    if hosts and earlier:
        yield f"The server failed on {hosts} before and is not tried there again; the last time: {earlier.rstrip('.')}."
    elif hosts:
        yield f"The server failed on {hosts} before and is not tried there again."
    elif earlier:
        yield f"Before that: {earlier.rstrip('.')}."
