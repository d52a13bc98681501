"""What of deleted servers can be read, for how long, and that nothing grows in a busy cloud."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conductor.test_moves import booted
from tests.conductor.world import BY, World, reconcile_ports

from roost.compute.model.server import ActionFilter
from roost.compute.model.work import MoveKind
from roost.compute.service import Compute
from roost.compute.service.actions import list_actions
from roost.compute.service.history import find_deleted_server, purge_history
from roost.compute.service.servers import delete_server
from roost.platform.database import Database

GROWING = {"compute.action", "compute.deleted_server", "compute.move"}
"""What history bounds."""
EVENTS = {"compute.event"}
"""As many rows are kept of these besides (test_events.py)."""
JOURNAL = {"placement.change"}
"""What its reader cuts."""

LIST_TABLES = """
SELECT table_schema || '.' || table_name AS name FROM information_schema.tables
WHERE table_schema IN ('compute', 'network', 'placement') AND table_type = 'BASE TABLE'
"""


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("h1", "h2", reach=["rack1"])
    return made


async def live(world: World, network_id: str) -> str:
    """Boot a server, move it twice, and delete it."""
    server = await booted(world, network_id)
    await world.move(server.id, MoveKind.LIVE)
    await world.run()
    await world.move(server.id, MoveKind.MIGRATE)
    await world.run()
    await world.end_move(server.id, revert=False)
    await world.run()
    await delete_server(world.compute, server.id, by=BY)
    await world.run()
    await reconcile_ports(world.networks)
    return str(server.id)


async def count_rows(database: Database) -> Counter[str]:
    """Table -> its rows, of all three services."""
    counts = Counter[str]()
    async with database.connection() as connection:
        for row in await connection.fetch(LIST_TABLES):
            counts[row["name"]] = await connection.fetchval(f"SELECT count(*) FROM {row['name']}")
    return counts


async def count_history(database: Database) -> int:
    counts = await count_rows(database)
    return sum(counts[table] for table in GROWING)


async def age(world: World, days: float) -> None:
    async with world.database.connection() as connection:
        await connection.execute(
            "UPDATE compute.deleted_server SET deleted_at = deleted_at - $1 * interval '1 day'", days
        )


async def test_a_deleted_server_is_read_by_its_id_until_its_history_is_old(world: World) -> None:
    server_id = await live(world, await world.routed(rack1="10.1.0.0/29"))
    server = await find_deleted_server(world.compute, server_id)
    assert server is not None
    actions = await list_actions(world.compute, server, ActionFilter(), marker=None, limit=100)
    assert [action.name for action in actions] == ["delete", "confirmResize", "migrate", "live-migration"]
    assert await purge_history(world.compute) == 0
    await age(world, 29.9)
    assert await purge_history(world.compute) == 0
    await age(world, 0.2)
    assert await purge_history(world.compute) > 0
    assert await find_deleted_server(world.compute, server_id) is None
    assert await count_history(world.database) == 0


async def test_nothing_but_history_grows_in_a_busy_cloud(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    await live(world, network)
    before = await count_rows(world.database)
    for _ in range(3):
        await live(world, network)
    after = await count_rows(world.database)
    grown = {table for table in after if after[table] > before[table]} - JOURNAL
    assert grown == GROWING | EVENTS


async def test_the_oldest_goes_first_above_the_number_of_rows(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    first, second = [await live(world, network) for _ in range(2)]
    rows = await count_history(world.database)
    world.compute.settings = replace(world.compute.settings, keep_history_rows=rows - 1)
    await purge_history(world.compute)
    assert await find_deleted_server(world.compute, first) is None
    assert await find_deleted_server(world.compute, second) is not None
    kept = await booted(world, network)
    world.compute.settings = replace(world.compute.settings, keep_history_rows=0)
    await purge_history(world.compute)
    assert await count_history(world.database) == 0
    assert (await world.statuses())[kept.id] == "ACTIVE"


async def test_the_log_of_a_deleted_server_is_shown_and_the_server_is_not(
    world: World, call: Any, compute: Compute
) -> None:
    compute.network = world.compute.network
    server_id = await live(world, await world.routed(rack1="10.1.0.0/29"))
    answer = await call("GET", f"/v2.1/servers/{server_id}/os-instance-actions", version="2.1")
    assert answer.status == 200, answer.body
    assert answer.body["instanceActions"][0]["action"] == "delete"
    request_id = answer.body["instanceActions"][0]["request_id"]
    path = f"/v2.1/servers/{server_id}/os-instance-actions/{request_id}"
    assert (await call("GET", path, version="2.1")).status == 200
    assert (await call("GET", f"/v2.1/servers/{server_id}", version="2.1")).status == 404
    assert (await call("GET", f"/v2.1/servers/{server_id}/os-interface", version="2.1")).status == 404
    moves = await call("GET", f"/v2.1/os-migrations?instance_uuid={server_id}", version="2.59")
    assert len(moves.body["migrations"]) == 2
