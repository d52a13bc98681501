"""Ports of servers in the hands of clients: a build that loses one ends, an ACTIVE server shows what its ports are."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.agent.cloud import AGENT
from tests.conductor.world import World
from tests.network.cloud import PROJECT
from tests.next_call import after

from roost.compute.model.server import Server
from roost.compute.rules.drift import PORT_ELSEWHERE
from roost.compute.service import servers as server_service
from roost.compute.service.audit import SERVERS
from roost.conductor.pipeline import run_once
from roost.network.errors import PortInUse
from roost.network.model.networks import Network
from roost.network.model.ports import FixedIpRequest, Port, PortChanges, PortFilter, PortRequest
from roost.network.service import networks, ports
from roost.network.service.reconciler import reconcile_once
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.platform.errors import DatabaseUnavailable

LOST = "was deleted while the server was being built."


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    await made.hosts("r2-h1", reach=["rack2"])
    return made


async def boot(world: World, network: Network, *, users: bool) -> tuple[str, Callable[[], Awaitable[None]]]:
    """A server with two NICs, and what deletes the port of the second, Roost's own or the user's."""
    mine = None
    if users:
        mine = (await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT))).id
    (server,) = await (world.boot(network.id, port_id=mine) if mine else world.boot(network.id, network.id))

    async def delete() -> None:
        found = await of(world, server)
        port_id = mine or max(found, key=lambda port: port.created_at).id
        await ports.delete_port(world.networks, port_id)

    return server, delete


async def of(world: World, server: str) -> list[Port]:
    return await ports.list_ports(world.networks, PortFilter(device_ids=(server,)))


async def shown(world: World, server: str) -> Server:
    return await server_service.get_server(world.compute, server)


@pytest.mark.parametrize("users", [False, True])
@pytest.mark.parametrize(
    "at", ["ensured", "candidates", "claimed", "about to bind", "bound", "launch", "begun", "retry"]
)
async def test_a_build_that_loses_a_port_ends_in_error_without_leaks(world: World, at: str, users: bool) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    server, delete = await boot(world, network, users=users)
    client, placement = world.conductor.network, world.conductor.placement
    hooks: dict[str, tuple[Any, str]] = {
        "ensured": (client, "ensure_ports"),
        "candidates": (placement, "candidates"),
        "claimed": (placement, "claim"),
        "about to bind": (client, "get_networks"),
        "bound": (client, "bind_ports"),
    }
    if at in hooks:
        after(*hooks[at], delete)
        await world.run()
    else:
        await world.conduct()
        if at == "begun":
            ((_, host),) = [(order.server_id, order.host) for order in await orders(world)]
            assert await world.report(server, host, 1, "begun")
        if at == "retry":
            await world.serve_hosts(failing=["r1-h1", "r1-h2", "r2-h1"])
        await delete()
        if at == "begun":
            await world.conduct()
            assert await world.statuses() == {server: "ERROR"}
            assert await world.report(server, host, 1, "absent")
        await world.run()
    assert await world.statuses() == {server: "ERROR"}
    assert LOST in await world.fault(server)
    assert await of(world, server) == []
    assert len(await ports.list_ports(world.networks, PortFilter(network_ids=(network.id,)))) == 0
    await reconcile_once(world.networks)
    await world.settled()


async def test_a_build_that_loses_a_port_while_it_gets_flat_addresses_ends_too(world: World) -> None:
    routed, flat = await world.routed(rack1="10.1.0.0/29"), await world.cloud.flat(cell1="10.9.0.0/29")
    (server,) = await world.boot(routed.id, flat.id)

    async def delete() -> None:
        (port,) = await of(world, server)
        await ports.delete_port(world.networks, port.id)

    async def allocated() -> None:
        after(world.conductor.network, "ensure_ports", delete)

    after(world.conductor.network, "get_networks", allocated)  # of `place`
    await world.run()
    assert await world.statuses() == {server: "ERROR"}
    assert LOST in await world.fault(server)
    assert await of(world, server) == []
    await world.settled()


@pytest.mark.parametrize("many", [1, 2])
async def test_a_port_made_for_an_active_server_is_one_of_its_nics(world: World, many: int) -> None:
    """As one that is given to it later: by an update the compute service heard of it, by a create it did not."""
    network = await world.routed(rack1="10.1.0.0/28")
    (server,) = await world.boot(network.id)
    await world.run()
    wanted = PortRequest(network_id=network.id, project_id=PROJECT, device_id=server)
    made = await ports.create_ports(world.networks, [wanted] * many)
    assert {port.port_id for port in (await shown(world, server)).ports} >= {port.id for port in made}
    (subnet_id,) = (await networks.get_network(world.networks, network.id)).subnet_ids
    at_subnet = msgspec.structs.replace(wanted, fixed_ips=(FixedIpRequest(subnet_id=subnet_id),))
    made += await ports.create_ports(world.networks, [at_subnet] * many)
    assert {port.port_id for port in (await shown(world, server)).ports} >= {port.id for port in made}
    found = await SERVERS.run(world.compute, repairs=Repairs.NONE)
    assert {drift.kind for drift in found} == {PORT_ELSEWHERE}, "nothing but that no client has bound them"
    await world.settled()


async def test_a_port_of_another_project_is_no_nic_of_the_server_that_it_names(world: World) -> None:
    """Whoever knows a server's id may write it as a port's device: Nova asks for the project's ports only."""
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run()
    ((mine,),) = [(await shown(world, server)).ports]
    theirs = await ports.create_port(
        world.networks, PortRequest(network_id=network.id, project_id="stranger", name="theirs")
    )
    await ports.update_port(world.networks, theirs.id, PortChanges(device_id=server))
    assert (await shown(world, server)).ports == (mine,)
    assert await SERVERS.run(world.compute, repairs=Repairs.NONE) == []
    await ports.delete_port(world.networks, theirs.id)
    assert (await shown(world, server)).ports == (mine,)
    await world.settled()


async def orders(world: World) -> list[Any]:
    from roost.compute.service import guests

    names = await guests.list_host_names(world.compute, declared_only=False)
    return (await guests.Polls(world.compute).poll(names, agent=AGENT, busy=[], wait_s=0)).orders


@pytest.mark.parametrize("users", [False, True])
@pytest.mark.parametrize("settled", [False, True])
async def test_an_active_server_loses_the_nic_of_a_deleted_port(world: World, users: bool, settled: bool) -> None:
    """Also while its ports are still the build's: it runs already, so it is not ended."""
    network = await world.routed(rack1="10.1.0.0/29")
    server, delete = await boot(world, network, users=users)
    await world.conduct()
    await world.serve_hosts()
    if settled:
        await world.conduct()
    assert len((await shown(world, server)).ports) == 2
    await delete()
    await world.run()
    assert [port.port_id for port in (await shown(world, server)).ports] == [
        port.id for port in await of(world, server)
    ]
    assert len(await of(world, server)) == 1
    await world.settled()
    await world.delete(server)
    await world.run()
    await world.settled()


async def test_an_active_server_shows_what_its_ports_have(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run()
    (port,) = await of(world, server)
    subnet = port.addresses[0]
    other = subnet.address[:-1] + "6"
    for addresses in ((other,), (subnet.address, other), ()):
        named = tuple(FixedIpRequest(ip_address=address) for address in addresses)
        await ports.update_port(world.networks, port.id, PortChanges(fixed_ips=named))
        assert (await shown(world, server)).ports[0].addresses == addresses
        await world.settled()
        await world.run()  # its host says that the guest has these now
    await ports.update_port(world.networks, port.id, PortChanges(device_id="", device_owner=""))
    assert (await shown(world, server)).ports == ()
    await world.settled()
    await ports.update_port(world.networks, port.id, PortChanges(device_id=server))
    assert [one.port_id for one in (await shown(world, server)).ports] == [port.id]
    await world.settled()
    await ports.update_port(world.networks, port.id, PortChanges(device_id="", host=""))
    await ports.update_port(world.networks, port.id, PortChanges(device_id=server))
    await ports.update_port(world.networks, port.id, PortChanges(mac_address="fa:16:3e:00:00:42"))
    assert [one.mac_address for one in (await shown(world, server)).ports] == ["fa:16:3e:00:00:42"]
    await world.settled()


async def test_a_servers_port_stays_on_its_servers_host(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run()
    (port,) = await of(world, server)
    elsewhere = "r1-h1" if port.host == "r1-h2" else "r1-h2"
    for host in (elsewhere, ""):
        with pytest.raises(PortInUse, match="moves with the server"):
            await ports.update_port(world.networks, port.id, PortChanges(host=host))
    await ports.update_port(world.networks, port.id, PortChanges(host=port.host, name="same"))
    freed = PortChanges(host=elsewhere, device_id="", device_owner="")
    assert (await ports.update_port(world.networks, port.id, freed)).host == elsewhere
    await world.settled()


@pytest.mark.parametrize("taken", [False, True])
async def test_a_port_that_a_client_gives_to_another_server_does_not_go_with_its_first(
    world: World, taken: bool
) -> None:
    """Nor one that is given to what is no server at all."""
    network = await world.routed(rack1="10.1.0.0/29")
    first, other = await world.boot(network.id, count=2)
    await world.run()
    (port,) = await of(world, first)
    device = other if taken else "5c3a6f0e-0000-4000-8000-000000000001"
    changes = PortChanges(device_id=device, host=(await shown(world, device)).host if taken else "")
    await ports.update_port(world.networks, port.id, changes)
    await world.delete(first)
    await world.run()
    await reconcile_once(world.networks)
    assert [one.id for one in await of(world, device) if one.id == port.id]
    await ports.delete_port(world.networks, port.id)
    await world.settled()


@pytest.mark.parametrize("active", [False, True])
async def test_what_compute_could_not_be_told_it_is_told_later(
    world: World, monkeypatch: pytest.MonkeyPatch, active: bool
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    server, delete = await boot(world, network, users=False)
    await world.conduct()
    if active:
        await world.run()

    async def away(changes: Any) -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr(world.networks.compute, "ports_changed", away)
    await delete()
    monkeypatch.undo()
    await reconcile_once(world.networks)
    await world.run()
    assert await world.statuses() == {server: "ACTIVE" if active else "ERROR"}
    await world.settled()


async def test_a_build_that_lost_a_port_gets_no_other_before_compute_knows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    server, delete = await boot(world, network, users=False)

    async def away(changes: Any) -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr(world.networks.compute, "ports_changed", away)
    after(world.conductor.network, "ensure_ports", delete)
    await world.run()
    assert LOST in await world.fault(server)
    monkeypatch.undo()
    await world.settled()


async def test_a_refresh_that_read_old_ports_looks_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It read that a port is away; another, to whom the port was back again, had nothing to write before it."""
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run()
    (port,) = await of(world, server)

    async def unheard(changes: Any) -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr(world.networks.compute, "ports_changed", unheard)
    await ports.update_port(world.networks, port.id, PortChanges(device_id=""))
    monkeypatch.undo()

    async def back() -> None:
        await ports.update_port(world.networks, port.id, PortChanges(device_id=server))

    after(world.compute.network, "list_attached_ports", back)
    await reconcile_once(world.networks)
    assert [one.port_id for one in (await shown(world, server)).ports] == [port.id]
    await world.settled()


async def test_a_build_that_must_end_is_deleted_when_that_was_asked_for(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    server, delete = await boot(world, network, users=True)

    async def both() -> None:
        await delete()
        await world.delete(server)

    after(world.conductor.placement, "claim", both)
    await run_once(world.conductor)
    await world.run()
    assert await world.statuses() == {}
    await world.settled()
