"""Chooses a candidate for each of several equal servers, as if each came alone and saw what those before it took."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from random import Random

from roost.scheduling.settings import SchedulingSettings
from roost.scheduling.weighers import (
    ADDRESS_WEIGHERS,
    ADDRESSES,
    HOST_WEIGHERS,
    Address,
    Summaries,
    find_tenths,
    list_addresses,
)
from roost.seams.placement import Candidate, Candidates

DEFAULTS = SchedulingSettings()

Rank = tuple[int, ...]
"""How good something is, the least is the best; at its end the number of what it is."""


def select(
    answer: Candidates,
    count: int,
    random: Random,
    settings: SchedulingSettings = DEFAULTS,
    *,
    excluded: frozenset[str] = frozenset(),
    quiet: frozenset[str] = frozenset(),
    elsewhere: bool = False,
) -> list[Candidate]:
    """Return up to `count` candidates, one for each server, that fit together into what is free.

    Each is the best by what is free once those before it are taken. Of equal ones the host that was chosen least often
    comes first, then chance decides, so that several conductors do not all ask for the same.

    excluded: names of hosts that will not do. quiet: names of hosts that were not heard of lately, which are used last,
    and not at all with `elsewhere`, which says that another search will follow. Fewer than `count` come back when the
    candidates found hold no more: ask the ledger again after claiming them.
    """
    hosts = {candidate.root_uuid: answer.summaries[candidate.root_uuid].name for candidate in answer.candidates}
    allowed = [candidate for candidate in answer.candidates if hosts[candidate.root_uuid] not in excluded]
    ranked = [candidate for candidate in allowed if hosts[candidate.root_uuid] not in quiet]
    if not ranked and not elsewhere:
        ranked = allowed
    random.shuffle(ranked)
    return _Selection(ranked, answer.summaries, settings).choose(count)


def join(answers: Sequence[Candidates]) -> Candidates:
    """Return the candidates of several searches for the same servers, to choose from together."""
    if len(answers) == 1:
        return answers[0]
    return Candidates(
        candidates=tuple(candidate for answer in answers for candidate in answer.candidates),
        summaries={uuid: summary for answer in answers for uuid, summary in answer.summaries.items()},
    )


class _Queue:
    """Keys, the best first.

    rank: returns a key's rank, None once the key is out. Who changes the rank of a key calls `changed`: it gets another
    entry, and the one before is dropped when it comes to the front.
    """

    def __init__(self, keys: Iterable[int], rank: Callable[[int], Rank | None]) -> None:
        self._rank = rank
        self._ranks = {key: rank(key) for key in keys}
        self._entries = [ranked for ranked in self._ranks.values() if ranked is not None]
        heapify(self._entries)

    def changed(self, key: int) -> None:
        before, rank = self._ranks[key], self._rank(key)
        if rank == before:
            return
        self._ranks[key] = rank
        if rank is not None and self._entries and self._entries[0] is before:
            heapreplace(self._entries, rank)
        elif rank is not None:
            heappush(self._entries, rank)

    def find_best(self) -> Rank | None:
        entries, ranks = self._entries, self._ranks
        while entries:
            rank = entries[0]
            if rank is ranks[rank[-1]]:
                return rank
            heappop(entries)
        return None


class _Selection:
    """Candidates in two levels: groups that take the same addresses, and the hosts of each.

    A choice changes the rank of a host, and of its group. Those of other groups change where one more tenth of a
    segment is in use: weighers of addresses see tenths. So a choice costs a logarithm. Hosts and groups are numbers, in
    the order of the candidates.
    """

    def __init__(self, candidates: Iterable[Candidate], summaries: Summaries, settings: SchedulingSettings) -> None:
        self._settings = settings
        self._resources = {uuid: summary.resources for uuid, summary in summaries.items()}
        self._times_by_host: dict[int, int] = {}
        self._candidates: list[dict[int, list[Candidate]]] = []
        self._groups_by_host: list[list[int]] = []
        self._groups_by_address: dict[Address, list[int]] = defaultdict(list)
        hosts: dict[str, int] = {}
        groups: dict[tuple[Address, ...], int] = {}
        for candidate in candidates:
            addresses = list_addresses(candidate)
            group = groups.setdefault(addresses, len(groups))
            if group == len(self._candidates):
                self._candidates.append({})
                for address in addresses:
                    self._groups_by_address[address].append(group)
            host = hosts.setdefault(candidate.root_uuid, len(hosts))
            if host == len(self._groups_by_host):
                self._groups_by_host.append([])
            alternatives = self._candidates[group].setdefault(host, [])
            if not alternatives:
                self._groups_by_host[host].append(group)
            alternatives.append(candidate)
        self._addresses = list(groups)
        self._tenths = {
            (uuid, name): find_tenths(*self._resources[uuid][name]) for uuid, name in self._groups_by_address
        }
        self._weights: list[list[int]] = [[] for _ in groups]
        self._weigh(range(len(groups)))
        self._hosts = [_Queue(by_host, self._rank_hosts(by_host)) for by_host in self._candidates]
        self._groups = _Queue(range(len(groups)), self._rank_group)

    def choose(self, count: int) -> list[Candidate]:
        """Return the best `count` candidates, each used before the next is chosen; fewer if no more fit."""
        chosen: list[Candidate] = []
        while len(chosen) < count and (best_group := self._groups.find_best()) is not None:
            group = best_group[-1]
            best_host = self._hosts[group].find_best()
            assert best_host is not None  # a group without a host has no rank
            host = best_host[-1]
            candidate = self._candidates[group][host][-1]
            if self._fits(candidate):
                chosen.append(candidate)
                self._use(candidate, host)
            else:
                self._candidates[group][host].pop()
                self._hosts[group].changed(host)
                self._groups.changed(group)
        return chosen

    def _fits(self, candidate: Candidate) -> bool:
        for uuid, amounts in candidate.allocations.items():
            resources = self._resources[uuid]
            for name, amount in amounts.items():
                capacity, used = resources[name]
                if used + amount > capacity:
                    return False
        return True

    def _use(self, candidate: Candidate, host: int) -> None:
        self._times_by_host[host] = self._times_by_host.get(host, 0) + 1
        groups = set(self._groups_by_host[host])
        for uuid, amounts in candidate.allocations.items():
            resources = self._resources[uuid] = dict(self._resources[uuid])
            for name, amount in amounts.items():
                capacity, used = resources[name]
                resources[name] = (capacity, used + amount)
                if name in ADDRESSES and self._note_tenths((uuid, name)):
                    groups.update(self._weigh(self._groups_by_address[uuid, name]))
        for group in self._groups_by_host[host]:
            self._hosts[group].changed(host)
        for group in groups:
            self._groups.changed(group)

    def _rank_hosts(self, candidates_by_host: Mapping[int, Sequence[Candidate]]) -> Callable[[int], Rank | None]:
        def rank(host: int) -> Rank | None:
            candidates = candidates_by_host[host]
            if not candidates:
                return None
            resources = self._resources[candidates[-1].root_uuid]
            weights = [-weigher(resources, self._settings) for weigher in HOST_WEIGHERS]
            return *weights, self._times_by_host.get(host, 0), host

        return rank

    def _rank_group(self, group: int) -> Rank | None:
        best_host = self._hosts[group].find_best()
        return None if best_host is None else (*self._weights[group], *best_host, group)

    def _note_tenths(self, address: Address) -> bool:
        """Note how many tenths are free; return whether these are others than before."""
        uuid, name = address
        before = self._tenths[address]
        self._tenths[address] = find_tenths(*self._resources[uuid][name])
        return self._tenths[address] != before

    def _weigh(self, groups: Iterable[int]) -> list[int]:
        """Weigh groups by their addresses; return those whose weights are others than before."""
        settings, changed = self._settings, []
        for group in groups:
            tenths = [self._tenths[address] for address in self._addresses[group]]
            weights = [-weigher(tenths, settings) for weigher in ADDRESS_WEIGHERS]
            if weights != self._weights[group]:
                self._weights[group] = weights
                changed.append(group)
        return changed
