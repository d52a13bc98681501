import asyncio

from tests.network.cloud import PROJECT, Cloud, assert_sound

from roost.network.model.networks import PLAIN_NAME
from roost.network.model.ports import PortFilter, PortRequest
from roost.network.service import ports, subnets
from roost.network.service.reconciler import Reconciled, reconcile_once
from roost.network.store import claims, publications, resources
from roost.network.store import networks as network_rows
from roost.seams.network import Nic
from roost.seams.placement import ProviderState


async def execute(cloud: Cloud, sql: str, *arguments: object) -> None:
    async with cloud.networks.database.transaction() as tx:
        await tx.execute(sql, *arguments)


async def test_what_is_in_use_is_left_alone(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/28")
    user = await ports.create_port(
        cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT, host="h1", name="mine")
    )
    building = cloud.server(Nic(tag="0", network_id=network.id))
    (claimed,) = await cloud.ensure(building)
    assert await cloud.claim([claimed.id], rack1.id)
    running = cloud.server(Nic(tag="0", network_id=network.id))
    (bound,) = await cloud.ensure(running)
    assert await cloud.claim([bound.id], rack1.id)
    await cloud.bind(running, bound, "h1", rack1.id)
    await cloud.client.settle_ports([running.server_id])
    cloud.compute.unfinished.remove(running.server_id)
    cloud.compute.existing.add(running.server_id)
    assert await asyncio.gather(*(reconcile_once(cloud.networks) for _ in range(3))) == [Reconciled()] * 3
    assert await cloud.used(rack1.id) == (13, 3)
    assert (await ports.get_port(cloud.networks, user.id)).addresses
    await assert_sound(cloud)


async def test_claims_that_hang_are_given_back(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/28")
    deferred = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    gone = "99999999-9999-4999-8999-999999999999"
    about = "88888888-8888-4888-8888-888888888888"
    for port_id in (deferred.id, gone, about):
        assert await cloud.claim([port_id], rack1.id)
    intent = "INSERT INTO network.intent VALUES ($1, now() + make_interval(secs => $2))"
    await execute(cloud, intent, about, 60.0)
    await reconcile_once(cloud.networks)
    assert set(await cloud.networks.placement.get_consumers([deferred.id, gone, about])) == {about}
    await execute(cloud, "UPDATE network.intent SET expires_at = now() - interval '1 s'")
    await reconcile_once(cloud.networks)
    assert await cloud.used(rack1.id) == (13, 0)
    assert await reconcile_once(cloud.networks) == Reconciled()


async def test_ports_of_servers_that_never_came_to_be_go(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/28")
    mine = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    server = cloud.server(Nic(tag="0", network_id=network.id), Nic(tag="1", port_id=mine.id))
    made, user = await cloud.ensure(server)
    assert await cloud.claim([made.id, user.id], rack1.id)
    await cloud.bind(server, made, "h1", rack1.id)
    await cloud.bind(server, user, "h1", rack1.id)
    cloud.compute.unfinished.clear()
    done = await reconcile_once(cloud.networks)
    assert done.parted == 2
    (left,) = await ports.list_ports(cloud.networks, PortFilter(network_ids=(network.id,)))
    assert (left.id, left.device_id, left.addresses) == (mine.id, "", ())
    assert await cloud.used(rack1.id) == (13, 0)
    await assert_sound(cloud)


async def test_releases_and_publications_that_were_cut_off_are_finished(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    port = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    async with cloud.networks.database.transaction() as tx:
        await tx.execute("DELETE FROM network.address")
        await tx.execute("UPDATE network.free_range SET first_address = '10.0.0.2'")
        await tx.execute("DELETE FROM network.port")
        await tx.execute("INSERT INTO network.release (port_id) VALUES ($1)", port.id)
        await publications.want(tx, [network.id])
    await cloud.networks.placement.release([port.id])
    assert await cloud.networks.placement.delete_providers([network.id]) == []
    await reconcile_once(cloud.networks)
    assert await cloud.used(network.id) == (13, 0)
    await assert_sound(cloud)


async def test_a_provider_that_the_ledger_refuses_keeps_no_other_from_it(cloud: Cloud) -> None:
    """Somebody else's provider has the name of one; another two have no subnet any more."""
    refused, told, *going = sorted([await cloud.plain("10.0.0.0/28") for _ in range(4)], key=lambda item: item.id)
    assert await cloud.networks.placement.delete_providers([refused.id, told.id]) == []
    name = PLAIN_NAME.format(refused.id)
    other = ProviderState(uuid=cloud.networks.env.new_uuid(), name=name, inventories={})
    await cloud.networks.placement.ensure_providers([other])
    async with cloud.networks.database.transaction() as tx:
        by_network = {subnet.network_id: subnet.id for subnet in await network_rows.list_subnets(tx)}
        await resources.delete(tx, "subnet", [by_network[network.id] for network in going])
        await publications.want(tx, [network.id for network in (refused, told, *going)])
    await reconcile_once(cloud.networks)
    assert await cloud.used(told.id) == (13, 0)
    left = {subnet.network_id for subnet in await subnets.list_subnets(cloud.networks)}
    assert left == {refused.id, told.id}
    async with cloud.networks.database.transaction() as tx:
        assert await publications.list_due(tx, [network.id for network in going]) == set()


async def test_an_intent_that_was_opened_since_it_was_looked_for_stays(cloud: Cloud) -> None:
    """Both have run out. The later one has another ticket, so whoever deletes the earlier one leaves it."""
    port_id = cloud.networks.env.new_uuid()
    async with cloud.networks.database.transaction() as tx:
        earlier = await claims.insert_intents(tx, [port_id], -1)
        assert await claims.list_expired_intents(tx, 10) == earlier
        assert await claims.delete_intents(tx, earlier) == {port_id}
        later = await claims.insert_intents(tx, [port_id], -1)
        assert await claims.delete_intents(tx, earlier) == set()
        assert await claims.list_busy(tx, [port_id]) == (set(), later)
