"""One publisher at a time says what the ledger knows, and what was overtaken is said again."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.blocked import until_blocked
from tests.network.cloud import Cloud
from tests.network.test_all_or_none import cancel_everywhere
from tests.next_call import before, instead

from roost.network.service import networks
from roost.network.service.capacity import publish_due
from roost.network.store import networks as network_rows
from roost.network.store import publications, resources
from roost.platform.errors import DatabaseUnavailable


@pytest.fixture
async def provider(cloud: Cloud) -> str:
    """A network that the ledger must be told about again."""
    network = await cloud.plain("10.0.0.0/28")
    await want(cloud, network.id)
    return network.id


async def want(cloud: Cloud, provider: str) -> None:
    async with cloud.networks.database.transaction() as tx:
        await publications.want(tx, [provider])


async def is_due(cloud: Cloud, provider: str) -> bool:
    async with cloud.networks.database.transaction() as tx:
        return bool(await publications.list_due(tx, [provider]))


def while_telling(cloud: Cloud, happens: Callable[[], Awaitable[Any]]) -> list[int]:
    """`happens` while the ledger is told for the first time; how often it is told is counted."""
    real = cloud.networks.placement.ensure_providers
    told: list[int] = []

    async def ensure_providers(states: Any) -> None:
        told.append(len(states))
        if len(told) == 1:
            await happens()
        await real(states)

    cloud.networks.placement.ensure_providers = ensure_providers
    return told


async def test_while_one_publishes_nobody_else_does(cloud: Cloud, provider: str) -> None:
    told = while_telling(cloud, lambda: publish_due(cloud.networks, [provider]))
    await publish_due(cloud.networks, [provider])
    assert told == [1]
    assert not await is_due(cloud, provider)


async def test_what_has_no_subnets_any_more_is_forgotten_and_nothing_else(cloud: Cloud, provider: str) -> None:
    gone = await cloud.plain("10.1.0.0/28")
    await networks.delete_network(cloud.networks, gone.id)
    await publish_due(cloud.networks, [provider])
    async with cloud.networks.database.transaction() as tx:
        rows = await tx.fetch("SELECT provider_uuid FROM network.publication")
    assert [row["provider_uuid"] for row in rows] == [provider]


async def test_what_changes_while_it_is_published_is_published_again(cloud: Cloud, provider: str) -> None:
    while_telling(cloud, lambda: want(cloud, provider))
    await publish_due(cloud.networks, [provider])
    assert await is_due(cloud, provider)
    await publish_due(cloud.networks, [provider])
    assert not await is_due(cloud, provider)


async def test_what_changes_as_a_publication_ends_is_published_again(cloud: Cloud, provider: str) -> None:
    """Its end waits for whoever holds the row, and reads what that one has written."""
    has_written = asyncio.Event()
    changes: list[asyncio.Task[None]] = []

    async def change() -> None:
        async with cloud.networks.database.transaction() as tx:
            await publications.want(tx, [provider])
            has_written.set()
            await until_blocked(cloud.networks.database, 1)

    async def begin() -> None:
        changes.append(asyncio.create_task(change(), context=contextvars.Context()))
        await has_written.wait()

    while_telling(cloud, begin)
    await publish_due(cloud.networks, [provider])
    await asyncio.gather(*changes)
    assert await is_due(cloud, provider)
    await publish_due(cloud.networks, [provider])
    assert not await is_due(cloud, provider)


async def test_a_publisher_that_lost_its_lease_has_all_it_said_said_again(cloud: Cloud, provider: str) -> None:
    """Its state is the older one, and it may have been written last."""

    async def overtaken() -> None:
        async with cloud.networks.database.transaction() as tx:
            await tx.execute("UPDATE network.publication SET lease_until = now() - interval '1 s'")
        await publish_due(cloud.networks, [provider])

    while_telling(cloud, overtaken)
    await publish_due(cloud.networks, [provider])
    assert await is_due(cloud, provider)


async def test_a_network_takes_along_what_its_last_subnet_left(cloud: Cloud, provider: str) -> None:
    """Whoever deleted the subnet died before it said so: the network's delete does not leave that to the reconciler."""
    async with cloud.networks.database.transaction() as tx:
        (subnet,) = await network_rows.list_subnets(tx)
        await resources.delete(tx, "subnet", [subnet.id])
        await publications.want(tx, [provider])
    await networks.delete_network(cloud.networks, provider)
    assert await cloud.networks.placement.get_providers([provider]) == {}
    assert cloud.compute.aggregates == {}
    assert not await is_due(cloud, provider)


async def test_a_publisher_that_is_cancelled_anywhere_holds_nobody_up(cloud: Cloud, provider: str) -> None:
    async def publish() -> None:
        await want(cloud, provider)
        await publish_due(cloud.networks, [provider])

    async def assert_free() -> None:
        async with cloud.networks.database.transaction() as tx:
            assert await tx.fetch("SELECT FROM network.publication WHERE lease_owner IS NOT NULL") == []

    await cancel_everywhere(publish, assert_free)


async def test_a_host_that_is_cabled_anew_while_a_segment_is_published_is_where_it_belongs(cloud: Cloud) -> None:
    network = await cloud.network()
    segment = await cloud.segment(network, "rack1")
    await cloud.client.set_hosts({"h1": ["rack1"], "h2": ["rack1"]})
    before(cloud.compute, "set_segment_aggregates", lambda: cloud.client.set_hosts({"h1": []}))
    await cloud.subnet(network, "10.1.0.0/29", segment)
    assert list(cloud.compute.members.values()) == [{"h2"}]


async def test_a_host_that_registers_while_a_segment_goes_does_not_bring_its_aggregate_back(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29")
    before(cloud.compute, "ensure_host_aggregates", lambda: networks.delete_network(cloud.networks, network.id))
    await cloud.client.set_hosts({"late": ["rack1"]})
    assert (cloud.compute.aggregates, cloud.compute.members) == ({}, {})


async def test_a_publisher_that_is_cancelled_while_the_database_is_away_is_cancelled(
    cloud: Cloud, provider: str
) -> None:
    """As an error of the database's it would be work that is put off, and go on for ever when Roost is to end."""

    async def ends() -> None:
        cancelled.cancel()
        await asyncio.sleep(0)

    async def away(*_: Any, **__: Any) -> None:
        raise DatabaseUnavailable("the database went away")

    while_telling(cloud, ends)
    instead(publications, "finish", away)
    cancelled = asyncio.create_task(publish_due(cloud.networks, [provider]))
    await asyncio.wait([cancelled])
    assert cancelled.cancelled()
