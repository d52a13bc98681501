"""Evacuations that may give servers other addresses: at every stage, and on the way back."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.conductor.test_moves import booted
from tests.conductor.world import World
from tests.network.cloud import PROJECT
from tests.next_call import before as before_call

from roost.compute.model.work import MoveKind
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.network.model.networks import Network
from roost.network.model.ports import PortChanges, PortFilter, PortRequest
from roost.network.service import ports
from roost.network.service.networks import list_segments
from roost.platform.database import Database
from roost.seams.network import BindRefused, PortBind
from roost.seams.placement import IPV4_ADDRESS, ClaimGroup

RACKS = {"rack1": ("r1-h1", "r1-h2"), "rack2": ("r2-h1", "r2-h2"), "rack3": ("r3-h1",)}


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    for rack, hosts in RACKS.items():
        await made.hosts(*hosts, reach=[rack])
    return made


async def lose_rack(world: World, server: Any) -> str:
    """Every host of the server's rack is down; its name."""
    rack = next(rack for rack, hosts in RACKS.items() if server.host in hosts)
    for host in RACKS[rack]:
        await host_service.force_down(world.compute, host, True)
    world.running.clear()  # its operator says so
    return rack


async def end(world: World) -> None:
    """The lost hosts come back, and give up what they had."""
    for hosts in RACKS.values():
        for host in hosts:
            await host_service.force_down(world.compute, host, False)
    await world.expire_leases()
    await world.run()
    await world.settled()


async def used(world: World, network: Network) -> dict[str, tuple[int, int]]:
    """Segment -> (total, used) of IPv4."""
    view = (await world.compute.network.get_networks([network.id]))[network.id]
    return {segment.name: await world.cloud.used(segment.provider_uuid) for segment in view.segments}


async def server_of(world: World, server_id: str) -> Any:
    """The server, with its ports but for their revisions, which every bind raises."""
    server = await server_service.get_server(world.compute, server_id)
    return replace(server, ports=tuple(replace(port, revision=0) for port in server.ports))


async def evacuate(world: World, server: Any, rack: str) -> Any:
    await world.move(server.id, MoveKind.EVACUATE, readdress=True)
    await world.run(silent=RACKS[rack])
    return await server_of(world, server.id)


async def test_a_server_of_a_lost_segment_gets_an_address_of_another(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    before = await booted(world, network)
    rack = await lose_rack(world, before)
    after = await evacuate(world, before, rack)
    assert (after.status, after.fault) == ("ACTIVE", None)
    assert after.host not in RACKS[rack]
    (port_before,), (port_after,) = before.ports, after.ports
    assert (port_after.port_id, port_after.mac_address) == (port_before.port_id, port_before.mac_address)
    assert port_after.addresses != port_before.addresses
    assert sorted((await used(world, network)).values()) == [(5, 0), (5, 1)]
    await end(world)


async def test_what_was_exchanged_is_on_record(world: World) -> None:
    before = await booted(world, await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29"))
    after = await evacuate(world, before, await lose_rack(world, before))
    async with world.database.connection() as connection:
        details = await connection.fetchval(
            "SELECT e ->> 'details' FROM compute.action, jsonb_array_elements(events) e"
            " WHERE e ->> 'name' = 'conductor_bind'"
        )
    (old,), (new,) = (server.ports[0].addresses for server in (before, after))
    assert details == f"port {before.ports[0].port_id}: {old} -> {new}"
    await end(world)


async def test_addresses_stay_where_a_host_reaches_them(world: World) -> None:
    before = await booted(world, await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29"))
    await host_service.force_down(world.compute, before.host, True)
    world.running.clear()
    await world.move(before.id, MoveKind.EVACUATE, readdress=True)
    await world.run(silent=[before.host])
    after = await server_of(world, before.id)
    assert (after.status, after.ports) == ("ACTIVE", before.ports)
    await end(world)


async def test_without_being_asked_no_address_is_exchanged(world: World) -> None:
    before = await booted(world, await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29"))
    rack = await lose_rack(world, before)
    await world.move(before.id, MoveKind.EVACUATE)
    await world.run(silent=RACKS[rack])
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.ports) == ("ACTIVE", before.host, before.ports)
    assert "holds the server to segment" in await world.fault(before.id)
    await end(world)


async def test_where_every_other_segment_is_full_nothing_is_changed(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/30", rack2="10.2.0.0/30")
    before, other = await booted(world, network), await booted(world, network)
    usage = await used(world, network)
    rack = await lose_rack(world, before)
    after = await evacuate(world, before, rack)
    assert (after.status, after.host, after.ports) == ("ACTIVE", before.host, before.ports)
    assert "0 of 1 free" in await world.fault(before.id)
    assert await used(world, network) == usage == {"rack1": (1, 1), "rack2": (1, 1)}
    assert (await server_of(world, other.id)).ports == other.ports
    await world.settled()
    await end(world)


@pytest.mark.parametrize("stages", range(7))
async def test_a_conductor_that_dies_anywhere_leaves_an_evacuation_that_goes_on(world: World, stages: int) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    before = await booted(world, network)
    rack = await lose_rack(world, before)
    await world.move(before.id, MoveKind.EVACUATE, readdress=True)
    await world.die_after(stages)
    await world.expire_leases()
    await world.run(silent=RACKS[rack])
    after = await server_of(world, before.id)
    assert (after.status, after.host in RACKS[rack]) == ("ACTIVE", False)
    assert after.ports[0].addresses != before.ports[0].addresses
    assert sorted((await used(world, network)).values()) == [(5, 0), (5, 1)]
    await end(world)


@pytest.mark.parametrize("stages", range(7))
@pytest.mark.parametrize("own_port", [False, True])
async def test_a_delete_on_its_way_returns_everything(world: World, stages: int, own_port: bool) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    port = (
        await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT))
        if own_port
        else None
    )
    (server_id,) = await world.boot(port_id=port.id) if port else await world.boot(network.id)
    await world.run()
    before = await server_of(world, server_id)
    rack = await lose_rack(world, before)
    await world.move(server_id, MoveKind.EVACUATE, readdress=True)
    await world.die_after(stages)
    await world.delete(server_id)
    await world.expire_leases()
    await world.run()
    assert await world.statuses() == {}
    assert sum(count for _, count in (await used(world, network)).values()) == int(own_port)
    await world.settled()
    assert rack in RACKS


async def test_a_host_that_is_up_again_keeps_its_server_as_it_was(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    before = await booted(world, network)
    usage = await used(world, network)
    await lose_rack(world, before)
    await world.move(before.id, MoveKind.EVACUATE, readdress=True)
    await world.die_after(1)  # hold is over, and what place claims is claimed
    assert sum(count for _, count in (await used(world, network)).values()) == 2, "both addresses are claimed"
    await host_service.force_down(world.compute, before.host, False)
    await world.expire_leases()
    await world.run()
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.ports) == ("ACTIVE", before.host, before.ports)
    assert await used(world, network) == usage
    await world.settled()


async def test_a_launch_that_fails_elsewhere_is_tried_on_a_third_segment(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29", rack3="10.3.0.0/29")
    before = await booted(world, network)
    rack = await lose_rack(world, before)
    failing = [host for name, hosts in RACKS.items() if name not in (rack, "rack3") for host in hosts]
    if rack == "rack3":
        failing = list(RACKS["rack1"])
    await world.move(before.id, MoveKind.EVACUATE, readdress=True)
    await world.run(silent=RACKS[rack], failing=failing)
    after = await server_of(world, before.id)
    assert after.status == "ACTIVE", after.fault
    assert after.host not in (*RACKS[rack], *failing)
    assert sorted((await used(world, network)).values()) == [(5, 0), (5, 0), (5, 1)]
    await end(world)


async def test_where_every_launch_fails_the_server_is_in_error_and_evacuated_again(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    before = await booted(world, network)
    rack = await lose_rack(world, before)
    (elsewhere,) = {"rack1", "rack2"} - {rack}
    await world.move(before.id, MoveKind.EVACUATE, readdress=True)
    await world.run(silent=RACKS[rack], failing=RACKS[elsewhere])
    assert (await server_of(world, before.id)).status == "ERROR"
    assert sum(count for _, count in (await used(world, network)).values()) == 0
    (port,) = await ports.list_ports(world.networks, PortFilter())
    assert (port.host, port.addresses) == (before.host, ())
    after = await evacuate(world, before, rack)
    assert (after.status, after.host in RACKS[elsewhere]) == ("ACTIVE", True)
    await end(world)


async def test_both_families_are_exchanged(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    parts = {part.name: part for part in await list_segments(world.networks) if part.network_id == network.id}
    for number, rack in enumerate(("rack1", "rack2"), start=1):
        pool = [(f"2001:db8:{number}::10", f"2001:db8:{number}::14")]
        await world.cloud.subnet(network, f"2001:db8:{number}::/64", parts[rack], pools=pool)
    before = await booted(world, network)
    after = await evacuate(world, before, await lose_rack(world, before))
    assert after.status == "ACTIVE", after.fault
    assert [len(server.ports[0].addresses) for server in (before, after)] == [2, 2]
    assert not set(before.ports[0].addresses) & set(after.ports[0].addresses)
    await end(world)


async def test_addresses_on_networks_that_every_host_reaches_stay(world: World) -> None:
    routed = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    plain = await world.cloud.plain("10.9.0.0/30")
    (server_id,) = await world.boot(plain.id, routed.id)
    await world.run()
    before = await server_of(world, server_id)
    after = await evacuate(world, before, await lose_rack(world, before))
    assert after.status == "ACTIVE", after.fault
    assert after.ports[0] == before.ports[0]
    assert after.ports[1].addresses != before.ports[1].addresses
    await end(world)


async def test_a_claim_that_somebody_returned_is_made_again_before_an_address_is_assigned(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    before = await booted(world, network)
    rack = await lose_rack(world, before)
    await world.move(before.id, MoveKind.EVACUATE, readdress=True)

    async def return_claims() -> None:
        await world.conductor.moves.trim_claims([before.id])

    before_call(world.conductor.moves, "readdress_ports", return_claims)
    await world.run(silent=RACKS[rack])
    after = await server_of(world, before.id)
    assert after.status == "ACTIVE", after.fault
    assert sorted((await used(world, network)).values()) == [(5, 0), (5, 1)]
    await end(world)


async def test_a_port_that_a_user_changes_meanwhile_is_looked_at_again(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    before = await booted(world, network)
    rack = await lose_rack(world, before)
    await world.move(before.id, MoveKind.EVACUATE, readdress=True)

    async def rename_port() -> None:
        await ports.update_port(world.networks, str(before.ports[0].port_id), PortChanges(name="door"))

    before_call(world.conductor.moves, "readdress_ports", rename_port)
    await world.run(silent=RACKS[rack])
    assert (await server_of(world, before.id)).status == "ACTIVE"
    assert len(await ports.list_ports(world.networks, PortFilter())) == 1
    await end(world)


async def test_where_the_address_that_is_claimed_cannot_be_had_the_old_one_stays(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    before = await booted(world, network)
    (port,) = await ports.list_ports(world.networks, PortFilter())
    (elsewhere,) = {"r1-h1", "r2-h1"} - {f"{before.host[:2]}-h1"}
    view = (await world.compute.network.get_networks([network.id]))[network.id]
    (other,) = {segment.provider_uuid for segment in view.segments} - {port.provider_uuid}
    state = (await world.conductor.placement.get_consumers([port.id]))[port.id]
    both = ClaimGroup((state.claiming({**state.allocations, other: {IPV4_ADDRESS: 1}}),))
    async with world.database.connection() as connection:
        await connection.execute("DELETE FROM network.free_range WHERE subnet_id <> $1", port.addresses[0].subnet_id)
    bind = PortBind(port_id=port.id, server_id=before.id, host=elsewhere, provider_uuid=other, revision=port.revision)
    (unclaimed,) = await world.conductor.moves.readdress_ports([bind])
    assert isinstance(unclaimed, BindRefused)
    assert (unclaimed.changed, "holds no claim" in unclaimed.reason) == (True, True)
    await world.conductor.placement.claim([both])
    (refused,) = await world.conductor.moves.readdress_ports([bind])
    assert isinstance(refused, BindRefused)
    (after,) = await ports.list_ports(world.networks, PortFilter())
    assert (after.addresses, after.host) == (port.addresses, port.host)
    assert after.revision > port.revision, "who still believes in that place is shut out"
    await world.conductor.moves.trim_claims([before.id])
    assert (await world.conductor.placement.get_consumers([port.id]))[port.id].allocations == state.allocations
