"""Hosts that an operator removes for good: what goes with them, what refuses it, and what consumers are told."""

from typing import Any

import msgspec
import pytest
from tests.conductor.world import BY, World

from roost.compute.errors import HostInUse, HostNotFound
from roost.compute.model.cloud import Host
from roost.compute.model.work import MoveKind
from roost.compute.service import host_removal, operator_aggregates
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.compute.service.host_removal import delete_host
from roost.platform.database import Database
from roost.platform.outbox import Notification, Outbox


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    made.compute.outbox = Outbox("compute", host="here", destinations=("log_file",))
    await made.hosts("h1", "h2", reach=["rack1"])
    return made


async def host_of(world: World, name: str) -> Host:
    (host,) = await host_service.list_hosts(world.compute, [name])
    return host


async def told(world: World) -> list[Notification]:
    async with world.database.connection() as connection:
        rows = await connection.fetch("SELECT notification FROM compute.outbox ORDER BY id")
        await connection.execute("DELETE FROM compute.outbox")
    return [msgspec.json.decode(row["notification"], type=Notification) for row in rows]


async def booted(world: World) -> Any:
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.run()
    return await server_service.get_server(world.compute, server_id)


async def test_a_removed_host_is_nowhere_any_more_and_its_consumers_are_told(world: World) -> None:
    server = await booted(world)
    other = "h2" if server.host == "h1" else "h1"
    aggregate = await operator_aggregates.create_aggregate(world.compute, "fast", None)
    await operator_aggregates.add_host(world.compute, aggregate.id, other)
    await told(world)
    host = await host_of(world, other)
    await delete_host(world.compute, host, by=BY)
    notifications = await told(world)
    events = [one.event_type for one in notifications]
    assert {"aggregate.remove_host.start", "aggregate.remove_host.end"} <= set(events)
    (deleted,) = [one for one in notifications if one.event_type == "service.delete"]
    assert (deleted.publisher_id, deleted.subject) == (f"nova-compute:{other}", other)
    assert deleted.request["request_id"] == BY.request_id
    assert deleted.payload["nova_object.data"]["uuid"] == host.provider_uuid
    assert [one.name for one in await host_service.list_hosts(world.compute)] == [server.host]
    assert await world.compute.placement.get_providers([host.provider_uuid]) == {}
    async with world.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM compute.host_aggregate_host WHERE host = $1", other) == 0
    await world.boot(server.ports[0].network_id)
    await world.run()
    assert set((await world.statuses()).values()) == {"ACTIVE"}
    await world.settled()
    with pytest.raises(HostNotFound):
        await delete_host(world.compute, host)


async def test_a_host_with_servers_stays(world: World) -> None:
    server = await booted(world)
    await told(world)
    with pytest.raises(HostInUse, match="hosting instances"):
        await delete_host(world.compute, await host_of(world, server.host))
    assert await told(world) == []
    await world.delete(server.id)
    await world.run()
    await delete_host(world.compute, await host_of(world, server.host))
    await world.settled()


async def test_the_source_of_a_resize_that_waits_for_its_user_stays(world: World) -> None:
    server = await booted(world)
    await world.move(server.id, MoveKind.MIGRATE)
    await world.run()
    with pytest.raises(HostInUse, match="in-progress migrations"):
        await delete_host(world.compute, await host_of(world, server.host))
    await world.end_move(server.id, revert=True)
    await world.run()
    assert (await server_service.get_server(world.compute, server.id)).host == server.host
    await world.settled()


async def test_a_host_on_which_a_server_is_being_placed_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim is made after the look at servers, and no row of the server's has its host yet."""
    await delete_host(world.compute, await host_of(world, "h2"))
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    claimed: list[str] = []

    async def look_and_be_overtaken(compute: Any) -> Any:
        if not claimed:
            await world.die_after(1)  # it has claimed, and dies before anything says where
            async with world.database.connection() as connection:
                claimed.extend(
                    row[0]
                    for row in await connection.fetch(
                        "SELECT p.name FROM placement.allocation a JOIN placement.provider p ON p.id = a.provider_id"
                        " JOIN compute.host h ON h.name = p.name"
                    )
                )
        return await real(compute)

    real = host_removal.list_host_aggregates
    monkeypatch.setattr(host_removal, "list_host_aggregates", look_and_be_overtaken)
    with pytest.raises(HostInUse, match="hosting instances"):
        await delete_host(world.compute, await host_of(world, "h1"))
    assert set(claimed) == {"h1"}
    await world.expire_leases()
    await world.run()
    assert (await world.statuses())[server_id] == "ACTIVE"
    await world.settled()


@pytest.mark.parametrize("registered_again", [False, True])
async def test_a_host_that_was_being_published_while_it_was_removed_is_nowhere(
    world: World, monkeypatch: pytest.MonkeyPatch, registered_again: bool
) -> None:
    host = await host_of(world, "h2")
    placement: Any = world.compute.placement
    publish, withdraw = placement.ensure_providers, placement.delete_providers

    async def publish_late(states: Any) -> Any:
        monkeypatch.setattr(placement, "ensure_providers", publish)
        await delete_host(world.compute, host)
        if registered_again:
            monkeypatch.setattr(placement, "delete_providers", withdraw_late)
        return await publish(states)

    async def withdraw_late(uuids: Any) -> Any:
        monkeypatch.setattr(placement, "delete_providers", withdraw)
        await world.hosts("h2", reach=["rack1"])
        return await withdraw(uuids)

    async with world.compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.host SET wanted = wanted + 1 WHERE name = 'h2'")
    monkeypatch.setattr(placement, "ensure_providers", publish_late)
    await host_service.publish_hosts(world.compute)
    await host_service.publish_hosts(world.compute)
    assert bool(await placement.get_providers([host.provider_uuid])) == registered_again
    assert [one.name for one in await host_service.list_hosts(world.compute)] == ["h1", "h2"][: 1 + registered_again]
    await world.settled()


async def test_a_host_whose_agent_still_runs_is_registered_again(world: World) -> None:
    await delete_host(world.compute, await host_of(world, "h1"))
    await told(world)
    await world.hosts("h1", reach=["rack1"])
    assert "service.create" in [one.event_type for one in await told(world)]
    server = await booted(world)
    assert server.status == "ACTIVE"
    await world.settled()
