"""What a release row makes of a port's claim: its claimed addresses, and nothing else."""

import asyncio
import contextvars
from collections.abc import Mapping
from typing import Any

import pytest
from tests.blocked import until_blocked
from tests.network.cloud import PROJECT, Cloud, assert_sound, execute
from tests.next_call import after, instead

from roost.network.model.networks import Network
from roost.network.model.ports import FixedIpRequest, Port, PortChanges, PortRequest
from roost.network.service import ports, releases
from roost.network.service.reconciler import Reconciled, reconcile_once
from roost.platform.database import POOL_SIZE, Database
from roost.seams.network import Nic
from roost.seams.placement import IPV4_ADDRESS, Claimed, ClaimGroup, ConsumerClaim

RELEASE = "INSERT INTO network.release (port_id) VALUES ($1)"
INTENT = "INSERT INTO network.intent VALUES ($1, now() + interval '60 s')"
EXPIRE = "UPDATE network.intent SET expires_at = now() - interval '1 s'"


async def make(cloud: Cloud, network: Network, *addresses: str) -> Port:
    asked = tuple(FixedIpRequest(ip_address=address) for address in addresses) or None
    return await ports.create_port(
        cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=asked)
    )


async def hold(cloud: Cloud, port_id: str, claim: Mapping[str, int]) -> None:
    """The port's claim is this many addresses of each provider, whatever it was."""
    consumer = ConsumerClaim(
        consumer_uuid=port_id, generation=None, any_generation=True, consumer_type="PORT", project_id=PROJECT,
        user_id=PROJECT, allocations={uuid: {IPV4_ADDRESS: amount} for uuid, amount in claim.items()},
    )  # fmt: skip
    (answer,) = await cloud.networks.placement.claim([ClaimGroup((consumer,))])
    assert isinstance(answer, Claimed)


async def held(cloud: Cloud, port_id: str) -> Any:
    found = await cloud.networks.placement.get_consumers([port_id])
    return {uuid: dict(item) for uuid, item in found[port_id].allocations.items()} if found else {}


async def rows(cloud: Cloud) -> int:
    async with cloud.networks.database.transaction() as tx:
        return int(await tx.fetchval("SELECT count(*) FROM network.release"))


@pytest.mark.parametrize("cidr", ["10.0.0.0/28", "0.0.0.0/31", "255.255.255.254/31", "2001:db8::/125"])
async def test_addresses_that_are_free_again_are_one_range_again(cloud: Cloud, cidr: str) -> None:
    network = await cloud.network()
    await cloud.subnet(network, cidr)

    async def ranges() -> list[Any]:
        async with cloud.networks.database.connection() as connection:
            return [tuple(row) for row in await connection.fetch("SELECT * FROM network.free_range")]

    before = await ranges()
    made = [await make(cloud, network) for _ in range(1 if "/31" in cidr else 6)]
    for port in [*made[1::2], *made[::2][::-1]]:
        await ports.delete_port(cloud.networks, port.id)
    assert len(before) == 1
    assert await ranges() == before
    await assert_sound(cloud)


async def test_those_who_wait_for_a_port_leave_its_release_a_connection(cloud: Cloud) -> None:
    """As many as the pool has: the release has locked the port, and calls the ledger."""
    network = await cloud.plain("10.0.0.0/28")
    port = await make(cloud, network)
    database = cloud.networks.database
    waiting: list[asyncio.Task[Port]] = []

    async def others_first(release: Any, *arguments: Any, **more: Any) -> None:
        context = contextvars.Context()  # theirs, who hold no connection yet
        for number in range(POOL_SIZE):
            change = ports.update_port(cloud.networks, port.id, PortChanges(name=f"name {number}"))
            waiting.append(asyncio.get_running_loop().create_task(change, context=context.copy()))
        await until_blocked(another, POOL_SIZE - 1)
        await release(*arguments, **more)

    instead(cloud.networks.placement, "release", others_first)
    another = await Database.open(database.dsn, size=1)
    try:
        await ports.update_port(cloud.networks, port.id, PortChanges(fixed_ips=()))
        assert await cloud.used(network.id) == (13, 0)
        await asyncio.gather(*waiting)
    finally:
        await another.close()


@pytest.mark.parametrize("row", [True, False])
async def test_a_claim_that_is_larger_than_its_ports_addresses_is_trimmed_to_them(cloud: Cloud, row: bool) -> None:
    """Those outside the pools are not claimed. Without a row the reconciler finds it."""
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/28", "10.2.0.0/28")
    port = await make(cloud, network, "10.1.0.4", "10.1.0.5", "10.1.0.1")
    assert await held(cloud, port.id) == {rack1.id: {IPV4_ADDRESS: 2}}
    await hold(cloud, port.id, {rack1.id: 5, rack2.id: 1})
    if row:
        await execute(cloud, RELEASE, port.id)
        assert await releases.work_off(cloud.networks) == 1
    else:
        assert await reconcile_once(cloud.networks) == Reconciled(abandoned=1)
    assert await held(cloud, port.id) == {rack1.id: {IPV4_ADDRESS: 2}}
    assert await rows(cloud) == 0
    assert await reconcile_once(cloud.networks) == Reconciled()
    await assert_sound(cloud)


async def test_a_release_of_a_port_that_holds_its_addresses_changes_nothing(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    port = await make(cloud, network)
    before = await cloud.networks.placement.get_consumers([port.id])
    await execute(cloud, RELEASE, port.id)
    assert await releases.work_off(cloud.networks) == 1
    assert await cloud.networks.placement.get_consumers([port.id]) == before


async def test_a_claim_never_grows_by_a_release(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    port = await make(cloud, network, "10.0.0.4", "10.0.0.5")
    await hold(cloud, port.id, {network.id: 1})
    await execute(cloud, RELEASE, port.id)
    assert await releases.work_off(cloud.networks) == 1
    assert await held(cloud, port.id) == {network.id: {IPV4_ADDRESS: 1}}


async def test_a_port_that_a_build_holds_is_left_as_it_is(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/28")
    port = await make(cloud, network, "10.1.0.4")
    await cloud.ensure(cloud.server(Nic(tag="0", port_id=port.id)))
    await hold(cloud, port.id, {rack1.id: 2})
    await execute(cloud, RELEASE, port.id)
    await reconcile_once(cloud.networks)
    assert await held(cloud, port.id) == {rack1.id: {IPV4_ADDRESS: 2}}
    assert await rows(cloud) == 0


async def test_a_port_that_somebody_is_about_to_claim_for_is_trimmed_when_that_is_over(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    port = await make(cloud, network, "10.0.0.4")
    await execute(cloud, INTENT, port.id)
    await hold(cloud, port.id, {network.id: 2})
    await execute(cloud, RELEASE, port.id)
    await reconcile_once(cloud.networks)
    assert await held(cloud, port.id) == {network.id: {IPV4_ADDRESS: 2}}
    assert await rows(cloud) == 0
    await execute(cloud, EXPIRE)
    await reconcile_once(cloud.networks)
    assert await held(cloud, port.id) == {network.id: {IPV4_ADDRESS: 1}}


async def test_a_trim_that_was_overtaken_is_tried_again(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    port = await make(cloud, network, "10.0.0.4")
    await hold(cloud, port.id, {network.id: 2})
    await execute(cloud, RELEASE, port.id)

    async def claimed_anew() -> None:
        await hold(cloud, port.id, {network.id: 3})

    after(cloud.networks.placement, "get_consumers", claimed_anew)
    assert await releases.work_off(cloud.networks) == 0
    assert await held(cloud, port.id) == {network.id: {IPV4_ADDRESS: 3}}
    assert await releases.work_off(cloud.networks) == 1
    assert await held(cloud, port.id) == {network.id: {IPV4_ADDRESS: 1}}
