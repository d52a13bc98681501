"""Chooses a candidate for each of several equal servers, so that together they fit."""

from collections.abc import Mapping, Sequence
from random import Random

from roost.scheduling.settings import SchedulingSettings
from roost.scheduling.weighers import weigh
from roost.seams.placement import Candidate, Candidates

DEFAULTS = SchedulingSettings()


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

    excluded: names of hosts that will not do. quiet: names of hosts that were not heard of lately, which are used last,
    and not at all with `elsewhere`, which says that another search will follow. Better candidates come first,
    equal ones in random order, so that several conductors do not all ask for the same; each host is taken once before
    any is taken twice. Fewer than `count` come back when the candidates found hold no more: ask the ledger again after
    claiming them.
    """
    hosts = {candidate.root_uuid: answer.summaries[candidate.root_uuid].name for candidate in answer.candidates}
    allowed = [candidate for candidate in answer.candidates if hosts[candidate.root_uuid] not in excluded]
    ranked = [candidate for candidate in allowed if hosts[candidate.root_uuid] not in quiet]
    if not ranked and not elsewhere:
        ranked = allowed
    random.shuffle(ranked)
    ranked.sort(key=lambda candidate: weigh(candidate, answer.summaries, settings), reverse=True)
    free: dict[tuple[str, str], int] = {
        (uuid, name): capacity - used
        for uuid, summary in answer.summaries.items()
        for name, (capacity, used) in summary.resources.items()
    }
    chosen: list[Candidate] = []
    while ranked and len(chosen) < count:
        fitting = []
        for candidate in ranked:
            if len(chosen) == count:
                break
            if _take(candidate, free):
                chosen.append(candidate)
                fitting.append(candidate)
        ranked = fitting
    return chosen


def join(answers: Sequence[Candidates]) -> Candidates:
    """Return the candidates of several searches for the same servers, to choose from together."""
    if len(answers) == 1:
        return answers[0]
    return Candidates(
        candidates=tuple(candidate for answer in answers for candidate in answer.candidates),
        summaries={uuid: summary for answer in answers for uuid, summary in answer.summaries.items()},
    )


def _take(candidate: Candidate, free: dict[tuple[str, str], int]) -> bool:
    amounts_asked = _amounts(candidate)
    if any(free[key] < amount for key, amount in amounts_asked.items()):
        return False
    for key, amount in amounts_asked.items():
        free[key] -= amount
    return True


def _amounts(candidate: Candidate) -> Mapping[tuple[str, str], int]:
    return {
        (uuid, name): amount for uuid, resources in candidate.allocations.items() for name, amount in resources.items()
    }
