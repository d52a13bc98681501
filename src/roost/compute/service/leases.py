"""The leases that agents hold on hosts: taken and renewed by their polls. `compute/rules/leases.py` has the rules."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.errors import HostHeld
from roost.compute.model.cloud import HostLease
from roost.compute.rules.agent_tokens import EVERY_HOST, HostPatterns
from roost.compute.rules.agents import poll_of
from roost.compute.rules.events import of_returned
from roost.compute.rules.leases import list_held_elsewhere
from roost.compute.service.agents import admit_call, admit_polls, log_older_agents, settle_polls
from roost.compute.service.context import Compute
from roost.compute.service.events import record
from roost.compute.service.recovery import mark_of, notice_marks
from roost.compute.store import agents as agent_rows
from roost.compute.store import guests as guest_rows
from roost.compute.store import leases as store
from roost.platform.errors import NotFound, RoostError
from roost.seams.agent import AgentIdentity, HeldElsewhere

HOSTS_BATCH_MAX = 1000


class Renewed(Struct, frozen=True, kw_only=True):
    """What an agent holds. hosts_behind: hosts that are back, which is still to be published.

    as_of: the database's time, in seconds since 1970, when that was looked at. mark: of the agent.
    """

    hosts_held: frozenset[str] = frozenset()
    elsewhere: tuple[HeldElsewhere, ...] = ()
    hosts_behind: tuple[str, ...] = ()
    as_of: float = 0.0
    mark: str = ""


class LeaseRequest(Struct, frozen=True):
    """The hosts that one agent would serve. named: it chose them; otherwise it serves what was declared."""

    hosts: tuple[str, ...]
    agent: AgentIdentity
    named: bool = False


async def renew_leases(compute: Compute, requests: Sequence[LeaseRequest]) -> list[Renewed | RoostError]:
    """Take or renew many agents' leases on the hosts that they ask for, as far as no other agent has them, in sets.

    Return what each holds, in order, or the error of its request: AgentRefused for an agent that is not served,
    NotFound, which names the hosts that do not exist, or HostHeld where there is none that it may have. Hosts that an
    agent does not ask for any more are released. An agent that goes on as it was costs one statement of no host.
    """
    settings = compute.settings
    polls = [poll_of(request.agent, request.hosts, lease_length_s=settings.host_down_after_s) for request in requests]
    async with compute.database.connection() as connection:
        heard = await agent_rows.hear_agents(connection, polls, renew_after_s=settings.heard_again_s)
    await notice_marks(compute, [(request.agent, poll.mark) for request, poll in zip(requests, heard, strict=True)])
    answers: dict[int, Renewed | RoostError] = {
        number: Renewed(hosts_held=frozenset(polls[number].hosts), as_of=poll_heard.now_s)
        for number, poll_heard in enumerate(heard)
        if poll_heard.renewed
    }
    if unsettled := [number for number, poll_heard in enumerate(heard) if not poll_heard.settled]:
        errors = await admit_polls(compute, [(polls[number], requests[number].named) for number in unsettled])
        answers |= {number: error for number, error in zip(unsettled, errors, strict=True) if error is not None}
    rest = [number for number in range(len(requests)) if number not in answers]
    taken = await _take_leases(compute, [requests[number] for number in rest])
    answers |= dict(zip(rest, taken, strict=True))
    if serving := [polls[number] for number in rest if isinstance(answers[number], Renewed) and polls[number].hosts]:
        await settle_polls(compute, serving)
    for number, answer in answers.items():
        if isinstance(answer, Renewed):
            answers[number] = replace(answer, mark=mark_of(heard[number].mark))
    return [answers[number] for number in range(len(requests))]


async def _take_leases(compute: Compute, requests: Sequence[LeaseRequest]) -> list[Renewed | RoostError]:
    """Take or renew leases on the rows of the hosts."""
    renew_after_s, lease_length_s = compute.settings.heard_again_s, compute.settings.host_down_after_s
    answers: list[Renewed | RoostError] = []
    for together in split_by_agent(requests):
        agents_by_host = {host: request.agent for request in together for host in request.hosts}
        hosts = sorted(agents_by_host)
        leases_by_host: dict[str, HostLease] = {}
        hosts_behind: set[str] = set()
        as_of = 0.0
        for start in range(0, len(hosts), HOSTS_BATCH_MAX):
            batch = {host: agents_by_host[host] for host in hosts[start : start + HOSTS_BATCH_MAX]}
            async with compute.database.transaction() as tx:
                read = await store.renew_leases(tx, batch, renew_after_s=renew_after_s, lease_length_s=lease_length_s)
                recorded = await record(tx, of_returned(read.hosts_returned))
            recorded.tell()
            log_older_agents(read.hosts_fallen, read.leases_by_host)
            leases_by_host |= read.leases_by_host
            hosts_behind |= read.hosts_behind
            as_of = as_of or read.now_s
        answers += [_answer(compute, request, leases_by_host, hosts_behind, as_of) for request in together]
    return answers


async def release_leases(compute: Compute, agent: AgentIdentity, *, covered: HostPatterns = EVERY_HOST) -> None:
    """End the leases on the hosts that this agent serves, as far as the caller may speak for them.

    Raises AgentRefused.
    """
    await admit_call(compute, agent)
    async with compute.database.transaction() as tx:
        hosts = await guest_rows.list_hosts_of(tx, agent_id=agent.id, after="", until=None)
        await store.release_leases(tx, [host for host in hosts if covered.covers(host)], agent)


def split_by_agent(requests: Sequence[LeaseRequest]) -> list[list[LeaseRequest]]:
    """Split the requests, in order, where one asks for a host that another agent asks for."""
    sets: list[list[LeaseRequest]] = []
    agents_by_host: dict[str, AgentIdentity] = {}
    for request in requests:
        if not sets or any(agents_by_host.get(host, request.agent) != request.agent for host in request.hosts):
            sets.append([])
            agents_by_host = {}
        sets[-1].append(request)
        agents_by_host |= dict.fromkeys(request.hosts, request.agent)
    return sets


def _answer(
    compute: Compute,
    request: LeaseRequest,
    leases_by_host: Mapping[str, HostLease],
    hosts_behind: Collection[str],
    as_of: float,
) -> Renewed | RoostError:
    if missing := [host for host in request.hosts if host not in leases_by_host]:
        return NotFound(f"there is no host {', '.join(missing)}")
    leases = [leases_by_host[host] for host in request.hosts]
    hosts_held = frozenset(lease.host for lease in leases if lease.taken)
    down_after_s = compute.settings.host_down_after_s
    elsewhere = tuple(list_held_elsewhere(leases, request.agent, host_down_after_s=down_after_s))
    if elsewhere and not hosts_held:
        more = f", and {len(elsewhere) - 1} more by others" if len(elsewhere) > 1 else ""
        return HostHeld(elsewhere[0].sentence() + more, elsewhere[0].ends_in_s)
    back = tuple(sorted(hosts_held & set(hosts_behind)))
    return Renewed(hosts_held=hosts_held, elsewhere=elsewhere, hosts_behind=back, as_of=as_of)
