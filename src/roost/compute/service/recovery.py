"""Records that went back in time: noticed by the marks of agents, over once the hosts have said what they have.

Meanwhile conductors lease no work, agents get no orders and no report counts, and no guest is to be destroyed.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence

from roost.compute.model.recovery import MarkRow, Recovery
from roost.compute.model.work import GUEST_CHANNEL, WORK_CHANNEL
from roost.compute.rules import marks
from roost.compute.rules import recoveries as rules
from roost.compute.rules.events import of_records
from roost.compute.service.context import Compute
from roost.compute.service.events import record
from roost.compute.service.unknown_guests import hold_addresses
from roost.compute.store import agents as agent_rows
from roost.compute.store import recovery as store
from roost.platform.database import reading
from roost.platform.errors import Conflict
from roost.platform.events import LOSS, REPAIR
from roost.seams.agent import AgentIdentity

ENDED_BY_LISTS = "lists"
ENDED_BY_OPERATOR = "operator"


class NoRecovery(Conflict):
    """The records are not recovering."""


find_recovery = reading(store.find)
is_under_way = reading(store.is_under_way)


def unless_recovering(compute: Compute, work: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[None]]:
    """Return periodic work that does nothing while the records do not know what the hosts have."""

    async def work_on() -> None:
        if not await is_under_way(compute):
            await work()

    return work_on


async def look_at_mark(compute: Compute, agent: AgentIdentity, mark: MarkRow) -> MarkRow:
    """Begin a recovery where an agent was told a later mark than it has; return the mark that it has then."""
    while await notice_marks(compute, [(agent, mark)]):
        async with compute.database.connection() as connection:
            _, mark = await agent_rows.find_agent(connection, agent.id)
    return mark


async def notice_marks(compute: Compute, marks_read: Sequence[tuple[AgentIdentity, MarkRow]]) -> bool:
    """Begin a recovery where an agent was told a later mark than its row has; return whether one was."""
    ahead = [(agent, row, mark_told) for agent, row in marks_read if (mark_told := told_later(agent, row))]
    for agent, row, mark_told in ahead:
        await begin_recovery(compute, agent, mark_told=mark_told, mark_known=row.value)
    return bool(ahead)


def told_later(agent: AgentIdentity, row: MarkRow) -> int | None:
    """Return the number that the agent was told, if it proves that the records went back."""
    if row.key is None:
        return None
    return marks.find_later(agent.mark, agent_id=agent.id, key=row.key, mark_known=row.value)


def mark_of(row: MarkRow) -> str:
    """Return the mark that the agent is to keep; "" where nothing is known of it yet."""
    return marks.write_mark(row.value, agent_id=row.agent_id, key=row.key) if row.value and row.key else ""


async def begin_recovery(compute: Compute, agent: AgentIdentity, *, mark_told: int, mark_known: int) -> None:
    """Stop all that would act on records that went back, until the hosts have said what they have."""
    async with compute.database.transaction() as tx:
        began = await store.begin(tx, agent.id, agent.label, mark_told=mark_told, mark_known=mark_known)
        reason = f"agent {agent.label} was told mark {mark_told}, and the records know of {mark_known}"
        recorded = await record(tx, of_records(LOSS, f"the records went back in time: {reason}") if began else [])
    if began:
        recorded.tell()
        compute.wake(GUEST_CHANNEL)


async def note_listed(compute: Compute, hosts: Collection[str]) -> None:
    """Record that all guests of these hosts were listed, once the addresses of those that nobody knows are held.

    Raises what the network service raises, so that the agent lists them again.
    """
    await hold_addresses(compute, hosts)
    async with compute.database.transaction() as tx:
        await store.note_listed(tx, hosts)


async def look(compute: Compute) -> Recovery | None:
    """Begin a recovery where the database is another one, and end one once all hosts that are alive have listed.

    Return what is still under way.
    """
    async with compute.database.transaction() as tx:
        began = await store.note_database(tx)
        reason = "the database is another one than before: hosts list their guests before anything is launched"
        recorded = await record(tx, of_records(LOSS, reason) if began else [])
    if began:
        recorded.tell()
        compute.wake(GUEST_CHANNEL)
    recovery = await find_recovery(compute)
    if recovery is None or not rules.is_over(recovery, host_down_after_s=compute.settings.host_down_after_s):
        return recovery
    await _end(compute, recovery, ENDED_BY_LISTS)
    return None


async def tell_recovery(compute: Compute) -> str | None:
    """Return what is waited for, in words for operators; None where nothing is.

    Another database counts from its first answer on, whether the listeners of agents have noted it or not.
    """
    if (recovery := await find_recovery(compute)) is not None:
        return rules.recovery_sentence(recovery)
    return rules.ANOTHER_DATABASE if await is_under_way(compute) else None


async def end_recovery(compute: Compute) -> Recovery:
    """End the recovery whatever was listed, as an operator vouches; return what it was. Raises NoRecovery."""
    recovery = await find_recovery(compute)
    if recovery is None:
        raise NoRecovery("the records did not go back in time, or follow the hosts again")
    await _end(compute, recovery, ENDED_BY_OPERATOR)
    return recovery


async def _end(compute: Compute, recovery: Recovery, ended_by: str) -> None:
    async with compute.database.transaction() as tx:
        ended = await store.end(tx, recovery.id, ended_by=ended_by)
        reason = f"the records follow the hosts again after {recovery.age_s:.0f} s: {ended_by}"
        recorded = await record(tx, of_records(REPAIR, reason) if ended else [])
    if ended:
        recorded.tell()
        compute.wake(WORK_CHANNEL)
        compute.wake(GUEST_CHANNEL)
