"""What conductors, hosts, networks and clocks do in a story, well or badly."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from tests.conductor.world import BY
from tests.simulation import errors, looks, pools, users
from tests.simulation.beginning import HOSTS, VCPUS
from tests.simulation.chance import SKEW_S_MAX
from tests.simulation.effects import SLEEPS, Fate, Partition, Plan, run_planned
from tests.simulation.hosts import POWER_STATES, Turn
from tests.simulation.story import Story

from roost.compute.rules import actions as rules
from roost.compute.service import actions, recovery
from roost.compute.service.unknown_guests import hold_round
from roost.conductor.reconcile import reconcile_once as reconcile_claims
from roost.network.service.reconciler import reconcile_once as reconcile_ports
from roost.seams.agent import NICS_UP

Step = Callable[[Story], Awaitable[None]]

SLEEPERS_MAX = 2
LEASE_IS_OVER_S = 35.0
LAUNCH_IS_LATE_S = 70.0
SILENT_AFTER_S = 40.0
BACK_SHARE = 0.6
EVACUATED_SHARE = 0.5
CABLED_OTHERWISE = ([], ["elsewhere"], ["backend"])
CALLS = (1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20)
"""Which of a conductor's calls goes wrong; a batch of deletes makes four, a boot twenty."""
CUT_OFF = (1, 2, 3, 5, 8)
FENCED_CALLS = ("change_stages", "change_stages", "claim", "bind_ports", "get_consumers")
FENCED_SHARE = 0.4
"""How often it is one of those: calls that a conductor without its lease must not do any harm with."""
PASS_TIME = """
WITH work AS (
    UPDATE compute.work SET lease_until = lease_until - $1 * interval '1 s', run_at = run_at - $1 * interval '1 s'
), guest AS (
    UPDATE compute.guest SET created_at = created_at - $1 * interval '1 s', begun_at = begun_at - $1 * interval '1 s',
        running_at = running_at - $1 * interval '1 s', lost_at = lost_at - $1 * interval '1 s'
), host AS (
    UPDATE compute.host SET seen_at = seen_at - $1 * interval '1 s', listed_at = listed_at - $1 * interval '1 s'
), agent AS (
    UPDATE compute.agent SET seen_at = seen_at - $1 * interval '1 s', boot_at = boot_at - $1 * interval '1 s',
        boot_since = boot_since - $1 * interval '1 s', former_at = former_at - $1 * interval '1 s'
), recovery AS (
    UPDATE compute.recovery SET noticed_at = noticed_at - $1 * interval '1 s'
), move AS (
    UPDATE compute.move SET updated_at = updated_at - $1 * interval '1 s'
), intent AS (
    UPDATE network.intent SET expires_at = expires_at - $1 * interval '1 s'
), publication AS (
    UPDATE network.publication SET lease_until = lease_until - $1 * interval '1 s' WHERE lease_until IS NOT NULL
)
SELECT server_id FROM compute.work WHERE stage IN ('launch', 'copy', 'stop', 'restore')
"""
"""Leases and time-outs are by the database's clock: it goes on when all that it noted is longer ago.

Returns the servers that waited for their hosts meanwhile.
"""
SOURCES = """
SELECT DISTINCT source_host FROM compute.move WHERE open AND source_host IS NOT NULL ORDER BY 1
"""
IDLE = """
SELECT id FROM compute.server s WHERE NOT EXISTS (SELECT FROM compute.work w WHERE w.server_id = s.id)
    AND NOT EXISTS (SELECT FROM compute.move m WHERE m.server_id = s.id AND m.open)
"""
"""A guest whose server is on its way comes up by itself nowhere: its other host's could have its NICs up."""
TOLD_SHARE = 0.5


async def conduct(story: Story) -> None:
    """A conductor carries a batch."""
    await errors.look_for_room(story)
    plan = Plan(None, 0)
    plan.partition = story.partition
    ended = await run_planned(story.world.conductor, plan)
    if ended != "nothing":
        story.note("a conductor:", ended)
        await looks.look_around(story)


async def misconduct(story: Story) -> None:
    """A conductor has bad luck; one that sleeps is there until it is woken."""
    await _misconduct(story, story.random.choice(list(Fate)))


async def _misconduct(story: Story, fate: Fate, plan: Plan | None = None) -> Plan:
    if plan is None and story.random.random() < FENCED_SHARE:
        only = story.random.choice(FENCED_CALLS)
        plan = Plan(fate, story.random.choice((1, 2, 3, 4) if only == "change_stages" else (1, 1, 2)), only=only)
    plan = plan or Plan(fate, story.random.choice(CALLS))
    plan.partition = story.partition
    await errors.look_for_room(story)
    task = asyncio.create_task(run_planned(story.world.conductor, plan))
    asleep = asyncio.create_task(plan.asleep.wait())
    await asyncio.wait((task, asleep), return_when=asyncio.FIRST_COMPLETED)
    asleep.cancel()
    if not task.done():
        if len(story.sleepers) == SLEEPERS_MAX:
            await wake(story)
        story.sleepers.append((plan, task))
        story.note("a conductor", fate.value, plan.met)
    elif task.result() != "nothing":
        story.note("a conductor:", task.result(), plan.met and fate.value, plan.met)
        await errors.look_for_room(story)
    return plan


async def overtaken(story: Story) -> None:
    """A conductor sleeps until another has its servers, something has come of it, and then wakes."""
    plan = await _misconduct(story, story.random.choice(SLEEPS))
    if not plan.asleep.is_set():
        return
    await pass_time(story, LEASE_IS_OVER_S)
    story.focus = plan.server_ids
    await conduct(story)
    await meanwhile(story, WHILE_OVERTAKEN, story.random.choice((0, 1, 2, 4, 8, 12)))
    await _wake(story, plan)


async def interrupted(story: Story) -> None:
    """A conductor is slow, and something comes between two of its calls while it still has its lease."""
    plan = await _misconduct(story, story.random.choice(SLEEPS))
    if not plan.asleep.is_set():
        return
    story.focus = plan.server_ids
    await meanwhile(story, WHILE_SLOW, story.random.choice((1, 1, 2, 3)))
    await _wake(story, plan)


async def outcut(story: Story) -> None:
    """A conductor is slow after it has claimed, and the pools are changed that it has claims of."""
    await users.boot(story)
    plan = await _misconduct(story, Fate.SLEEPS_AFTER, Plan(Fate.SLEEPS_AFTER, 1, only="claim"))
    if plan.asleep.is_set():
        await pools.change_pools(story)
        await _wake(story, plan)


async def doubted(story: Story) -> None:
    """A conductor is slow to decide about launches that no host has begun, and hosts begin them meanwhile."""
    await conduct(story)
    await pass_time(story, LAUNCH_IS_LATE_S)
    plan = Plan(Fate.SLEEPS_BEFORE, story.random.choice((2, 3, 3, 4)))
    await _misconduct(story, Fate.SLEEPS_BEFORE, plan)
    if plan.asleep.is_set():
        await host_turn(story)
        await all_hosts(story)
        await _wake(story, plan)


async def unheard_launches(story: Story) -> None:
    """Hosts begin launches and carry them out, but nobody hears of that in time."""
    await conduct(story)
    await story.hosts.turn(story.hosts.names, Turn.LOST)
    story.note("all hosts:", Turn.LOST.value)
    await pass_time(story, LAUNCH_IS_LATE_S)
    await meanwhile(story, {conduct: 1}, 2)
    await host_turn(story)


async def outrun(story: Story) -> None:
    """Reports are late, and what they tell of has changed when they arrive."""
    compute = story.world.compute
    servers = [server for server, status in sorted((await story.world.statuses()).items()) if status == "ACTIVE"]
    if (server := story.some(servers)) is None:
        return
    reboot = partial(actions.change_power, compute, server, rules.REBOOT_HARD, BY)
    await story.ask("reboot-hard", server, reboot)
    await story.hosts.turn(story.hosts.names, Turn.LATE)
    story.focus = [server]
    await story.ask("reboot-hard", server, reboot)
    await meanwhile(story, {conduct: 1, let_time_pass: 1}, story.random.choice((0, 1)))
    while story.hosts.late:
        await send_late(story)


async def meanwhile(story: Story, weights: Mapping[Step, float], count: int) -> None:
    for step in story.random.choices(list(weights), list(weights.values()), k=count):
        await step(story)
    story.focus = []


async def part(story: Story) -> None:
    """Conductors do not reach one of the services for some time."""
    story.partition = Partition(story.random.choice(("placement", "network", "compute")), story.random.choice(CUT_OFF))
    story.note("conductors do not reach", story.partition.service, "for", story.partition.calls_left, "calls")


async def upgrade(story: Story) -> None:
    """The agent of a host is of another version from now on, in a fleet of several."""
    if story.hosts.versions:
        await story.upgrade(story.random.choice(story.hosts.names), story.random.choice((1, 2, 3)))


async def wake(story: Story) -> None:
    """A conductor wakes that slept."""
    if story.sleepers:
        plan, _ = story.random.choice(story.sleepers)
        await _wake(story, plan)


async def _wake(story: Story, plan: Plan) -> None:
    await errors.look_for_room(story)
    for sleeper in [sleeper for sleeper in story.sleepers if sleeper[0] is plan]:
        story.sleepers.remove(sleeper)
        plan.woken.set()
        story.note("a conductor wakes:", await sleeper[1])
        await looks.look_around(story)


async def host_turn(story: Story) -> None:
    """A host does what it is asked for, in one way or another."""
    host = story.random.choice(story.hosts.names)
    how = story.random.choices(list(Turn), (12, 3, 2, 2, 3, 1, 2, 1))[0]
    if orders := await story.hosts.turn([host], how):
        story.note(host, "had", orders, "orders:", how.value)


async def all_hosts(story: Story) -> None:
    """All hosts do what they are asked for."""
    await story.hosts.turn(story.hosts.names, Turn.FINE)
    story.note("all hosts")


async def all_fail(story: Story) -> None:
    """Whatever hosts launch fails."""
    await story.hosts.turn(story.hosts.names, Turn.FAILS)
    story.note("all hosts fail launches")


async def by_itself(story: Story) -> None:
    """A guest does something by itself, of which its host tells at once, or with its next list."""
    async with story.world.database.connection() as connection:
        idle = {row["id"] for row in await connection.fetch(IDLE)}
    silent = story.hosts.cut | story.hosts.off | story.hosts.versions.keys() | story.hosts.unlisted
    keys = [
        key
        for key, guest in sorted(story.hosts.guests.items())
        if key[1] not in silent and guest.state in POWER_STATES and not guest.dark
    ]
    if not keys:
        return
    key = story.random.choice(keys)
    states = [state for state in POWER_STATES if state not in NICS_UP or key[0] in idle]
    state, is_told = story.random.choice(states), story.random.random() < TOLD_SHARE
    if state != story.hosts.guests[key].state:
        await story.hosts.change_by_itself(key, state, is_told=is_told)
        story.note(key[0], "on", key[1], "is", state, "by itself" if is_told else "by itself, which nobody hears")


async def list_all(story: Story) -> None:
    """All hosts that are heard list what they have."""
    await story.hosts.list_guests(story.hosts.names)
    story.note("all hosts list their guests")


async def send_late(story: Story) -> None:
    """A report arrives that was under way for long."""
    if story.hosts.late:
        story.random.shuffle(story.hosts.late)
        agent, report = story.hosts.late.pop()
        story.note(report.host, "reports late:", report.server_id, report.state)
        if not story.hosts.agents.has_agent(report.host, agent):
            story.copied_s = story.passed_s
        await story.hosts.send([report], agent)


async def cut_off(story: Story) -> None:
    """Nothing is heard of a host any more."""
    host = story.random.choice(story.hosts.names)
    story.hosts.cut.add(host)
    story.hosts.forget_kept(host)
    await errors.harm_near(story, host)
    story.note(host, "is cut off")


async def cut_one_way(story: Story) -> None:
    """A host is cut off in the middle of its turn: what it says is lost, or what it is answered."""
    host = story.random.choice(story.hosts.names)
    how, lost = story.random.choice(((Turn.LOST, story.hosts.cut), (Turn.UNANSWERED, story.hosts.deaf)))
    await story.hosts.turn([host], how)
    lost.add(host)
    story.hosts.forget_kept(host)
    await errors.harm_near(story, host)
    story.note(host, "is cut off in one direction:", how.value)


async def lose_power(story: Story) -> None:
    """A host loses its power, and an operator says so."""
    await _lose_power(story, story.random.choice(story.hosts.names))


async def _lose_power(story: Story, host: str) -> None:
    story.hosts.lose_power(host)
    await users.force_down(story, host, True)
    await errors.harm_near(story, host)
    story.note(host, "loses its power, and is forced down")


async def come_back(story: Story) -> None:
    """A host that was cut off or without power is back."""
    if lost := sorted(story.hosts.cut | story.hosts.off | story.hosts.deaf):
        await bring_back(story, story.random.choice(lost))


async def bring_back(story: Story, host: str) -> None:
    """Have a host as it should be."""
    if host in story.hosts.off:
        await users.force_down(story, host, False)
    story.hosts.come_back(host, story.chance.env.new_uuid())
    story.note(host, "is back")


async def disaster(story: Story) -> None:
    """A host loses its power, its servers are evacuated, and something comes of that before it is back."""
    await lose_power(story)
    await users.evacuate(story)
    await meanwhile(story, AFTER_DISASTER, story.random.choice((2, 4, 6, 8)))


async def recabled(story: Story) -> None:
    """A server's host is cabled otherwise while the server moves away, or back; then as it was before."""
    await users.move(story)
    await meanwhile(story, WHILE_MOVING, story.random.choice((1, 4, 6)))
    async with story.world.database.connection() as connection:
        rows = await connection.fetch(SOURCES)
    if (host := story.some([row["source_host"] for row in rows])) is None:
        return
    await cable(story, host)
    for step in (all_fail, conduct, all_hosts, conduct)[: story.random.choice((2, 4, 4))]:
        await step(story)
    await meanwhile(story, WHILE_MOVING, story.random.choice((0, 2, 4)))
    await cable(story, host, as_before=True)


async def cable(story: Story, host: str, *, as_before: bool = False) -> None:
    """Have a host reach fewer networks than at the beginning, or the same again.

    It never reaches another rack: a server that is made there has an address that nobody reaches afterwards.
    """
    reach = [HOSTS[host], "backend"] if as_before else story.random.choice(CABLED_OTHERWISE)
    if as_before:
        story.hosts.recabled.discard(host)
    else:
        story.hosts.recabled.add(host)
        await errors.harm_near(story, host)
    await story.world.declare(host, reach=reach, vcpus=VCPUS)
    story.note(host, "is cabled", "as before" if as_before else f"otherwise: {reach}")


async def cable_some(story: Story) -> None:
    """A host is cabled otherwise, or as before."""
    if (host := story.some(sorted(story.hosts.recabled))) is not None and story.random.random() < BACK_SHARE:
        await cable(story, host, as_before=True)
    else:
        await cable(story, story.random.choice(story.hosts.names))


async def reinstalled(story: Story) -> None:
    """A host loses its power, is installed anew, and comes back empty under another agent's id."""
    if not story.hosts.agents.own:
        return
    host = story.random.choice(story.hosts.names)
    await _lose_power(story, host)
    await pass_time(story, SILENT_AFTER_S)
    await all_hosts(story)
    await look_for_silent(story)
    if story.random.random() < EVACUATED_SHARE:
        await users.evacuate(story)
    await meanwhile(story, AFTER_DISASTER, story.random.choice((0, 2, 4)))
    if host in story.hosts.off:
        story.hosts.reinstall(host, story.chance.env.new_uuid(), story.chance.env.new_uuid())
        story.note(host, "is installed anew")
        if story.random.random() < BACK_SHARE:
            await bring_back(story, host)


async def restart_agent(story: Story) -> None:
    """A host's agent begins anew: it tells first which guests it has."""
    host = story.random.choice(story.hosts.names)
    story.hosts.restart_agent(host, story.chance.env.new_uuid())
    story.note("the agent of", host, "begins anew")


async def doubted_host(story: Story) -> None:
    """A host is cut off until everybody takes it for silent, its servers are evacuated, and it is back or not."""
    await cut_off(story)
    await pass_time(story, SILENT_AFTER_S)
    await look_for_silent(story)
    await users.evacuate(story)
    await meanwhile(story, AFTER_DISASTER, story.random.choice((2, 4)))


async def let_time_pass(story: Story) -> None:
    """Time passes."""
    await pass_time(story, story.random.choice((1.0, 10.0, LEASE_IS_OVER_S)))


async def pass_time(story: Story, for_s: float) -> None:
    """Have so much time passed."""
    story.chance.pass_time(for_s)
    story.passed_s += for_s
    await age_records(story, for_s)
    story.note("time passes:", for_s)


async def age_records(story: Story, by_s: float) -> None:
    """Have all that the records noted so much longer ago."""
    async with story.world.database.connection() as connection:
        waiting = await connection.fetch(PASS_TIME, by_s)
    story.harmed.update(str(row["server_id"]) for row in waiting)


async def skew(story: Story) -> None:
    """The clock of a machine jumps."""
    story.chance.skew_s = story.random.uniform(-SKEW_S_MAX, SKEW_S_MAX)
    story.note("a clock jumps")


async def look_for_silent(story: Story) -> None:
    """Somebody looks which hosts have fallen silent."""
    if names := await story.world.look_for_silent():
        story.note("silent:", *sorted(names))
        for name in names:
            await errors.harm_near(story, name)


async def reconcile(story: Story) -> None:
    """The reconcilers do a round, unless the records do not know yet what the hosts have."""
    compute = story.world.compute
    if story.restored:
        await hold_round(compute)
        story.recovering = await recovery.look(compute) is not None
    if not story.recovering:
        await reconcile_ports(story.world.networks)
        await reconcile_claims(story.world.conductor)
    story.note("reconciled", "not, since the records recover" if story.recovering else "")


WHILE_OVERTAKEN: Mapping[Step, float] = {
    conduct: 7, all_hosts: 4, all_fail: 2, host_turn: 2, users.move: 3, users.end_move: 2, users.delete: 1,
    users.power: 1, users.abort: 0.5, cut_off: 0.5, let_time_pass: 1, pools.change_pools: 2,
}  # fmt: skip
WHILE_SLOW: Mapping[Step, float] = {
    users.delete: 3, users.delete_port: 1, users.change_port: 1, users.abort: 1, users.power: 1, all_hosts: 3,
    host_turn: 2, send_late: 1, lose_power: 0.5, come_back: 1, pools.change_pools: 4,
}  # fmt: skip
WHILE_MOVING: Mapping[Step, float] = {conduct: 6, all_hosts: 3, all_fail: 3, host_turn: 1}
AFTER_DISASTER: Mapping[Step, float] = {conduct: 6, all_hosts: 5, misconduct: 2, come_back: 2, let_time_pass: 1}
