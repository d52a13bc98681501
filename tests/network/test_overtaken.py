"""Requests that are overtaken between two of their steps: told so by name, and nothing of them is left."""

import asyncio
from typing import Any

import pytest
from tests.blocked import until_blocked
from tests.network.cloud import PROJECT, Cloud
from tests.network.test_flat import boot, two_cells
from tests.network.test_subnet_updates import assert_books, pools, port, while_claiming
from tests.next_call import before

from roost.network.errors import NetworkInUse, PortChanged
from roost.network.model.networks import SubnetChanges
from roost.network.model.ports import FixedIpRequest, PortChanges
from roost.network.service import audit_ports, claims, ports, subnets
from roost.network.service import networks as network_service
from roost.network.store import networks as network_rows
from roost.platform.drift import Repairs
from roost.seams.placement import ClaimGroup, ConsumerClaim


def named(*addresses: str) -> tuple[FixedIpRequest, ...]:
    return tuple(FixedIpRequest(ip_address=address) for address in addresses)


async def test_a_port_that_changes_while_a_pool_is_cut_has_claims_for_all_that_it_holds(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim was decided before the pool is cut; what is outside it since then stays claimed."""
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    held = await port(cloud, network, 11)
    real, planned, changed = claims.claim, asyncio.Event(), asyncio.Event()
    updating: list[asyncio.Task[Any]] = []

    async def claim_any(*args: Any, **more: Any) -> Any:
        planned.set()
        await changed.wait()
        return await real(*args, **more)

    async def happens() -> None:
        changes = PortChanges(fixed_ips=named("10.0.0.11", "10.0.0.16"))
        updating.append(asyncio.create_task(ports.update_port(cloud.networks, held.id, changes)))
        await planned.wait()

    monkeypatch.setattr(claims, "claim", claim_any)
    await happens()
    (subnet,) = await subnets.list_subnets(cloud.networks)
    await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools((12, 19))))
    changed.set()
    await updating[0]
    await assert_books(cloud)
    assert await cloud.used(network.id) == (9, 2)


async def test_a_claim_that_somebody_else_makes_first_leaves_no_intent(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = await cloud.plain("10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    held = await port(cloud, network, 11)
    placement = cloud.networks.placement
    real = placement.claim

    async def happens() -> None:
        (consumer,) = (await placement.get_consumers([held.id])).values()
        same = ConsumerClaim(
            consumer_uuid=held.id, generation=consumer.generation, consumer_type=consumer.consumer_type,
            project_id=PROJECT, user_id=PROJECT, allocations=consumer.allocations,
        )  # fmt: skip
        await real([ClaimGroup((same,))])

    while_claiming(cloud, monkeypatch, happens)
    changes = PortChanges(fixed_ips=named("10.0.0.11", "10.0.0.16"))
    with pytest.raises(PortChanged):
        await ports.update_port(cloud.networks, held.id, changes)
    await assert_books(cloud)
    await ports.update_port(cloud.networks, held.id, changes)
    await assert_books(cloud)


async def test_a_networks_delete_waits_for_who_makes_ports_on_it(cloud: Cloud) -> None:  # R13
    network = await cloud.plain("10.0.0.0/24")
    async with cloud.networks.database.transaction() as tx:
        assert await network_rows.lock_network_ids(tx, [network.id], "existence")
        deleting = asyncio.create_task(network_service.delete_network(cloud.networks, network.id))
        await until_blocked(cloud.networks.database, 1)
        assert not deleting.done()
    await deleting


async def test_a_flat_network_that_is_in_use_loses_no_pool_by_a_refused_delete(cloud: Cloud) -> None:
    network, *both = await two_cells(cloud)
    by_pool = {pool.id: pool.cell or "" for pool in await subnets.list_subnets(cloud.networks)}
    last = max(both)  # the first would go
    await boot(cloud, network, by_pool[last], last)
    with pytest.raises(NetworkInUse):
        await network_service.delete_network(cloud.networks, network.id)
    assert {pool.id for pool in await subnets.list_subnets(cloud.networks)} == set(both)


async def test_an_audit_takes_no_server_for_short_of_what_it_has_in_a_pool_that_came_meanwhile(cloud: Cloud) -> None:
    network, *_ = await two_cells(cloud)

    async def booted() -> None:
        pool = await cloud.subnet(network, "10.3.0.0/29", cell="cell3")
        cloud.compute.existing.add(await boot(cloud, network, "cell3", pool.id))
        cloud.compute.unfinished.clear()

    before(cloud.networks.placement, "list_consumers", booted)
    assert await audit_ports.FLAT_CLAIMS.run(cloud.networks, repairs=Repairs.ALL) == []


async def test_an_active_binding_that_is_deleted_while_its_port_changes_is_asked_for_again(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not refused for a revision that nobody named."""
    network, _ = await cloud.routed("10.0.0.0/24")
    bound = await port(cloud, network, device_owner="compute:nova", host="h1")
    real = ports.find_owner

    async def find_owner(networks: Any, port_id: str) -> Any:
        monkeypatch.setattr(ports, "find_owner", real)
        await ports.update_port(networks, port_id, PortChanges(name="other"))
        return await real(networks, port_id)

    monkeypatch.setattr(ports, "find_owner", find_owner)
    with pytest.raises(PortChanged):
        await ports.delete_binding(cloud.networks, bound.id, "h1")
    await ports.delete_binding(cloud.networks, bound.id, "h1")
    assert (await ports.get_port(cloud.networks, bound.id)).host is None
