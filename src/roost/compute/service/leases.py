"""The leases that agents hold on hosts: taken and renewed by their polls. `compute/rules/leases.py` has the rules."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from roost.compute.errors import HostHeld
from roost.compute.model.cloud import HostLease
from roost.compute.rules.agent_tokens import EVERY_HOST, HostPatterns
from roost.compute.rules.leases import list_held_elsewhere
from roost.compute.service.context import Compute
from roost.compute.service.recovery import look_at_marks, mark_of
from roost.compute.store import guests as guest_rows
from roost.compute.store import leases as store
from roost.platform.errors import NotFound, RoostError
from roost.seams.agent import AgentIdentity, HeldElsewhere

HOSTS_BATCH_MAX = 1000


class Renewed(Struct, frozen=True, kw_only=True):
    """What an agent holds. hosts_behind: hosts that are back, which is still to be published.

    as_of: the database's time, in seconds since 1970, when that was looked at. mark: of the agent.
    """

    hosts_held: tuple[str, ...] = ()
    elsewhere: tuple[HeldElsewhere, ...] = ()
    hosts_behind: tuple[str, ...] = ()
    as_of: float = 0.0
    mark: str = ""


class LeaseRequest(Struct, frozen=True):
    """The hosts that one agent would serve."""

    hosts: tuple[str, ...]
    agent: AgentIdentity


async def renew_leases(compute: Compute, requests: Sequence[LeaseRequest]) -> list[Renewed | RoostError]:
    """Take or renew many agents' leases on the hosts that they ask for, as far as no other agent has them, in sets.

    Return what each holds, in order, or the error of its request: NotFound, which names the hosts that do not exist, or
    HostHeld where there is none that it may have.
    """
    answers: list[Renewed | RoostError] = []
    for together in split_by_agent(requests):
        agents_by_host = {host: request.agent for request in together for host in request.hosts}
        hosts = sorted(agents_by_host)
        leases_by_host: dict[str, HostLease] = {}
        hosts_behind: set[str] = set()
        as_of = 0.0
        for start in range(0, len(hosts), HOSTS_BATCH_MAX):
            batch = {host: agents_by_host[host] for host in hosts[start : start + HOSTS_BATCH_MAX]}
            async with compute.database.connection() as connection:
                read = await store.renew_leases(connection, batch, renew_after_s=compute.settings.heard_again_s)
            leases_by_host |= read.leases_by_host
            hosts_behind |= read.hosts_behind
            as_of = as_of or read.now_s
        marks = await look_at_marks(compute, [request.agent for request in together])
        for request in together:
            mark = mark_of(marks[request.agent.id])
            answers.append(_answer(compute, request, leases_by_host, hosts_behind, as_of, mark))
    return answers


async def release_leases(compute: Compute, agent: AgentIdentity, *, covered: HostPatterns = EVERY_HOST) -> None:
    """End the leases on the hosts that this agent serves, as far as the caller may speak for them."""
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
    mark: str,
) -> Renewed | RoostError:
    if missing := [host for host in request.hosts if host not in leases_by_host]:
        return NotFound(f"there is no host {', '.join(missing)}")
    leases = [leases_by_host[host] for host in request.hosts]
    hosts_held = tuple(lease.host for lease in leases if lease.taken)
    down_after_s = compute.settings.host_down_after_s
    elsewhere = tuple(list_held_elsewhere(leases, request.agent, host_down_after_s=down_after_s))
    if elsewhere and not hosts_held:
        more = f", and {len(elsewhere) - 1} more by others" if len(elsewhere) > 1 else ""
        return HostHeld(elsewhere[0].sentence() + more, elsewhere[0].ends_in_s)
    back = tuple(host for host in hosts_held if host in hosts_behind)
    return Renewed(hosts_held=hosts_held, elsewhere=elsewhere, hosts_behind=back, as_of=as_of, mark=mark)
