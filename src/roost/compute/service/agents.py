"""Agents: which of their calls are taken, and what their polls leave on their rows. `rules/agents.py` has the rules."""

from collections.abc import Collection, Mapping, Sequence

import structlog

from roost.compute.errors import AgentRefused
from roost.compute.model.agents import AgentPoll, AgentRow
from roost.compute.model.cloud import HostLease
from roost.compute.model.recovery import MarkRow
from roost.compute.rules import agents as rules
from roost.compute.service.context import Compute
from roost.compute.store import agents as store
from roost.compute.store import leases as lease_rows
from roost.platform.database import Connection
from roost.seams.agent import AgentIdentity

log = structlog.get_logger()


def log_older_agents(hosts_fallen: Collection[str], leases_by_host: Mapping[str, HostLease]) -> None:
    """Log the hosts whose agents are of a lower service version than before: somebody started an older one."""
    for host in sorted(hosts_fallen):
        lease = leases_by_host[host]
        holder = lease.holder.label if lease.holder is not None else ""
        log.error("a host's agent is older than the one before", host=host, agent=holder)


async def admit_call(compute: Compute, agent: AgentIdentity, *, takes_leases: bool = False) -> MarkRow:
    """Return the agent's mark in the records. Raises AgentRefused when the call is not the agent's that has the id.

    The call is no poll. takes_leases: the id gets its row, and the secret that the call brings, if it has none yet.
    """
    async with compute.database.connection() as connection:
        row, mark = await store.find_agent(connection, agent.id)
    if (row is None and not takes_leases) or (row is not None and rules.is_settled(agent, row)):
        return mark
    async with compute.database.transaction() as tx:
        rows, now = await store.lock_agents(tx, [agent.id], add=takes_leases)
        assert now is not None
        lease_s = compute.settings.host_down_after_s
        admission = rules.decide_admission(agent, rows[agent.id], now=now, lease_s=lease_s, begins=False)
        await _write(tx, rows[agent.id], admission)
    if admission.refusal is not None:
        raise AgentRefused(admission.refusal.sentence, admission.refusal.retry_after_s)
    return mark


async def admit_polls(compute: Compute, polls: Sequence[tuple[AgentPoll, bool]]) -> list[AgentRefused | None]:
    """Return for each poll, in order, why it is not taken; None: it is. A start that is not known becomes the newest.

    The second of each pair says whether the agent named its hosts: those of its guests must be among them.
    """
    errors: list[AgentRefused | None] = []
    async with compute.database.transaction() as tx:
        rows, now = await store.lock_agents(tx, {poll.agent.id for poll, _ in polls}, add=True)
        assert now is not None
        named = [poll for poll, names_hosts in polls if names_hosts]
        hosts_by_agent = await store.list_hosts_with_guests_of(tx, named) if named else {}
        for poll, names_hosts in polls:
            agent = poll.agent
            row = rows[agent.id]
            lease_s = compute.settings.host_down_after_s
            admission = rules.decide_admission(agent, row, now=now, lease_s=lease_s)
            if admission.refusal is not None:
                errors.append(AgentRefused(admission.refusal.sentence, admission.refusal.retry_after_s))
            elif names_hosts and (hosts := hosts_by_agent.get(agent.id)):
                errors.append(AgentRefused(rules.sentence_of_guests(hosts)))
                continue  # it has not begun: its next poll is judged like this one
            else:
                errors.append(None)
            await _write(tx, row, admission)
            rows[agent.id] = admission.row
    return errors


async def settle_polls(compute: Compute, polls: Sequence[AgentPoll]) -> None:
    """Write which agents hold all that they ask for; take from them what they do not ask for any more.

    An agent that says no boot may be of a release that asks for its hosts in several polls: it keeps them.
    """
    async with compute.database.transaction() as tx:
        await store.lock_agents(tx, {poll.agent.id for poll in polls}, add=False)  # R43
        ids_dropping = await store.settle_agents(tx, polls)
    if ids_dropping:
        async with compute.database.connection() as connection:
            polls_dropping = [p for p in polls if p.agent.id in ids_dropping and p.agent.boot_id is not None]
            await lease_rows.release_other_leases(connection, polls_dropping)


async def _write(tx: Connection, row: AgentRow, admission: rules.Admission) -> None:
    if admission.row != row:
        await store.write_agent(tx, admission.row)
    if admission.refusal is not None and (row.former_at is None or not admission.refusal.clash):
        log.warning("an agent is not served", reason=admission.refusal.sentence)
