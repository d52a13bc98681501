"""What comes to a subnet, or to a publisher, while a subnet changes: claims, other changes, a publisher, a stall."""

import asyncio
import contextvars
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.blocked import until_blocked
from tests.network.cloud import PROJECT, Cloud
from tests.network.test_subnet_updates import assert_books, joinable, only, pools, port
from tests.next_call import after, before, instead

from roost.network.errors import PublicationPending, SubnetInUse
from roost.network.model.networks import SubnetChanges
from roost.network.model.ports import FixedIpRequest, PortRequest
from roost.network.service import audit_providers, capacity, ports, releases, subnets
from roost.network.service.reconciler import reconcile_once
from roost.network.store import networks as network_rows
from roost.network.store import publications as publication_rows
from roost.platform.drift import Repairs
from roost.platform.errors import Conflict, DatabaseUnavailable
from roost.seams.network import Nic
from roost.seams.placement import IPV4_ADDRESS, ClaimGroup


async def cut(cloud: Cloud, *ends: tuple[int, int]) -> None:
    """Change the pools of the only subnet."""
    await subnets.update_subnet(cloud.networks, (await only(cloud)).id, SubnetChanges(pools=pools(*ends)))


async def claims(cloud: Cloud, network_id: str, count: int) -> int:
    """So many builds claim an address each; return how many were granted."""
    return await claim_for(cloud, network_id, await made_ports(cloud, network_id, count))


async def made_ports(cloud: Cloud, network_id: str, count: int) -> list[str]:
    """Return ports of as many builds, without addresses."""
    return [
        made.id
        for made in await cloud.ensure(*(cloud.server(Nic(tag="0", network_id=network_id)) for _ in range(count)))
    ]


async def claim_for(cloud: Cloud, network_id: str, port_ids: list[str]) -> int:
    """The builds of these ports claim an address each; return how many were granted."""
    return sum([await cloud.claim([port_id], network_id) for port_id in port_ids])


async def test_what_is_granted_while_a_pool_is_cut_has_an_address(cloud: Cloud) -> None:
    """The ledger has agreed and the books are not cut yet: it grants what is left of the pools, no more."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    await port(cloud, network, 10)
    granted: list[int] = []
    made = await made_ports(cloud, network.id, 3)

    async def claim() -> None:
        granted.append(await claim_for(cloud, network.id, made))

    after(cloud.networks.placement, "fit_providers", claim)
    await cut(cloud, (10, 11), (20, 21))
    assert granted == [1]
    assert await cloud.used(network.id) == (4, 2)
    assert await claims(cloud, network.id, 3) == 2
    await assert_books_but_for_builds(cloud)


async def assert_books_but_for_builds(cloud: Cloud) -> None:
    """Builds give their claims back, and the books agree."""
    for consumer in await cloud.networks.placement.list_consumers("PORT", after="", limit=100):
        if not (await ports.get_port(cloud.networks, consumer)).addresses:
            await cloud.networks.placement.release([consumer])
    await assert_books(cloud)


async def test_what_is_promised_keeps_its_pool_and_the_refusal_changes_nothing(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    await port(cloud, network, 10)
    assert await claims(cloud, network.id, 4) == 4
    before_cut = await only(cloud)
    with pytest.raises(SubnetInUse, match="being built"):
        await cut(cloud, (10, 13))
    assert await only(cloud) == before_cut
    assert await cloud.used(network.id) == (10, 5)
    await cut(cloud, (10, 14))
    assert await cloud.used(network.id) == (5, 5)
    await assert_books_but_for_builds(cloud)


async def test_an_address_that_was_cut_off_counts_until_its_claim_is_gone(cloud: Cloud) -> None:
    """The claim given back first, the ledger would grant one address more than there is."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    held = await port(cloud, network, 10)
    await cut(cloud, (19, 19))
    assert await cloud.used(network.id) == (2, 1)
    assert await claims(cloud, network.id, 1) == 1
    granted: list[int] = []
    made = await made_ports(cloud, network.id, 1)

    async def claim() -> None:
        granted.append(await claim_for(cloud, network.id, made))

    after(cloud.networks.placement, "release", claim)
    await ports.delete_port(cloud.networks, held.id)
    assert granted == [0]
    assert await cloud.used(network.id) == (1, 1)
    await assert_books_but_for_builds(cloud)


async def test_a_build_that_leaves_an_address_that_was_cut_off_is_placed_once_the_ledger_knows(cloud: Cloud) -> None:
    """Its claim goes with its next placement: the ledger would grant one address more than there is."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (made,) = await cloud.ensure(server)
    assert await cloud.claim([made.id], network.id)
    bound = await cloud.bind(server, made, "host1", network.id)
    await cut(cloud, (19, 19))
    assert await cloud.used(network.id) == (2, 1)
    await cloud.client.unassign_ports({made.id: bound.revision})
    assert await cloud.used(network.id) == (2, 1)
    (again,) = await cloud.ensure(server)
    assert again.addresses == ()
    assert await cloud.used(network.id) == (1, 1)
    await assert_books_but_for_builds(cloud)


async def test_an_address_that_a_pool_takes_in_is_reserved_until_it_is_given_up(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    held = await port(cloud, network, 30)
    await cut(cloud, (30, 31))
    assert await cloud.used(network.id) == (1, 0)
    assert await claims(cloud, network.id, 2) == 1
    await ports.delete_port(cloud.networks, held.id)
    await capacity.publish(cloud.networks, [network.id])
    assert await cloud.used(network.id) == (2, 1)
    await assert_books_but_for_builds(cloud)


async def test_a_change_waits_for_a_publisher_that_is_at_work(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the publisher has read it writes after the change: more than the pools have then."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    subnet = await only(cloud)
    changing: list[asyncio.Task[None]] = []

    async def change() -> None:
        changing.append(asyncio.create_task(cut(cloud, (10, 12)), context=contextvars.Context()))
        done, _ = await asyncio.wait(changing, timeout=0.3)
        assert not done
        assert (await only(cloud)).pools == subnet.pools, "it is not committed either"

    before(cloud.networks.placement, "ensure_providers", change)
    async with cloud.networks.database.transaction() as tx:
        await publication_rows.want(tx, [network.id])
    await capacity.publish_due(cloud.networks, [network.id])
    await changing[0]
    assert await cloud.used(network.id) == (3, 0)
    await assert_books(cloud)
    monkeypatch.setattr(capacity, "WAIT_S", 0.2)
    async with cloud.networks.database.transaction() as tx:
        await tx.execute("UPDATE network.publication SET lease_until = now() + interval '60 s'")
    with pytest.raises(PublicationPending):
        await cut(cloud, (10, 11))


@pytest.mark.parametrize("told", [False, True])
async def test_a_join_that_was_cut_off_is_what_the_books_say(cloud: Cloud, told: bool) -> None:
    """Whoever tells the ledger of the segment dies before, or between the ledger's answer and the commit."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    segment = await joinable(cloud, network)
    held = [await port(cloud, network) for _ in range(2)]

    async def dies(real: Any, *arguments: Any) -> Any:
        if told:
            await real(*arguments)
        raise DatabaseUnavailable("killed")

    instead(cloud.networks.placement, "reshape", dies)
    with pytest.raises(DatabaseUnavailable):
        await subnets.update_subnet(cloud.networks, (await only(cloud)).id, SubnetChanges(segment_id=segment))
    assert (await only(cloud)).segment_id is None
    await reconcile_once(cloud.networks)
    assert await cloud.used(network.id) == (10, 2)
    assert set(await cloud.networks.placement.get_providers([network.id, segment])) == {network.id}
    await assert_books(cloud)
    await ports.delete_port(cloud.networks, held[0].id)
    await subnets.update_subnet(cloud.networks, (await only(cloud)).id, SubnetChanges(segment_id=segment))
    assert await cloud.used(segment) == (10, 1)
    await assert_books(cloud)


async def test_a_claim_that_is_made_beside_a_ports_addresses_stays_when_its_segment_goes(cloud: Cloud) -> None:
    """It is on its way to the port: claims follow a network's only subnet alone."""
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    fixed = (FixedIpRequest(ip_address="10.2.0.2"),)
    held = await ports.create_port(
        cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=fixed)
    )
    consumer = (await cloud.networks.placement.get_consumers([held.id]))[held.id]
    both = {rack1.id: {IPV4_ADDRESS: 1}, rack2.id: {IPV4_ADDRESS: 1}}
    await cloud.networks.placement.claim([ClaimGroup((consumer.claiming(both),))])
    async with cloud.networks.database.transaction() as tx:
        await tx.execute("DELETE FROM network.subnet WHERE segment_id = $1", rack1.id)
        await publication_rows.want(tx, [rack1.id])
    assert await capacity.publish(cloud.networks, [rack1.id]) == {rack1.id}
    assert (await cloud.networks.placement.get_consumers([held.id]))[held.id].allocations == both


async def test_a_provider_that_the_ledger_refuses_keeps_no_claim_of_another(cloud: Cloud) -> None:
    """Claims on it wait until the ledger has been told; the reconciler gives the others back, and goes on."""
    refused, other = await cloud.plain("10.0.0.0/24"), await cloud.plain("10.1.0.0/24")
    held, free = (
        await port(cloud, refused, 10),
        await ports.create_port(cloud.networks, PortRequest(network_id=other.id, project_id=PROJECT)),
    )
    async with cloud.networks.database.transaction() as tx:
        await publication_rows.want(tx, [refused.id])
        await tx.execute("INSERT INTO network.release (port_id) VALUES ($1), ($2)", held.id, free.id)
        await tx.execute("DELETE FROM network.address")
        await tx.execute("DELETE FROM network.port")

    async def refuses(states: Any) -> None:
        raise Conflict(f"{len(states)} names are taken")

    cloud.networks.placement.ensure_providers = refuses
    await reconcile_once(cloud.networks)
    consumers = await cloud.networks.placement.get_consumers([held.id, free.id])
    assert consumers.keys() == {held.id}


async def test_a_claim_on_its_way_back_from_a_provider_that_goes_is_given_back(cloud: Cloud) -> None:
    """The provider stays due while the claim is there: nobody waits for it to be published first."""
    network = await cloud.plain("10.0.0.0/24")
    (made,) = await cloud.ensure(server := cloud.server(Nic(tag="0", network_id=network.id)))
    assert await cloud.claim([made.id], network.id)
    async with cloud.networks.database.transaction() as tx:
        await tx.execute("DELETE FROM network.subnet")
        await publication_rows.want(tx, [network.id])
    await cloud.client.release_ports([server], restore=True)
    assert await releases.work_off(cloud.networks) == 0
    assert await cloud.networks.placement.get_consumers([made.id]) == {}


async def test_a_publisher_that_stalls_right_after_it_took_its_lease_says_nothing(cloud: Cloud) -> None:
    """Its lease has run out: what it reads now, another may have changed before it is written."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    subnet = await only(cloud)
    cloud.networks.settings = msgspec.structs.replace(cloud.networks.settings, publish_lease_s=1.0)
    after(publication_rows, "lease", lambda: asyncio.sleep(1.2))
    seen: list[Any] = []

    async def overtaken(real: Any, states: Any) -> None:
        await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((10, 12))))
        await real(states)
        seen.append(await cloud.used(network.id))

    instead(cloud.networks.placement, "ensure_providers", overtaken)
    async with cloud.networks.database.transaction() as tx:
        await publication_rows.want(tx, [network.id])
    with suppress(TimeoutError):
        await capacity.publish_due(cloud.networks, [network.id])
    assert seen == []


async def test_a_segment_that_gets_a_subnet_while_the_audit_deletes_its_old_host_aggregate_keeps_it(
    cloud: Cloud,
) -> None:
    network, (rack1,) = await cloud.routed("10.0.0.0/24")
    aggregates = dict(cloud.compute.aggregates)
    subnet = await only(cloud)
    await subnets.delete_subnet(cloud.networks, subnet.id)
    cloud.compute.aggregates |= aggregates
    cloud.compute.members |= {uuid: set() for uuid in aggregates}

    async def made() -> None:
        await cloud.subnet(network, "10.1.0.0/24", rack1)

    before(cloud.compute, "delete_host_aggregates", made)
    await audit_providers.AGGREGATES.run(cloud.networks, repairs=Repairs.ITSELF)
    assert [cloud.compute.members[uuid] for uuid in aggregates] == [{"h1"}]


async def test_who_wants_several_providers_told_does_not_meet_their_publisher_head_on(cloud: Cloud) -> None:
    """The one locks their rows in the order of their ids, and so has the other to."""
    ones = sorted([(await cloud.plain("10.0.0.0/24")).id for _ in range(2)])
    # The first is to go and stays, as it is in use: it is given up after the second was told.
    server = cloud.server(Nic(tag="0", network_id=ones[0]))
    (claimed,) = await cloud.ensure(server)
    assert await cloud.claim([claimed.id], ones[0])
    async with cloud.networks.database.transaction() as tx:
        await tx.execute("DELETE FROM network.subnet WHERE network_id = $1", ones[0])
        await publication_rows.want(tx, ones)
    wanting: list[asyncio.Task[None]] = []

    async def want() -> None:
        async with cloud.networks.database.transaction() as tx:
            await publication_rows.want(tx, ones)

    async def wants() -> None:
        wanting.append(asyncio.create_task(want(), context=contextvars.Context()))
        await until_blocked(cloud.networks.database, 1)

    after(publication_rows, "finish", wants)
    await capacity.publish_due(cloud.networks, ones)
    await asyncio.gather(*wanting)


async def test_a_publisher_ends_in_the_order_in_which_others_want(cloud: Cloud) -> None:
    """Both wait for the first of two rows, and neither has the second by then."""
    ones = sorted([(await cloud.plain("10.0.0.0/24")).id for _ in range(2)])
    tasks: list[asyncio.Task[None]] = []
    is_held = asyncio.Event()

    async def hold() -> None:
        async with cloud.networks.database.transaction() as tx:
            await tx.execute("SELECT FROM network.publication WHERE provider_uuid = $1 FOR UPDATE", ones[0])
            is_held.set()
            await until_blocked(cloud.networks.database, 2)

    async def want() -> None:
        async with cloud.networks.database.transaction() as tx:
            await publication_rows.want(tx, ones)

    async def begin() -> None:
        tasks.append(asyncio.create_task(hold(), context=contextvars.Context()))
        await is_held.wait()
        tasks.append(asyncio.create_task(want(), context=contextvars.Context()))
        await until_blocked(cloud.networks.database, 1)

    async with cloud.networks.database.transaction() as tx:
        await publication_rows.want(tx, ones)
    before(publication_rows, "finish", begin)
    await capacity.publish_due(cloud.networks, ones)
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_build_that_ends_and_a_change_that_ends_lock_addresses_in_one_order(
    cloud: Cloud, backwards: bool
) -> None:
    """Whatever the database has first: of three addresses, somebody else has the one in the middle for a while."""
    network, (rack1,) = await cloud.routed("10.0.0.0/24")
    server = cloud.server(*(Nic(tag=str(number), network_id=network.id) for number in range(3)))
    for made in sorted(await cloud.ensure(server), key=lambda item: item.id, reverse=backwards):
        assert await cloud.claim([made.id], rack1.id)
        await cloud.bind(server, made, "h1", rack1.id)
    holding = asyncio.Event()

    async def hold() -> None:
        async with cloud.networks.database.transaction() as tx:
            await tx.fetch("SELECT FROM network.address WHERE address = '10.0.0.3' FOR UPDATE")
            holding.set()
            await until_blocked(cloud.networks.database, 2)

    meanwhile: list[asyncio.Task[None]] = []

    async def settles() -> None:
        meanwhile.append(asyncio.create_task(hold()))
        await holding.wait()
        meanwhile.append(asyncio.create_task(cloud.client.settle_ports([server.server_id])))
        await until_blocked(cloud.networks.database, 1)

    before(network_rows, "set_pools", settles)
    subnet = await only(cloud)
    await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((100, 110))))
    await asyncio.gather(*meanwhile)
    await assert_books(cloud)
    assert await cloud.used(rack1.id) == (14, 3)


async def test_a_change_that_another_follows_at_once_was_made_all_the_same(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    subnet = await only(cloud)

    async def change(last: int) -> None:
        wanted = pools((10, last))
        await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=wanted))

    before(subnets, "get_subnet", lambda: change(14))
    await change(12)
    await assert_books(cloud)
    assert await cloud.used(network.id) == (5, 0)
