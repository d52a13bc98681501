"""Ports that clients make at the same time are made together, and one that is refused undoes no other."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT, Cloud, assert_sound, counting
from tests.next_call import instead

from roost.network.errors import (
    IpAddressGenerationFailure,
    NetworkNotFound,
    OverQuota,
    PortChanged,
)
from roost.network.model.ports import Port, PortFilter, PortRequest
from roost.network.rules import addressing
from roost.network.service import creations, ports
from roost.network.service.quotas import QUOTAS
from roost.network.service.reconciler import reconcile_once
from roost.platform.errors import RoostError, TransactionVictim
from roost.seams.network import Nic

NOWHERE = "00000000-0000-4000-8000-00000000dead"


def asked(network_id: str, count: int = 1, **more: str) -> list[PortRequest]:
    return [PortRequest(network_id=network_id, project_id=PROJECT, **more) for _ in range(count)]


def made(answers: Sequence[Port | RoostError]) -> list[Port]:
    return [answer for answer in answers if isinstance(answer, Port)]


async def test_what_is_answered_is_what_is_kept(cloud: Cloud) -> None:
    """With addresses of three subnets, in the order in which they are shown."""
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    for cidr, mode in (("2001:db8:1::/64", "dhcpv6-stateful"), ("2001:db8::/64", "slaac")):
        await cloud.subnet(network, cidr, rack1, ipv6_ra_mode=mode, ipv6_address_mode=mode)
    full = PortRequest(
        network_id=network.id, project_id=PROJECT, name="web", description="of the shop", admin_state_up=False,
        mac_address="FA-16-3E-00-00-01", device_id="x", device_owner="compute:nova", host="h1", vnic_type="direct",
        binding_profile='{"a": [true, null], "b": 1}', tags=("red", "blue"),
    )  # fmt: skip
    (plain,) = made(await creations.make(cloud.networks, asked(network.id, host="h1"), whole=False))
    (named,) = await ports.create_ports(cloud.networks, [full])
    for answered in (plain, named):
        assert len(answered.addresses) == 3
        assert answered == await ports.get_port(cloud.networks, answered.id)


async def test_the_last_addresses_go_to_some_and_the_others_are_told(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    answers = await creations.make(cloud.networks, asked(network.id, 20), whole=False)
    assert len({port.addresses[0].address for port in made(answers)}) == 13
    refused = [answer for answer in answers if not isinstance(answer, Port)]
    assert {type(error) for error in refused} == {IpAddressGenerationFailure}
    assert "0 of 13 free" in str(refused[0])
    assert await cloud.used(network.id) == (13, 13)
    await assert_sound(cloud)


@pytest.mark.parametrize("how", ["each", "all", "without addresses", "for servers"])
async def test_only_ports_whose_mac_address_was_taken_get_another(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """On a large network hardly any set of many ports gets none that is taken."""
    network = await (cloud.network() if how == "without addresses" else cloud.plain("10.0.0.0/26"))
    taken = PortRequest(network_id=network.id, project_id=PROJECT, mac_address="fa:16:3e:00:00:00")
    await ports.create_port(cloud.networks, taken)
    drawn = itertools.count(1)

    def every_tenth_is_taken(_random: object) -> str:
        number = next(drawn)
        return f"fa:16:3e:00:00:{number if number % 10 else 0:02x}"

    monkeypatch.setattr(addressing, "new_mac", every_tenth_is_taken)
    if how == "for servers":
        await cloud.ensure(*(cloud.server(Nic(tag="0", network_id=network.id)) for _ in range(20)))
    elif how == "all":
        await ports.create_ports(cloud.networks, asked(network.id, 20))
    else:
        assert len(made(await creations.make(cloud.networks, asked(network.id, 20), whole=False))) == 20
    assert len(await ports.list_ports(cloud.networks, PortFilter(network_ids=(network.id,)))) == 21
    await assert_sound(cloud)


async def test_ports_on_a_host_spread_over_its_segments_and_fill_them_all(cloud: Cloud) -> None:
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/28")
    await cloud.client.set_hosts({"h9": ["rack1", "rack2"]})
    answers = await creations.make(cloud.networks, asked(network.id, 20, host="h9"), whole=False)
    assert len(made(answers)) == 5 + 13
    assert await cloud.used(rack1.id) == (5, 5)
    assert await cloud.used(rack2.id) == (13, 13)
    await assert_sound(cloud)


async def test_each_is_refused_for_its_own_reason_and_the_others_are_made(cloud: Cloud) -> None:
    plain = await cloud.plain("10.0.0.0/28")
    routed, _ = await cloud.routed("10.1.0.0/29")
    await QUOTAS.set(cloud.networks, "limited", {"port": 1}, check=False)
    limited = PortRequest(network_id=plain.id, project_id="limited")
    wanted = [*asked(plain.id), *asked(NOWHERE), limited, limited, *asked(routed.id), *asked(plain.id)]
    answers = await creations.make(cloud.networks, wanted, whole=False)
    assert [type(answer) for answer in answers] == [Port, NetworkNotFound, Port, OverQuota, Port, Port]
    assert [port.ip_allocation for port in made(answers)] == ["immediate", "immediate", "deferred", "immediate"]
    assert await cloud.used(plain.id) == (13, 3)
    await assert_sound(cloud)


@pytest.mark.parametrize("reconciled", [True, False], ids=["reconciled", "before the reconciler"])
async def test_a_set_that_took_longer_than_its_intents_keeps_nothing(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, *, reconciled: bool
) -> None:
    network = await cloud.plain("10.0.0.0/28")
    real = cloud.networks.placement.claim

    async def slow(groups):
        answers = await real(groups)
        async with cloud.networks.database.transaction() as tx:
            await tx.execute("UPDATE network.intent SET expires_at = now() - interval '1 s'")
            if not reconciled:
                await tx.execute("DELETE FROM network.intent")
        if reconciled:
            await reconcile_once(cloud.networks)
        return answers

    monkeypatch.setattr(cloud.networks.placement, "claim", slow)
    answers = await creations.make(cloud.networks, asked(network.id, 3), whole=False)
    assert {type(answer) for answer in answers} == {PortChanged}
    assert await cloud.used(network.id) == (13, 0)
    assert await ports.list_ports(cloud.networks, PortFilter()) == []
    await assert_sound(cloud)


@pytest.mark.parametrize("claimed", [False, True], ids=["before the claim", "after the claim"])
async def test_a_set_that_fails_whole_is_made_once_and_takes_nothing_from_itself(cloud: Cloud, claimed: bool) -> None:
    """It is made again one by one: what was deferred is there already, and the last address is claimed."""
    plain = await cloud.plain("10.0.0.0/30")
    routed, _ = await cloud.routed("10.1.0.0/29")

    async def fails(real: Any, *arguments: Any) -> None:
        if claimed:
            await real(*arguments)
        raise TransactionVictim

    instead(cloud.networks.placement, "claim", fails)
    wanted = [*asked(plain.id), *asked(routed.id)]
    answers = await asyncio.gather(*(ports.create_port(cloud.networks, one) for one in wanted))
    assert [port.ip_allocation for port in answers] == ["immediate", "deferred"]
    listed = await ports.list_ports(cloud.networks, PortFilter())
    assert {port.id for port in listed} == {port.id for port in answers}
    assert await cloud.used(plain.id) == (1, 1)
    await assert_books_agree(cloud.networks.database)


async def test_callers_at_the_same_time_are_one_set(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/24")
    with counting(cloud) as alone:
        await ports.create_port(cloud.networks, asked(network.id)[0])
    with counting(cloud) as together:
        await asyncio.gather(*(ports.create_port(cloud.networks, one) for one in asked(network.id, 100)))
    assert len(together) == len(alone)
    assert len(alone) <= 20
    await assert_sound(cloud)


async def test_many_of_one_request_are_all_made_or_none(cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/28")
    with pytest.raises(IpAddressGenerationFailure):
        await ports.create_ports(cloud.networks, asked(network.id, 14))
    assert await cloud.used(network.id) == (13, 0)
    assert len(await ports.create_ports(cloud.networks, asked(network.id, 13))) == 13
    await assert_sound(cloud)
