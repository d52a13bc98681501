"""How a story ends: everything comes to rest, and what must hold then."""

from functools import partial

from tests.conductor.world import BY
from tests.invariants import assert_books_agree
from tests.simulation import errors, looks, mishaps, pools, restores
from tests.simulation.story import Story
from tests.simulation.users import POWER

from roost.compute.model.work import MoveKind
from roost.compute.service import actions, moves
from roost.compute.service import servers as server_service
from roost.compute.service.moves import MoveRequest
from roost.network.model.ports import PortFilter
from roost.network.service import ports as port_service

REST_ROUNDS_MAX = 60
REST_ROUND_S = 31.0
WAYS_BACK = {"SHUTOFF": "start", "PAUSED": "unpause", "SUSPENDED": "resume"}
BELIEVED_LOST = """
SELECT s.id, s.host, g.attempt, s.fault
FROM compute.server s JOIN compute.guest g ON g.server_id = s.id AND g.host = s.host
WHERE s.status = 'ERROR' AND s.task_state IS NULL AND s.fault ->> 'kind' IN ('guest-lost', 'host-lost')
    AND g.reported = g.desired AND g.desired <> 'absent'
    AND NOT EXISTS (SELECT FROM compute.work w WHERE w.server_id = s.id)
"""
IS_QUIET = """
SELECT NOT (EXISTS (SELECT FROM compute.work) OR EXISTS (SELECT FROM network.release)
    OR EXISTS (SELECT FROM network.intent) OR EXISTS (SELECT FROM network.notice)
    OR EXISTS (SELECT FROM compute.unknown_guest)
    OR EXISTS (SELECT FROM compute.guest WHERE reported IS DISTINCT FROM desired))
"""
LEFT = (
    "SELECT id, status, task_state, host, power, fault FROM compute.server ORDER BY sequence",
    "SELECT server_id, stage, attempt, failures, deleting, lease_until FROM compute.work",
    "SELECT server_id, kind, status FROM compute.move WHERE open",
    "SELECT * FROM compute.guest WHERE reported IS DISTINCT FROM desired",
    "SELECT * FROM network.release",
    "SELECT * FROM network.intent",
    "SELECT * FROM network.notice",
    "SELECT server_id, host, attempt FROM compute.unknown_guest",
)
"""What is shown of a world that does not come to rest."""
LIST_NOT_RUNNING = """
SELECT id, status FROM compute.server WHERE (status, power) IS DISTINCT FROM ('ACTIVE', 'running') ORDER BY id
"""
HOLDS_HOST = """
SELECT s.host IS NOT NULL OR EXISTS (SELECT FROM compute.guest g WHERE g.server_id = s.id)
FROM compute.server s WHERE s.id = $1
"""


async def come_to_rest(story: Story) -> None:
    """Everybody is back, wakes and is heard; what waits for its user is decided.

    Hosts list in each round, after the conductors: what a guest did by itself counts once its server's move is over.
    """
    story.note("rest")
    story.partition.calls_left = 0
    for host in sorted(story.hosts.cut | story.hosts.off | story.hosts.deaf):
        await mishaps.bring_back(story, host)
    for host in sorted(story.hosts.recabled):
        await mishaps.cable(story, host, as_before=True)
    story.hosts.unlisted.update(story.hosts.names)  # agents list their guests now and then
    while story.sleepers:
        await mishaps.wake(story)
    while story.hosts.late:
        await mishaps.send_late(story)
    for _ in range(REST_ROUNDS_MAX):
        await mishaps.pass_time(story, REST_ROUND_S)
        await mishaps.all_hosts(story)
        await errors.look_for_room(story)
        await story.world.conduct()
        story.note("conductors")
        await errors.look_for_room(story)
        await mishaps.all_hosts(story)
        await mishaps.list_all(story)
        await mishaps.reconcile(story)
        if story.restored:
            await restores.decide_on_guests(story)
        await _look_for_faults(story)
        if await _decide(story) and await _is_quiet(story):
            return
    raise AssertionError(f"it does not come to rest: {await _list_left(story)}")


async def _look_for_faults(story: Story) -> None:
    """Raise AssertionError for servers in ERROR as lost whose guests their hosts have, and have listed."""
    async with story.world.database.connection() as connection:
        rows = await connection.fetch(BELIEVED_LOST)
    there = {(*key, guest.attempt) for key, guest in story.hosts.guests.items()}
    wrong = [dict(row) for row in rows if (row["id"], row["host"], row["attempt"]) in there]
    assert not wrong, f"taken for lost, and there: {wrong}"


async def _decide(story: Story) -> bool:
    """Have every server running, or in ERROR without a host; whether they were."""
    compute, done = story.world.compute, True
    async with story.world.database.connection() as connection:
        rows = await connection.fetch(LIST_NOT_RUNNING)
    for server_id, status in rows:
        view = await story.view(server_id)
        if view is None or view.task_state or view.stage:
            continue
        if status == "VERIFY_RESIZE":
            await _end_move(story, server_id, revert=story.random.random() < 0.5)
        elif view.status == "ERROR" and await _holds_host(story, server_id):
            await _delete(story, server_id)
        elif view.status in WAYS_BACK:
            await actions.change_power(compute, server_id, POWER[WAYS_BACK[view.status]], BY)
        elif view.status == "SHELVED":
            await moves.begin_move(compute, server_id, MoveRequest(kind=MoveKind.UNSHELVE), BY)
        else:
            continue
        done = False
    return done


async def _end_move(story: Story, server_id: str, *, revert: bool) -> None:
    """Revert a move, or confirm it, also where it cannot be reverted: the source does not reach what the move gave.

    A server that has lost its guest on the destination is not confirmed. It is deleted where it cannot go back either.
    """
    end = partial(moves.end_move, story.world.compute, server_id, BY)
    if revert and await story.ask("revert", server_id, partial(end, revert=True)):
        return
    if not await story.ask("confirm", server_id, partial(end, revert=False)) and revert:
        await _delete(story, server_id)


async def _delete(story: Story, server_id: str) -> None:
    await story.ask("delete", server_id, partial(server_service.delete_server, story.world.compute, server_id))
    story.deleted.append(server_id)


async def _holds_host(story: Story, server_id: str) -> bool:
    """Whether something of a server in ERROR is still on a host, its claim or its guest: for its user to delete."""
    async with story.world.database.connection() as connection:
        return bool(await connection.fetchval(HOLDS_HOST, server_id))


async def _is_quiet(story: Story) -> bool:
    async with story.world.database.connection() as connection:
        return bool(await connection.fetchval(IS_QUIET))


async def _list_left(story: Story) -> list[str]:
    async with story.world.database.connection() as connection:
        rows = [row for query in LEFT for row in await connection.fetch(query)]
    return [str(dict(row)) for row in rows]


async def check(story: Story) -> None:
    """Ledger = addresses = ports = servers = guests; and nobody lost what was promised to them."""
    await assert_books_agree(story.world.database)
    await looks.look_at_guests(story)
    await pools.check_capacity(story)
    await restores.check_unbroken(story)
    async with story.world.database.connection() as connection:
        servers = {row["id"]: row for row in await connection.fetch("SELECT id, host, status FROM compute.server")}
        asked = await connection.fetch("SELECT server_id, host, attempt FROM compute.guest")
        bindings = [dict(row) for row in await connection.fetch("SELECT port_id, host FROM network.binding")]
    without_disk = {server for server, row in servers.items() if row["status"] == "SHELVED_OFFLOADED"}
    agents = story.hosts.agents
    assert not (agents.shared.keeps_disks and not agents.versions and without_disk), f"lost disks: {without_disk}"
    expected = set(story.servers) - set(story.deleted)
    assert servers.keys() == expected, f"lost {expected - servers.keys()}, back {servers.keys() - expected}"
    guests = {(server, host, guest.attempt) for (server, host), guest in story.hosts.guests.items()}
    attempts = {(row["server_id"], row["host"], row["attempt"]) for row in asked}
    active = {(id, row["host"]) for id, row in servers.items() if row["status"] == "ACTIVE"}
    running = {attempt for attempt in attempts if attempt[:2] in active}
    assert guests >= running, f"no guest: {running - guests}"
    states = {(server, host): guest.state for (server, host), guest in story.hosts.guests.items()}
    untrue = {key: states[key] for key in active if states.get(key, "running") != "running"}
    assert not untrue, f"guests that are not what their servers show: {untrue}"
    stray = {guest for guest in guests - running if servers.get(guest[0], {"status": ""})["status"] != "ERROR"}
    assert not stray, f"stray guests: {stray}"
    assert not bindings, f"bindings where no server is on its way: {bindings}"
    there = {port.id for port in await port_service.list_ports(story.world.networks, PortFilter())}
    assert set(story.ports) <= there, f"ports of users are gone: {set(story.ports) - there}"
