"""Chooses a candidate for each of several equal servers, as if each came alone and saw what those before it took."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from random import Random

from roost.scheduling.settings import SchedulingSettings
from roost.scheduling.weighers import ADDRESS_WEIGHERS, HOST_WEIGHERS, Summaries, Weigher
from roost.seams.placement import ADDRESS_CLASSES, Candidate, Candidates, ProviderSummary

DEFAULTS = SchedulingSettings()
ADDRESSES = frozenset(ADDRESS_CLASSES)

Rank = list[float]
"""How good something is; the least is the best."""
AddressesTaken = frozenset[tuple[str, tuple[tuple[str, int], ...]]]
"""(provider, ((resource class, amount), ...)) of each provider of addresses."""


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
    """Keys, the best first; equal ones in the order of the keys.

    rank: returns a key's rank, None once the key is out. Who changes the rank of a key calls `changed`: it gets another
    entry, and the one before is dropped when it comes to the front.
    """

    def __init__(self, keys: Iterable[int], rank: Callable[[int], Rank | None]) -> None:
        self._rank = rank
        self._ranks = {key: rank(key) for key in keys}
        self._entries = [(ranked, key) for key, ranked in self._ranks.items() if ranked is not None]
        heapify(self._entries)

    def changed(self, key: int) -> None:
        rank = self._ranks[key] = self._rank(key)
        if rank is not None:
            heappush(self._entries, (rank, key))

    def find_best(self) -> tuple[Rank, int] | None:
        while self._entries:
            rank, key = self._entries[0]
            if rank is self._ranks[key]:
                return rank, key
            heappop(self._entries)
        return None


class _Selection:
    """Candidates in two levels: groups that take the same addresses, and the hosts of each.

    Who takes an address changes the rank of a group, not of each host in it, so a choice costs a logarithm. That holds
    for weighers of addresses alone and of the host alone. Hosts and groups are numbers, in the order of the candidates.
    """

    def __init__(self, candidates: Iterable[Candidate], summaries: Summaries, settings: SchedulingSettings) -> None:
        self._settings = settings
        self._summaries = dict(summaries)
        self._times_by_host: dict[int, int] = {}
        self._candidates: list[dict[int, list[Candidate]]] = []
        self._groups_by_provider: dict[str, set[int]] = defaultdict(set)
        hosts: dict[str, int] = {}
        groups: dict[AddressesTaken, int] = {}
        for candidate in candidates:
            group = groups.setdefault(_addresses(candidate), len(groups))
            if group == len(self._candidates):
                self._candidates.append({})
            host = hosts.setdefault(candidate.root_uuid, len(hosts))
            self._candidates[group].setdefault(host, []).append(candidate)
            for uuid in candidate.allocations:
                self._groups_by_provider[uuid].add(group)
        self._hosts = [_Queue(by_host, self._rank_hosts(by_host)) for by_host in self._candidates]
        self._groups = _Queue(range(len(groups)), self._rank_group)

    def choose(self, count: int) -> list[Candidate]:
        """Return the best `count` candidates, each used before the next is chosen; fewer if no more fit."""
        chosen: list[Candidate] = []
        while len(chosen) < count and (best_group := self._groups.find_best()) is not None:
            _, group = best_group
            best_host = self._hosts[group].find_best()
            assert best_host is not None  # a group without a host has no rank
            _, host = best_host
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
        for uuid, resources in candidate.allocations.items():
            for name, amount in resources.items():
                capacity, used = self._summaries[uuid].resources[name]
                if used + amount > capacity:
                    return False
        return True

    def _use(self, candidate: Candidate, host: int) -> None:
        for uuid, resources in candidate.allocations.items():
            self._summaries[uuid] = _with_more_used(self._summaries[uuid], resources)
        self._times_by_host[host] = self._times_by_host.get(host, 0) + 1
        for group in self._groups_by_provider[candidate.root_uuid]:
            self._hosts[group].changed(host)
        for group in set[int]().union(*(self._groups_by_provider[uuid] for uuid in candidate.allocations)):
            self._groups.changed(group)

    def _rank_hosts(self, candidates_by_host: Mapping[int, Sequence[Candidate]]) -> Callable[[int], Rank | None]:
        def rank(host: int) -> Rank | None:
            candidates = candidates_by_host[host]
            if not candidates:
                return None
            return [*self._weigh(candidates[-1], HOST_WEIGHERS), self._times_by_host.get(host, 0), host]

        return rank

    def _rank_group(self, group: int) -> Rank | None:
        best = self._hosts[group].find_best()
        if best is None:
            return None
        rank, host = best
        return self._weigh(self._candidates[group][host][-1], ADDRESS_WEIGHERS) + rank

    def _weigh(self, candidate: Candidate, weighers: Sequence[Weigher]) -> Rank:
        return [-weigher(candidate, self._summaries, self._settings) for weigher in weighers]


def _addresses(candidate: Candidate) -> AddressesTaken:
    """Return what a candidate takes of providers of addresses."""
    return frozenset(
        [
            (uuid, tuple(resources.items()))
            for uuid, resources in candidate.allocations.items()
            if not ADDRESSES.isdisjoint(resources)
        ]
    )


def _with_more_used(summary: ProviderSummary, amounts: Mapping[str, int]) -> ProviderSummary:
    resources = dict(summary.resources)
    for name, amount in amounts.items():
        capacity, used = resources[name]
        resources[name] = (capacity, used + amount)
    return ProviderSummary(summary.uuid, summary.name, resources)
