"""The addresses that a query means and does not ask for: an unmodified Nova names networks by placement aggregates.

Each `member_of` clause of the unsuffixed group that names a segment's aggregate is one NIC, which takes an IPV4_ADDRESS
of a segment in it that the host is on. A segment is a provider with inventory of that class. Which one a host takes is
decided here by arrays, once for each NIC; the search itself does not know.

Source: Nova's request filter for routed networks, which adds one clause for each network or port of a request.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from roost.placement.search.candidates import CandidateRows, Gathered
from roost.placement.search.index import I64, NO_ROW, Index, Mask
from roost.placement.search.narrowing import Plan, Slot, Want
from roost.seams.placement import IPV4_ADDRESS, CandidateQuery

CLAUSES_KEPT = 128
"""Clauses whose hosts are remembered until a provider moves: schedulers name the same networks again and again."""


class Nic(Struct, frozen=True):
    """One clause of segments. edge_row, edge_root: int64, each pair of a segment and a host on it, by segment.

    asks: False where the clause names fewer segments than its network has, as for a port that has its address. alone:
    its network has one segment, so the clause of such a port is the same as of one that needs an address. pick: the
    segment of each root, NO_ROW for none, where no host is on several of them; else None.
    """

    edge_row: I64
    edge_root: I64
    asks: bool
    alone: bool
    pick: I64 | None


class Segments(Struct, frozen=True):
    """The segments of an index. rows: theirs. sizes: network -> how many of them it has. nics: by clause, as asked.

    uncounted: those of them whose addresses no round with Neutron has counted; None where there are none.
    """

    rows: frozenset[int]
    uncounted: Mask | None
    sizes: dict[str, int]
    nics: dict[frozenset[str], Nic | None]


class Implied(Struct, frozen=True):
    """What is implied by a query. picks: by NIC, the segment of each root; viable: the roots that may be offered."""

    picks: tuple[I64, ...]
    viable: Mask


def find_nics(index: Index, query: CandidateQuery) -> list[Nic]:
    """Return the NICs of a query that need an address."""
    if not query.groups or query.groups[0].suffix:
        return []
    nics = [_nic(index, clause) for clause in query.groups[0].member_of]
    return [nic for nic in nics if nic is not None and nic.asks]


def names_uncounted(index: Index, query: CandidateQuery) -> bool:
    """Return whether a NIC of the query may only get an address of a segment that no round with Neutron has counted."""
    uncounted = _segments(index).uncounted
    return uncounted is not None and any(uncounted[nic.edge_row].all() for nic in find_nics(index, query))


def list_uncounted(index: Index, query: CandidateQuery) -> frozenset[str]:
    """Return the segments that no round with Neutron has counted, of those where a NIC may get its address."""
    uncounted = _segments(index).uncounted
    if uncounted is None:
        return frozenset()
    rows = {row for nic in find_nics(index, query) for row in nic.edge_row[uncounted[nic.edge_row]].tolist()}
    return frozenset(index.uuids[row] for row in rows)


def find_only_segments(index: Index, segment_uuids: Iterable[str]) -> dict[str, str]:
    """Return network -> segment, of those segments that are the only one of their network."""
    networks = {uuid: index.networks.get(row) for uuid in segment_uuids if (row := index.find_row(uuid)) is not None}
    sizes = _segments(index).sizes
    return {network: uuid for uuid, network in networks.items() if network is not None and sizes.get(network) == 1}


def imply(
    index: Index,
    nics: Sequence[Nic],
    viable: Mask,
    *,
    hosts_per_address: int = 0,
    limit: int = 0,
    start: int = 0,
    counted_only: bool = False,
) -> Implied:
    """Return the segment that each viable root takes for each NIC, and the roots to offer.

    Of a network's only segment some hosts are offered although it is full: a server that has its address there can
    move, and only its claim says who it is. counted_only: a segment that no round with Neutron has counted has no room.
    limit: how many hosts the search may offer at most, 0 for all. start: which
    hosts of a segment come first. Cost: some array operations over all rows for each NIC.
    """
    free = index.column(IPV4_ADDRESS).most
    if counted_only and (uncounted := _segments(index).uncounted) is not None:
        free = np.where(uncounted, 0, free)
    picks: list[I64] = []
    for nic in nics:
        pick = _emptiest(index, nic, free, picks) if nic.pick is None else nic.pick
        room = free[pick]
        for earlier in picks:
            room = room - (earlier == pick)
        viable = viable & (pick != NO_ROW) & ((room > 0) | nic.alone)
        picks.append(pick)
    for nic, pick in zip(nics, picks, strict=True):
        # What is left by one NIC is what the next one chooses from: some host remains of every segment.
        alike = sum(other is nic for other in nics)
        viable = _thin(nic, pick, viable, free // alike, hosts_per_address, limit, start)
    return Implied(tuple(picks), viable)


def share_hosts(free: I64, hosts: I64, *, hosts_per_address: int, limit: int = 0) -> I64:
    """Return how many hosts of each segment to offer; int64, shape (segments,).

    free: its addresses, above zero; hosts: how many could take one. At most hosts_per_address for each address. Of
    segments with fewer addresses than hosts no more for each address than where most addresses are, so that all run dry
    together, and not these first while a request for hundreds still tries their hosts. Beyond the limit all give up
    hosts in proportion; one of each is left.
    """
    if not hosts_per_address or not len(free):
        return hosts
    most = np.minimum(hosts, free * hosts_per_address)
    density = hosts / free
    order = np.argsort(density)
    weights = np.cumsum(free[order])
    usual = density[order[np.searchsorted(weights, weights[-1] / 2)]]
    most = np.where(free < hosts, np.minimum(most, _portion(free, usual)), most)
    if not limit or most.sum() <= limit:
        return most
    # Segments give all they have up to a density, the same share of their addresses beyond it.
    density = most / free
    order = np.argsort(density)
    whole, rest = np.cumsum(most[order]), free.sum() - np.cumsum(free[order])
    last = int(np.searchsorted(whole + density[order] * rest, limit))
    hosts_given, hosts_left = (whole[last - 1], rest[last - 1]) if last else (0, free.sum())
    return np.minimum(most, _portion(free, (limit - hosts_given) / hosts_left))


def add_addresses(index: Index, plan: Plan, gathered: Gathered, implied: Implied) -> tuple[Plan, Gathered]:
    """Return plan and candidates with the implied addresses, as parts of the unsuffixed group."""
    want = Want(IPV4_ADDRESS, 1, index.column(IPV4_ADDRESS))
    slots = tuple(Slot(0, "", (want,), plan.viable, None) for _ in implied.picks)
    columns = [gathered.sole, *(pick[np.newaxis, gathered.sole_roots] for pick in implied.picks)]
    others = [
        CandidateRows(match.root, (*match.rows, *(int(pick[match.root]) for pick in implied.picks)))
        for match in gathered.others
    ]
    return (
        replace(plan, slots=plan.slots + slots),
        replace(gathered, sole=np.concatenate(columns), others=others),
    )


def _portion(free: I64, density: float) -> I64:
    portion: I64 = np.maximum(1, np.ceil(free * density)).astype(np.int64)
    return portion


def _thin(nic: Nic, pick: I64, viable: Mask, free: I64, hosts_per_address: int, limit: int, start: int) -> Mask:
    """Return the roots that are left when no segment has more than its share of them."""
    if not hosts_per_address:
        return viable
    chosen = viable[nic.edge_root]
    if nic.pick is None:
        chosen &= pick[nic.edge_root] == nic.edge_row
    rows, roots = nic.edge_row[chosen], nic.edge_root[chosen]
    if not len(rows):
        return viable
    first = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    hosts = np.diff(np.append(first, len(rows)))
    # An address that only one NIC of two alike could have is none for a host: at least one host of each is left.
    share = share_hosts(np.maximum(free[rows[first]], 1), hosts, hosts_per_address=hosts_per_address, limit=limit)
    # From a host of each segment on, so many; those at the segment's beginning follow its last.
    rank = np.arange(len(rows)) - np.repeat(first + start % hosts, hosts)
    rank[rank < 0] += np.repeat(hosts, hosts)[rank < 0]
    hosts_left = np.zeros(len(viable), np.bool_)
    hosts_left[roots[rank < np.repeat(share, hosts)]] = True
    return hosts_left


def _emptiest(index: Index, nic: Nic, free: I64, earlier_picks: Sequence[I64]) -> I64:
    """Return for each root the segment with the most room beside what earlier NICs take, NO_ROW for none."""
    room = free[nic.edge_row]
    for earlier in earlier_picks:
        room = room - (earlier[nic.edge_root] == nic.edge_row)
    order = np.argsort(room, kind="stable")
    pick = np.full(index.rows, NO_ROW, np.int64)
    pick[nic.edge_root[order]] = nic.edge_row[order]
    return pick


def _nic(index: Index, clause: frozenset[str]) -> Nic | None:
    segments = _segments(index)
    if clause not in segments.nics:
        if len(segments.nics) >= CLAUSES_KEPT:
            segments.nics.clear()
        segments.nics[clause] = _derive_nic(index, segments, clause)
    return segments.nics[clause]


def _segments(index: Index) -> Segments:
    if not isinstance(index.segments, Segments):
        rows = frozenset(row for row, inventories in enumerate(index.inventories) if IPV4_ADDRESS in inventories)
        sizes = Counter(index.networks[row] for row in rows & index.networks.keys())
        uncounted = None
        if rows_uncounted := sorted(rows - index.networks.keys()):
            uncounted = np.zeros(index.rows, np.bool_)
            uncounted[rows_uncounted] = True
        index.segments = Segments(rows, uncounted, dict(sizes), {})
    assert isinstance(index.segments, Segments)
    return index.segments


def _derive_nic(index: Index, segments: Segments, clause: frozenset[str]) -> Nic | None:
    """Return the NIC that a clause stands for, None for a clause without segments."""
    edges: set[tuple[int, int]] = set()
    named: set[int] = set()
    for aggregate in clause:
        members = index.rows_in_aggregate(aggregate).tolist()
        here = segments.rows.intersection(members)
        named |= here
        roots = {int(index.root_row[row]) for row in members} - segments.rows
        edges |= {(row, root) for row in here for root in roots}
    if not named:
        return None
    networks = {index.networks.get(row) for row in named}
    (network,) = networks if len(networks) == 1 else (None,)
    edge_row, edge_root = np.ascontiguousarray(np.array(sorted(edges), np.int64).reshape(-1, 2).T)
    pick = np.full(index.rows, NO_ROW, np.int64)
    pick[edge_root] = edge_row
    alone = len(np.unique(edge_root)) == len(edge_root)
    size = 0 if network is None else segments.sizes[network]
    return Nic(edge_row, edge_root, size in (0, len(named)), size == 1, pick if alone else None)
