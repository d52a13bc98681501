"""Where a server goes whose ports are not bound: what it has is claimed wherever a host still has its guest."""

import pytest
from tests.conductor.world import World

from roost.compute.errors import ActionRefused
from roost.compute.model.work import MoveKind
from roost.compute.service import servers as server_service
from roost.network.model.ports import PortChanges, PortFilter
from roost.network.service import ports
from roost.platform.database import Database

LIST_HOSTS_CLAIMED = """
SELECT h.name FROM placement.allocation a JOIN placement.provider p ON p.id = a.provider_id
JOIN compute.host h ON h.provider_uuid = p.uuid LEFT JOIN compute.move m ON m.uuid = a.consumer_uuid
WHERE coalesce(m.server_id, a.consumer_uuid) = $1
"""


@pytest.mark.parametrize(("changes", "moves"), [(PortChanges(fixed_ips=()), False), (PortChanges(name="b"), True)])
async def test_what_a_live_migration_has_copied_is_claimed_until_it_is_gone(
    database: Database, changes: PortChanges, moves: bool
) -> None:
    world = await World.make(database)
    await world.hosts("r1-h1", "r1-h2", "r1-h3", reach=["rack1"])
    network = await world.routed(rack1="10.1.0.0/29")
    (server_id,) = await world.boot(network.id)
    await world.run()
    before = await server_service.get_server(world.compute, server_id)
    await world.move(server_id, MoveKind.LIVE)
    await world.conduct()
    await world.serve_hosts()  # its memory is copied
    await world.conduct()
    await ports.update_port(world.networks, before.ports[0].port_id or "", changes)
    orders = 1
    while orders:
        orders = await world.serve_hosts()  # the source stops it
        await world.conduct()
        async with database.connection() as connection:
            claimed = {row["name"] for row in await connection.fetch(LIST_HOSTS_CLAIMED, server_id)}
        assert claimed >= {host for _, host in world.guests}
    after = await server_service.get_server(world.compute, server_id)
    assert (after.status, after.task_state, after.host != before.host) == ("ACTIVE", None, moves)
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM network.binding") == 0
    await world.settled()


@pytest.mark.parametrize(
    ("reach", "when", "failing"),
    [
        pytest.param(["rack2"], "before", [], id="it got another where it went"),
        pytest.param(["rack2"], "before", ["h2"], id="it got another where the launch fails"),
        pytest.param(["rack1", "rack2"], "after", [], id="it has none"),
    ],
)
async def test_a_move_is_taken_back_whose_port_has_lost_the_address_that_it_had(
    database: Database, reach: list[str], when: str, failing: list[str]
) -> None:
    world = await World.make(database)
    await world.hosts("h1", reach=["rack1"])
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    (server_id,) = await world.boot(network.id)
    await world.run()
    (port,) = await ports.list_ports(world.networks, PortFilter())
    await world.hosts("h2", reach=reach)
    for step in ("before", "after"):
        if step == when:
            await ports.update_port(world.networks, port.id, PortChanges(fixed_ips=()))
        if step == "before":
            await world.move(server_id, MoveKind.MIGRATE)
            await world.run(failing=failing)
    if not failing:
        assert await world.statuses() == {server_id: "VERIFY_RESIZE"}
        if when == "before":  # what it runs with is not taken from it, unless its user does so
            with pytest.raises(ActionRefused, match="rack2"):
                await world.end_move(server_id, revert=True)
            await ports.update_port(world.networks, port.id, PortChanges(fixed_ips=()))
        await world.end_move(server_id, revert=True)
        await world.run()
    server = await server_service.get_server(world.compute, server_id)
    (port,) = await ports.list_ports(world.networks, PortFilter())
    assert (server.status, server.host, port.host, port.addresses) == ("ACTIVE", "h1", "h1", ())
    for segment in (await world.compute.network.get_networks([network.id]))[network.id].segments:
        assert (await world.cloud.used(segment.provider_uuid))[1] == 0
    await world.settled()
