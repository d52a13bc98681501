"""Many ports or subnets of one request, cancelled anywhere or refused late: nothing of them is left, at once."""

import asyncio
import itertools
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import msgspec
import pytest
from tests.invariants import SETTLED
from tests.network.cloud import PROJECT, Cloud, assert_sound
from tests.next_call import after

from roost.network.errors import IpAddressAlreadyAllocated, IpAddressGenerationFailure, MacAddressInUse
from roost.network.model.networks import Network, SubnetRequest
from roost.network.model.ports import FixedIpRequest, PortChanges, PortFilter, PortRequest
from roost.network.rules.subnets import plan_subnet
from roost.network.service import creations, ports, subnets
from roost.platform.errors import DatabaseUnavailable

AWAITS_MAX = 1000
LEFT = ("an intent is left", "a release is left", "a claim of addresses is not its port's addresses")


@types.coroutine
def cancelling(work: Coroutine[Any, Any, Any], number: int) -> Generator[Any, Any, Any]:
    """Run it in this task, and cancel that where it waits for the n-th time."""
    step: Callable[[Any], Any] = work.send
    value: Any = None
    for count in itertools.count(1):
        try:
            awaited = step(value)
        except StopIteration as done:
            return done.value
        if count == number:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        try:
            step, value = work.send, (yield awaited)
        except BaseException as error:
            step, value = work.throw, error
    raise AssertionError("unreachable")


async def cancel_everywhere(work: Callable[[], Coroutine[Any, Any, Any]], check: Callable[[], Awaitable[None]]) -> Any:
    """Cancel it at its first await, its second, ... and check after each; what it returns when it came to its end."""
    for number in range(1, AWAITS_MAX):
        task = asyncio.ensure_future(_run(work(), number))
        await asyncio.wait([task])
        if not task.cancelled():
            assert number > 20, "it waits more often than that"
            return task.result()
        await check()
    raise AssertionError("it waits for ever")


async def _run(work: Coroutine[Any, Any, Any], number: int) -> Any:
    return await cancelling(work, number)


async def assert_nothing(cloud: Cloud) -> None:
    assert await ports.list_ports(cloud.networks, PortFilter()) == []
    await assert_nothing_hangs(cloud)
    async with cloud.networks.database.transaction() as tx:
        assert await tx.fetch("SELECT FROM placement.consumer") == []


async def assert_nothing_hangs(cloud: Cloud) -> None:
    async with cloud.networks.database.transaction() as tx:
        for what in LEFT:
            assert await tx.fetch(SETTLED[what]) == [], what
    await assert_sound(cloud)


def asked(network: Network, *addresses: str, **more: Any) -> PortRequest:
    named = tuple(FixedIpRequest(ip_address=address) for address in addresses) or None
    return PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=named, **more)


async def test_cancelled_anywhere_ports_leave_nothing(cloud: Cloud) -> None:
    plain = await cloud.plain("10.0.0.0/29")
    routed, _ = await cloud.routed("10.1.0.0/29")
    wanted = [
        asked(plain), asked(routed), asked(plain, "10.0.0.2"), asked(routed, host="h1"),
        asked(plain, mac_address="fa:16:3e:00:00:01"),
    ]  # fmt: skip
    made = await cancel_everywhere(lambda: ports.create_ports(cloud.networks, wanted), lambda: assert_nothing(cloud))
    assert [[item.address for item in port.addresses] for port in made] == [
        ["10.0.0.3"], [], ["10.0.0.2"], ["10.1.0.2"], ["10.0.0.4"],
    ]  # fmt: skip
    assert made == [await ports.get_port(cloud.networks, port.id) for port in made]
    await assert_nothing_hangs(cloud)


async def test_cancelled_anywhere_a_bind_keeps_nobody_from_the_port(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29")
    port = await ports.create_port(cloud.networks, asked(network))

    async def is_free() -> None:
        await assert_nothing_hangs(cloud)
        await ports.update_port(cloud.networks, port.id, PortChanges(host="", fixed_ips=()))

    bound = await cancel_everywhere(lambda: ports.update_port(cloud.networks, port.id, PortChanges(host="h1")), is_free)
    assert [item.address for item in bound.addresses] == ["10.1.0.2"]
    await assert_nothing_hangs(cloud)


async def test_cancelled_anywhere_subnets_leave_nothing(cloud: Cloud) -> None:
    network = await cloud.network()
    await cloud.client.set_hosts({"h1": []})

    async def nothing() -> None:
        assert await subnets.list_subnets(cloud.networks) == []
        assert await cloud.networks.placement.list_usages([network.id]) in ({}, {network.id: {}})
        async with cloud.networks.database.transaction() as tx:
            assert await tx.fetch("SELECT FROM network.publication WHERE wanted > published") == []
            assert await tx.fetch("SELECT FROM network.subnet") == []

    wanted = [subnet(network, cidr) for cidr in ("10.0.0.0/29", "10.0.1.0/29")]
    made = await cancel_everywhere(lambda: subnets.create_subnets(cloud.networks, wanted), nothing)
    assert [item.cidr for item in made] == ["10.0.0.0/29", "10.0.1.0/29"]
    assert await cloud.used(network.id) == (10, 0)


def subnet(network: Network, cidr: str) -> SubnetRequest:
    plan = plan_subnet(cidr)
    return SubnetRequest(
        network_id=network.id, segment_id=None, name="", description="", project_id=PROJECT, ip_version=4,
        cidr=cidr, gateway_ip=plan.gateway_ip, enable_dhcp=True, pools=plan.pools,
    )  # fmt: skip


async def test_more_ports_than_one_set_of_which_the_last_has_no_address_leave_nothing(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/23", pools=[("10.0.0.2", "10.0.1.44")])
    wanted = [asked(network)] * 300
    with pytest.raises(IpAddressGenerationFailure):
        await ports.create_ports(cloud.networks, wanted)
    await assert_nothing(cloud)
    made = await ports.create_ports(cloud.networks, wanted[:299])
    assert len({port.addresses[0].address for port in made}) == 299
    await assert_nothing_hangs(cloud)


@pytest.mark.parametrize(
    ("other", "error"),
    [({"fixed_ips": "10.0.0.9"}, IpAddressAlreadyAllocated), ({"mac_address": "fa:16:3e:00:00:01"}, MacAddressInUse)],
    ids=["address", "mac"],
)
async def test_what_somebody_else_takes_after_the_claim_refuses_all(
    cloud: Cloud, other: dict[str, str], error: type[Exception]
) -> None:
    network = await cloud.plain("10.0.0.0/28")
    one = asked(network, mac_address=other.get("mac_address", ""))
    if "fixed_ips" in other:
        one = asked(network, other["fixed_ips"])
    taken: list[str] = []

    async def take() -> None:
        taken.append((await ports.create_port(cloud.networks, one)).id)

    after(cloud.networks.placement, "claim", take)
    with pytest.raises(error):
        await ports.create_ports(cloud.networks, [asked(network), asked(network), one])
    assert [port.id for port in await ports.list_ports(cloud.networks, PortFilter())] == taken
    await assert_nothing_hangs(cloud)


async def test_of_a_request_whose_commit_was_not_heard_of_nothing_is_left(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = await cloud.plain("10.0.0.0/28")
    real = creations._write

    async def unheard(*args: Any, **more: Any) -> Any:
        await real(*args, **more)
        raise DatabaseUnavailable

    monkeypatch.setattr(creations, "_write", unheard)
    with pytest.raises(DatabaseUnavailable):
        await ports.create_ports(cloud.networks, [asked(network), asked(network)])
    await assert_nothing(cloud)


async def test_named_mac_addresses_in_any_order_do_not_lock_each_other_out(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/23")
    wanted = [asked(network, mac_address=f"fa:16:3e:00:00:{number:02x}") for number in range(50)]
    answers = await asyncio.gather(
        *(ports.create_ports(cloud.networks, wanted[::turn]) for turn in (1, -1) * 3), return_exceptions=True
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["MacAddressInUse"] * 5 + ["list"]
    await assert_nothing_hangs(cloud)


async def test_ports_of_one_request_use_up_what_is_no_capacity_and_then_claim(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    owner = "network:router_gateway"
    await cloud.subnet(network, "10.9.0.0/29", pools=[("10.9.0.2", "10.9.0.3")], service_types=(owner,))
    made = await ports.create_ports(cloud.networks, [asked(network, device_owner=owner)] * 3)
    assert [port.addresses[0].address for port in made] == ["10.9.0.2", "10.9.0.3", "10.0.0.2"]
    full = msgspec.structs.replace(asked(network, device_owner=owner), fixed_ips=None)
    assert (await ports.create_port(cloud.networks, full)).addresses[0].address == "10.0.0.3"
    assert await cloud.used(network.id) == (13, 2)
    await assert_nothing_hangs(cloud)
