"""What comes to a subnet, or to a publisher, while a change is in progress: other requests, a dead client, a stall."""

import asyncio
import contextvars
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.blocked import until_blocked
from tests.network.cloud import PROJECT, Cloud, execute
from tests.network.test_subnet_updates import assert_books, joinable, only, pools, port
from tests.next_call import after, before, instead

from roost.network.errors import (
    IpAddressGenerationFailure,
    PublicationPending,
    SubnetInUse,
    SubnetsNotAllAssociatedWithSegments,
)
from roost.network.model.networks import Segment, SubnetChanges
from roost.network.model.ports import FixedIpRequest, PortChanges, PortRequest
from roost.network.rules.availability import Counts
from roost.network.service import audit_providers, availability, networks, ports, publications, subnet_changes, subnets
from roost.network.service.reconciler import Reconciled, reconcile_once
from roost.network.store import publications as publication_rows
from roost.platform.drift import Repairs
from roost.platform.errors import DatabaseUnavailable
from roost.seams.network import Nic


async def test_a_client_that_died_over_a_port_does_not_keep_its_subnets_change_open_for_ever(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The publisher waits for the port's intent, and the reconciler, who ends it, for the publisher."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    held = await port(cloud, network, 11)
    await execute(cloud, "INSERT INTO network.intent VALUES ($1, now() + interval '60 s')", held.id)
    cloud.networks.settings = msgspec.structs.replace(cloud.networks.settings, publish_lease_s=0.5)
    monkeypatch.setattr(publications, "WAIT_S", 1.0)
    subnet = await only(cloud)
    with pytest.raises(PublicationPending):
        await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((12, 19))))
    await execute(cloud, "UPDATE network.intent SET expires_at = now() - interval '1 s'")
    await reconcile_once(cloud.networks)
    assert await reconcile_once(cloud.networks) == Reconciled()
    await assert_books(cloud)
    assert await cloud.used(network.id) == (8, 0)


async def test_what_is_due_elsewhere_does_not_wait_for_a_change_that_waits_for_a_client(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    subnet, held = await only(cloud), await port(cloud, network, 11)
    other = await cloud.plain("10.1.0.0/29")
    await execute(cloud, "INSERT INTO network.intent VALUES ($1, now() + interval '60 s')", held.id)
    cloud.networks.settings = msgspec.structs.replace(cloud.networks.settings, publish_lease_s=0.5)
    monkeypatch.setattr(publications, "WAIT_S", 1.0)
    with pytest.raises(PublicationPending):
        await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((12, 19))))
    assert await cloud.networks.placement.delete_providers([other.id]) == []
    async with cloud.networks.database.transaction() as tx:
        await publication_rows.want(tx, [other.id])
    await reconcile_once(cloud.networks)
    assert await cloud.used(other.id) == (5, 0)


async def test_the_provider_that_a_network_had_before_it_joined_a_segment_is_gone_whoever_tells_it(
    cloud: Cloud,
) -> None:
    network = await cloud.plain("10.0.0.0/24")
    segment = await joinable(cloud, network)

    async def killed(_real: Any, *_arguments: Any) -> None:
        raise DatabaseUnavailable

    instead(subnet_changes, "finish_change", killed)
    subnet = await only(cloud)
    with pytest.raises(DatabaseUnavailable):
        await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(segment_id=segment))
    await publications.publish_due(cloud.networks, [network.id])
    await reconcile_once(cloud.networks)
    assert set(await cloud.networks.placement.get_providers([network.id, segment])) == {segment}


async def test_a_publisher_that_stalls_right_after_it_took_its_lease_says_nothing(cloud: Cloud) -> None:
    """Its lease has run out: what it reads now, another may have changed before it is written."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    subnet = await only(cloud)
    cloud.networks.settings = msgspec.structs.replace(cloud.networks.settings, publish_lease_s=1.0)
    after(publication_rows, "lease", lambda: asyncio.sleep(1.2))
    seen: list[Any] = []

    async def overtaken(real: Any, states: Any) -> None:
        await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((10, 12))))
        await real(states)
        seen.append(await cloud.used(network.id))

    instead(cloud.networks.placement, "ensure_providers", overtaken)
    async with cloud.networks.database.transaction() as tx:
        await publication_rows.want(tx, [network.id])
    with suppress(TimeoutError):
        await publications.publish_due(cloud.networks, [network.id])
    assert seen == []


@pytest.mark.parametrize("association", [True, False])
@pytest.mark.parametrize("made", ["subnet", "segment"])
async def test_what_could_not_stay_if_a_change_were_taken_back_is_not_made_meanwhile(
    cloud: Cloud, association: bool, made: str
) -> None:
    network = await cloud.plain("10.0.0.0/24")
    segment = await joinable(cloud, network)
    (mine,) = [item for item in await segments_of(cloud, network.id) if item.id == segment]
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (claimed,) = await cloud.ensure(server)
    assert await cloud.claim([claimed.id], network.id)
    making: list[asyncio.Task[Any]] = []

    async def meanwhile() -> None:
        wanted = cloud.subnet(network, "10.1.0.0/24", mine) if made == "subnet" else cloud.segment(network, "rack2")
        making.append(asyncio.create_task(wanted))
        await asyncio.wait(making, timeout=0.5)

    before(cloud.networks.placement, "reshape", meanwhile)
    changes = SubnetChanges(segment_id=segment) if association else SubnetChanges(service_types=("network:routed",))
    subnet = await only(cloud)
    with pytest.raises(SubnetInUse):
        await subnet_changes.update_subnet(cloud.networks, subnet.id, changes)
    assert [item.segment_id for item in await subnets.list_subnets(cloud.networks)] == [None]
    assert [item.id for item in await segments_of(cloud, network.id)] == [segment]
    with pytest.raises(SubnetsNotAllAssociatedWithSegments):
        await making[0]


async def segments_of(cloud: Cloud, network_id: str) -> list[Segment]:
    return await networks.list_segments(cloud.networks, network_ids=[network_id])


async def test_addresses_that_a_pool_is_losing_are_outside_of_it_already(cloud: Cloud) -> None:
    """Counted as in it, there would be fewer than none free."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.14")])
    for last in range(10, 15):
        await port(cloud, network, last)
    seen: list[Counts] = []

    async def look() -> None:
        seen.append((await availability.get_availability(cloud.networks, network.id)).counts)

    before(cloud.networks.placement, "reshape", look)
    subnet = await only(cloud)
    await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((10, 11))))
    await look()
    assert seen == [Counts(total=2, in_subnet=254, in_pools=2, used=5, used_in_pools=2)] * 2


async def test_who_finds_a_pool_full_that_is_being_cut_is_not_told_of_less_than_none(cloud: Cloud) -> None:
    network = await cloud.network()
    subnet = await cloud.subnet(
        network, "10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.14")], service_types=("network:dhcp",)
    )
    wanted = PortRequest(
        network_id=network.id, project_id=PROJECT, device_owner="network:dhcp",
        fixed_ips=(FixedIpRequest(subnet_id=subnet.id),),
    )  # fmt: skip
    for _ in range(5):
        await ports.create_port(cloud.networks, wanted)
    said: list[str] = []

    async def full() -> None:
        with pytest.raises(IpAddressGenerationFailure) as refused:
            await ports.create_port(cloud.networks, wanted)
        said.append(str(refused.value))

    before(cloud.networks.placement, "reshape", full)
    await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((10, 11))))
    assert "0 of 2 free" in said[0]
    assert "-" not in said[0].replace(subnet.id, "")


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
        await tx.execute("UPDATE network.subnet SET deleting = true WHERE network_id = $1", ones[0])
        await publication_rows.want(tx, ones)
    wanting: list[asyncio.Task[None]] = []

    async def want() -> None:
        async with cloud.networks.database.transaction() as tx:
            await publication_rows.want(tx, ones)

    async def wants() -> None:
        wanting.append(asyncio.create_task(want(), context=contextvars.Context()))
        await until_blocked(cloud.networks.database, 1)

    after(publication_rows, "finish", wants)
    await publications.publish_due(cloud.networks, ones)
    await asyncio.gather(*wanting)


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

    before(cloud.networks.placement, "list_usages", settles)
    subnet = await only(cloud)
    await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((100, 110))))
    await asyncio.gather(*meanwhile)
    await assert_books(cloud)
    assert await cloud.used(rack1.id) == (11, 0)


async def test_a_change_that_another_follows_at_once_was_made_all_the_same(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    subnet = await only(cloud)

    async def change(last: int) -> None:
        wanted = pools((10, last))
        await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=wanted))

    before(subnet_changes, "get_subnet", lambda: change(14))
    await change(12)
    await assert_books(cloud)
    assert await cloud.used(network.id) == (5, 0)


async def test_a_publisher_that_read_a_change_before_it_was_taken_back_notes_nothing_of_it(
    cloud: Cloud,
) -> None:
    """What the port holds counts again: what is claimed for it beside another address is claimed for both."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    subnet, held = await only(cloud), await port(cloud, network, 11)
    for claimed in await cloud.ensure(*(cloud.server(Nic(tag="0", network_id=network.id)) for _ in range(3))):
        assert await cloud.claim([claimed.id], network.id)
    has_read, goes_on = asyncio.Event(), asyncio.Event()
    publishing: list[asyncio.Task[Any]] = []

    async def stop() -> None:
        has_read.set()
        await goes_on.wait()

    async def publish(real: Any, *arguments: Any, **more: Any) -> Any:
        async with cloud.networks.database.transaction() as tx:
            await publication_rows.want(tx, [network.id])
        before(cloud.compute, "ensure_host_aggregates", stop)
        publishing.append(asyncio.create_task(publications.publish_due(cloud.networks, [network.id])))
        await has_read.wait()
        await real(*arguments, **more)
        before(subnet_changes, "_end", add)
        goes_on.set()

    async def add() -> None:
        fixed = tuple(FixedIpRequest(ip_address=address) for address in ("10.0.0.11", "10.0.0.16"))
        await ports.update_port(cloud.networks, held.id, PortChanges(fixed_ips=fixed))

    instead(subnet_changes, "_end", publish)
    with pytest.raises(SubnetInUse):
        await subnet_changes.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((12, 13))))
    await asyncio.gather(*publishing)
    assert len((await ports.get_port(cloud.networks, held.id)).addresses) == 2
    assert await cloud.used(network.id) == (10, 3 + 2)
