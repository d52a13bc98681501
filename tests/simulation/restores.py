"""Records that go back in time: a dump is put back, or a standby takes over that lagged, under hosts that go on.

What its users may count on goes back as well. And an agent's state that is copied: two starts of one agent speak.
"""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial

from msgspec.structs import replace
from tests.simulation import errors, looks, mishaps, pools, users
from tests.simulation.hosts import Turn
from tests.simulation.mishaps import Step
from tests.simulation.story import Story, find_refusal

from roost.compute.errors import AgentRefused, GuestWanted
from roost.compute.model.unknown_guests import UnknownGuest
from roost.compute.service import recovery
from roost.compute.service import servers as server_service
from roost.compute.service.adoptions import adopt_guest
from roost.compute.service.guests import Polls
from roost.compute.service.unknown_guests import destroy_unknown_guest, hold_round, list_unknown_guests
from roost.seams.agent import AgentIdentity

PROMISES = ("servers", "deleted", "ports", "wants", "readdressed")
"""What users may count on, of a story."""
PROMOTED_SHARE = 0.5
ADOPTED_SHARE = 0.6
SLOW_SHARE = 0.3
BUILT_SHARE = 0.5
GOING = "SELECT server_id::text, host, attempt FROM compute.guest WHERE desired = 'absent'"
"""Guests that are to go, as the dump has it: fenced, or their servers had left or were being deleted."""
ANOTHER = "UPDATE compute.database_seen SET fingerprint = 'another'"


async def go_back(story: Story) -> None:
    """The records go back in time by some steps; then hosts list, and an operator looks at what nobody knows.

    All hosts are heard and reach what they should: addresses of a guest that nobody lists, or on a host that does not
    reach them, are not held. An agent that was copied is heard again once its copy has been silent for a lease.
    """
    hosts = story.hosts
    if hosts.versions:
        return
    for host in sorted(hosts.cut | hosts.off | hosts.deaf):
        await mishaps.bring_back(story, host)
    for host in sorted(hosts.recabled):
        await mishaps.cable(story, host, as_before=True)
    if story.passed_s < story.copied_s + mishaps.LEASE_IS_OVER_S:
        await mishaps.pass_time(story, mishaps.LEASE_IS_OVER_S)
    await mishaps.meanwhile(story, {users.boot: 1}, story.random.choice((0, 1)))
    if story.random.random() < SLOW_SHARE:
        host = story.random.choice(hosts.names)
        story.note(host, "is slow to do what it is asked for")
        await hosts.turn([host], Turn.FINE, meanwhile=partial(_go_back, story))
    else:
        await _go_back(story)
    await mishaps.meanwhile(story, WHILE_RECOVERING, story.random.choice((0, 2, 4)))
    await recover(story)


async def _go_back(story: Story) -> None:
    dump, passed_s = await story.beginning.take_dump(), story.passed_s
    promises = deepcopy({name: getattr(story, name) for name in PROMISES})
    story.note("a dump is taken")
    if story.random.random() < BUILT_SHARE:
        for step in (mishaps.conduct, mishaps.all_hosts, mishaps.conduct):
            await step(story)
    await mishaps.meanwhile(story, WHILE_FORGOTTEN, story.random.choice((2, 4, 8)))
    await check_unbroken(story)
    await story.begin_processes_anew()
    await story.beginning.put_back(dump)
    await mishaps.age_records(story, story.passed_s - passed_s)
    for name, value in promises.items():
        setattr(story, name, value)
    story.addresses, story.rooms, story.vcpus_moving, story.builds_ending, story.focus = {}, {}, 0, 0, []
    story.harmed.update(story.servers)
    async with story.world.database.connection() as connection:
        going = {tuple(row) for row in await connection.fetch(GOING)}
    story.hosts.kept = {(*key, guest.attempt) for key, guest in story.hosts.guests.items()} - going
    story.addresses_restored = await looks.list_addresses(story)
    story.restored = story.recovering = True
    await _say_who_serves(story)


async def _say_who_serves(story: Story) -> None:
    """Have the database be another one than before; or else its hosts speak before anybody acts on its records."""
    if story.random.random() < PROMOTED_SHARE:
        async with story.world.database.connection() as connection:
            await connection.execute(ANOTHER)
        story.note("a standby takes over, which lagged: the records go back to the dump")
    else:
        await story.hosts.poll(story.hosts.names)
        story.note("the dump is put back")


async def recover(story: Story) -> None:
    """All hosts list, and an operator decides on the guests that nobody knows."""
    await recovery.look(story.world.compute)
    await story.hosts.list_guests(story.hosts.names)
    await mishaps.reconcile(story)
    assert not story.recovering, f"all hosts have listed: {await recovery.tell_recovery(story.world.compute)}"
    if await _list_unknown(story):
        await mishaps.meanwhile(story, WHILE_UNKNOWN, story.random.choice((2, 4, 6)))
        await decide_on_guests(story)
        await mishaps.all_hosts(story)
        await mishaps.list_all(story)
        await hold_round(story.world.compute)


async def decide_on_guests(story: Story) -> None:
    """Adopt guests that nobody knows, or destroy them, where their servers are not worked on."""
    compute = story.world.compute
    for guest in await _list_unknown(story):
        key = (guest.server_id, guest.host)
        if guest.destroying:
            continue
        if story.random.random() < ADOPTED_SHARE:
            why = await find_refusal(lambda key=key: adopt_guest(compute, *key))
            story.note("adopt", *key, why)
            if not why:
                story.harmed.add(guest.server_id)
                story.servers = [*(id for id in story.servers if id != guest.server_id), guest.server_id]
                story.deleted = [id for id in story.deleted if id != guest.server_id]
                continue
        why = await find_refusal(lambda key=key: destroy_unknown_guest(compute, *key))
        story.note("destroy", *key, why)
        if why.startswith(GuestWanted.__name__) and await story.ask(
            "delete", guest.server_id, lambda key=key: server_service.delete_server(compute, key[0])
        ):
            story.deleted.append(guest.server_id)


async def _list_unknown(story: Story) -> list[UnknownGuest]:
    unknown, _, _ = await list_unknown_guests(story.world.compute)
    return unknown


async def check_unbroken(story: Story) -> None:
    """Raise AssertionError for what the database has noted that nobody may do."""
    async with story.world.database.connection() as connection:
        broken = [dict(row) for row in await connection.fetch("SELECT * FROM audit.broken")]
    assert not broken, f"noted by the database: {broken}"


async def copy_agent(story: Story) -> None:
    """An agent's state is copied: both starts are refused while they speak in turn; then the copy is silent."""
    hosts = story.hosts
    first = hosts.agents.agent_of(story.random.choice(hosts.names))
    theirs = [host for host in hosts.names if hosts.agents.has_agent(host, first)]
    if first.boot_id is None or not (hosts.cut | hosts.off).isdisjoint(theirs):
        return
    copy = replace(first, boot_id=story.chance.env.new_uuid())
    await hosts.poll(theirs)
    await _is_served(story, copy, theirs)
    for host in theirs:
        await errors.harm_near(story, host)
        hosts.forget_kept(host)
    for agent in [first, copy] * story.random.choice((1, 1, 2)):
        assert not await _is_served(story, agent, theirs), (
            f"two starts of an agent speak, and this one is served: {agent}"
        )
        await mishaps.pass_time(story, story.random.choice((1.0, 10.0)))
    story.copied_s = story.passed_s
    story.note("the state of the agent of", *theirs, "was copied")


async def _is_served(story: Story, agent: AgentIdentity, hosts: list[str]) -> bool:
    try:
        await Polls(story.world.compute).poll(hosts, agent=agent, busy=[], wait_s=0)
    except AgentRefused:
        return False
    return True


WHILE_FORGOTTEN: Mapping[Step, float] = {
    users.boot: 6, users.power: 2, users.move: 6, users.end_move: 2, users.delete: 2, mishaps.conduct: 14,
    mishaps.misconduct: 2, mishaps.all_hosts: 14, mishaps.host_turn: 4, mishaps.let_time_pass: 1, mishaps.reconcile: 1,
    pools.change_pools: 2,
}  # fmt: skip
WHILE_RECOVERING: Mapping[Step, float] = {
    users.boot: 3, users.power: 1, users.move: 1, mishaps.conduct: 5, mishaps.host_turn: 4, mishaps.all_hosts: 2,
    mishaps.let_time_pass: 1, mishaps.reconcile: 2, mishaps.restart_agent: 1, pools.change_pools: 1,
}  # fmt: skip
WHILE_UNKNOWN: Mapping[Step, float] = {
    users.boot: 4, users.power: 1, users.delete: 3, mishaps.conduct: 6, mishaps.all_hosts: 4, mishaps.host_turn: 1,
    mishaps.reconcile: 1, pools.change_pools: 1,
}  # fmt: skip
