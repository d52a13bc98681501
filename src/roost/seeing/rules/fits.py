"""Whether some servers fit together into what is free: the scheduler's own selection, on a copy of what is taken."""

from collections.abc import Mapping, Set
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from roost.scheduling.request import Request, place_of
from roost.scheduling.selection import join, select
from roost.scheduling.settings import SchedulingSettings
from roost.seams.placement import Candidates, add_allocations

Tried = tuple[Request, Candidates | None]
"""A narrowed request with what the search answered; None where it was not asked, since no host can do."""


class Alike(Struct, frozen=True):
    """Servers with equal requests. tried: each kind of their request. server_ids: in the order of their turns."""

    tried: tuple[Tried, ...]
    server_ids: tuple[str, ...]

    @property
    def answer(self) -> Candidates | None:
        """Return the candidates of all kinds together, None where nothing could be asked for."""
        answers = [answer for _, answer in self.tried if answer is not None]
        return join(answers) if answers else None


class Fit(Struct, frozen=True, kw_only=True):
    """What became of servers with equal requests. hosts: server id -> the host that it would be on.

    hosts_open: how many hosts would do for one of them, were it alone; no_room: the servers for which nothing is left.
    """

    alike: Alike
    hosts: Mapping[str, str]
    hosts_open: int
    no_room: tuple[str, ...]


def place_alike(
    alike: Alike,
    taken: Mapping[str, Mapping[str, int]],
    random: Random,
    settings: SchedulingSettings,
    *,
    closed: Set[str] = frozenset(),
) -> tuple[Fit, Mapping[str, Mapping[str, int]]]:
    """Place servers after those that took `taken`, as the conductor would; return that, and what is taken then.

    Nothing is claimed. taken: provider -> resource class -> amount. closed: names of hosts that are left out. An answer
    is dropped that leaves nobody out: there are as many candidates in it as hosts. Cost: one selection.
    """
    answer = alike.answer
    candidates = []
    names: Mapping[str, str] = {}
    if answer is not None:
        excluded = frozenset(closed) | alike.tried[0][0].excluded_hosts
        candidates = select(_with_taken(answer, taken), len(alike.server_ids), random, settings, excluded=excluded)
        names = {candidate.root_uuid: answer.summaries[candidate.root_uuid].name for candidate in answer.candidates}
    hosts = [names[candidate.root_uuid] for candidate in candidates]
    no_room = alike.server_ids[len(hosts) :]
    fitting = Fit(
        alike=alike if no_room else replace(alike, tried=()),
        hosts=dict(zip(alike.server_ids, hosts, strict=False)),
        hosts_open=len(set(names.values()) - closed),
        no_room=no_room,
    )
    return fitting, add_allocations(taken, *(candidate.allocations for candidate in candidates))


def _with_taken(answer: Candidates, taken: Mapping[str, Mapping[str, int]]) -> Candidates:
    """Return the answer as it would be if that were claimed too."""
    summaries = dict(answer.summaries)
    for uuid in taken.keys() & summaries.keys():
        resources = {
            name: (capacity, used + taken[uuid].get(name, 0))
            for name, (capacity, used) in summaries[uuid].resources.items()
        }
        summaries[uuid] = replace(summaries[uuid], resources=resources)
    return Candidates(answer.candidates, summaries)


def find_crowd(fit: Fit) -> str | None:
    """Return why the last of these servers find no host, where it is not that no host would do for any; else None."""
    if not fit.no_room or fit.alike.answer is None or not fit.alike.answer.candidates:
        return None
    request = fit.alike.tried[0][0]
    places = " and ".join(place_of(nic) for nic in request.nics if nic.pinned_to is not None)
    bound = f"; its address holds it to {places}" if places else ""
    if not fit.hosts_open:
        return f"only hosts that are to be empty would do for it{bound}"
    count, fitting = len(fit.alike.server_ids), len(fit.hosts)
    hosts = "the one host" if fit.hosts_open == 1 else f"the {fit.hosts_open} hosts"
    others = "no other server" if fitting == 0 else f"{fitting} of the {count} servers"
    return f"{hosts} that would do for it have room for {others} like it, besides what else is to go there{bound}"
