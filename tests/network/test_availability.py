from collections.abc import Sequence
from typing import Any

import pytest
from tests.network.cloud import NEVER, PROJECT, Cloud
from tests.network.test_api import Api

from roost.network.model.networks import AddressCounts, AddressRange, Network, Subnet
from roost.network.model.ports import FixedIpRequest, PortRequest
from roost.network.rules.availability import availabilities
from roost.network.service import availability, ports
from roost.network.store import addresses as address_rows


def a_network(number: int = 1) -> Network:
    return Network(
        id=f"{number:032x}", name=f"net{number}", project_id=PROJECT, description="", network_type=None,
        physical_network=None, segmentation_id=None, revision=1, created_at=NEVER, updated_at=NEVER,
    )  # fmt: skip


def a_subnet(cidr: str, *pools: AddressRange, number: int = 1, network: int = 1, ip_version: int = 4) -> Subnet:
    return Subnet(
        id=f"{number:032x}", network_id=f"{network:032x}", segment_id=None, name="", description="", project_id=PROJECT,
        ip_version=ip_version, cidr=cidr, gateway_ip=None, enable_dhcp=True, revision=1,
        created_at=NEVER, updated_at=NEVER, pools=pools,
    )  # fmt: skip


def held(used: int, in_pools: int) -> AddressCounts:
    return AddressCounts(used=used, used_in_pools=in_pools)


@pytest.mark.parametrize(
    ("subnet", "used", "total", "in_subnet", "reserved", "free"),
    [
        (a_subnet("10.0.0.0/24", AddressRange(10, 19), AddressRange(30, 34)), held(6, 4), 15, 254, 237, 11),
        (a_subnet("10.0.0.0/24"), held(3, 0), 256, 254, 251, 0),
        (a_subnet("10.0.0.0/31", AddressRange(0, 1)), held(0, 0), 2, 2, 0, 2),
        (a_subnet("10.0.0.0/32", AddressRange(0, 0)), held(1, 1), 1, 1, 0, 0),
        (a_subnet("2001:db8::/32", ip_version=6), held(1, 0), 2**96, 2**96, 2**96 - 1, 0),
        (a_subnet("2001:db8::/64", AddressRange(2, 2**64 - 1), ip_version=6), held(1, 1), 2**64 - 2, 2**64, 2,
            2**64 - 3),
    ],
)  # fmt: skip
def test_a_subnet_counts_what_it_has(
    subnet: Subnet, used: AddressCounts, total: int, in_subnet: int, reserved: int, free: int
) -> None:
    (one,) = availabilities([a_network()], [subnet], {subnet.id: used})
    counts = one.subnets[0].counts
    assert (counts.total, counts.in_subnet, counts.reserved, counts.free) == (total, in_subnet, reserved, free)
    assert counts.in_subnet == counts.used_in_pools + counts.used_outside + counts.reserved + counts.free
    assert one.counts == counts


def test_a_network_is_the_sum_of_the_subnets_that_are_asked_for() -> None:
    subnets = [a_subnet("10.0.0.0/24", AddressRange(1, 10)), a_subnet("2001:db8::/64", number=2, ip_version=6)]
    both, bare = availabilities([a_network(1), a_network(2)], subnets, {})
    assert (both.counts.total, bare.counts, bare.subnets) == (10 + 2**64, AddressCounts(), ())
    (four,) = availabilities([a_network(1), a_network(2)], subnets, {}, ip_versions=(4,))
    assert (four.counts.total, [item.subnet.ip_version for item in four.subnets]) == (10, [4])


async def test_every_address_of_a_subnet_counts_and_only_those_of_its_pools_as_such(cloud: Cloud) -> None:
    network = await cloud.network()
    subnet = await cloud.subnet(network, "10.0.0.0/24", pools=[("10.0.0.10", "10.0.0.19")])
    other = await cloud.plain("10.1.0.0/28")
    for address in (None, "10.0.0.15", "10.0.0.200"):
        wanted = None if address is None else (FixedIpRequest(subnet_id=subnet.id, ip_address=address),)
        request = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=wanted)
        await ports.create_port(cloud.networks, request)
    # Whatever the row says of itself: the pools decide.
    async with cloud.networks.database.transaction() as tx:
        await tx.execute("UPDATE network.address SET in_pool = false WHERE address = '10.0.0.15'")
    (found,) = await availability.list_availabilities(cloud.networks, [network.id])
    assert found.counts == AddressCounts(total=10, in_subnet=254, in_pools=10, used=3, used_in_pools=2)
    everything = await availability.list_availabilities(cloud.networks)
    assert {item.network.id: item.counts.used for item in everything} == {network.id: 3, other.id: 0}
    assert await availability.list_availabilities(cloud.networks, ["99999999-9999-4999-8999-999999999999"]) == []


async def test_networks_are_counted_by_id_and_ip_version(cloud: Cloud) -> None:
    one, other = await cloud.plain("10.0.0.0/28"), await cloud.plain("10.1.0.0/28")
    for network_ids, ip_versions, ids in (
        (None, (), sorted([one.id, other.id])), ([one.id], (), [one.id]), ([], (), []), ([one.id], (6,), []),
        ([one.id], (4, 6), [one.id]),
    ):  # fmt: skip
        found = await availability.list_availabilities(cloud.networks, network_ids, ip_versions=ip_versions)
        assert [item.network.id for item in found] == ids


async def test_the_api_shows_them_as_upstream_does(cloud: Cloud) -> None:
    api = Api(cloud)
    network = await cloud.plain("10.0.0.0/28")
    other = await cloud.network()
    await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    status, answer = await api.call("GET", f"/v2.0/network-ip-availabilities/{network.id}")
    assert status == 200
    shown = answer["network_ip_availability"]
    counted = {
        "total_ips": 13,
        "used_ips": 1,
        "ip_availability_details": {
            "total_ips_in_subnet": 14, "total_ips_in_allocation_pool": 13, "used_ips_in_subnet": 1,
            "used_ips_in_allocation_pool": 1, "used_ips_outside_allocation_pool": 0, "reserved_ips": 1,
            "free_ips_in_allocation_pool": 12,
        },
    }  # fmt: skip
    (subnet_id,) = network.subnet_ids or (shown["subnet_ip_availability"][0]["subnet_id"],)
    subnet = {"subnet_id": subnet_id, "subnet_name": "", "cidr": "10.0.0.0/28", "ip_version": 4, **counted}
    assert shown == {
        "network_id": network.id, "network_name": "net", "project_id": PROJECT, "tenant_id": PROJECT,
        "subnet_ip_availability": [subnet], **counted,
    }  # fmt: skip
    for query, ids in (
        ("", sorted([network.id, other.id])),
        ("?ip_version=4", [network.id]),
        ("?ip_version=4&ip_version=6", [network.id]),
        ("?ip_version=6", []),
        (f"?network_id={other.id}", [other.id]),
        ("?network_id=nonsense", []),
        (f"?network_name=net&project_id={PROJECT}&total_ips=13&limit=1", [network.id]),
        (f"?network_name=none&project_id={PROJECT}", []),
        ("?project_id=another", []),
        (f"?id={PROJECT}&sort_key=network_id&sort_dir=desc", sorted([network.id, other.id], reverse=True)),
        (f"?tenant_id={PROJECT}&limit=2&marker={min(network.id, other.id)}", [max(network.id, other.id)]),
    ):
        status, answer = await api.call("GET", f"/v2.0/network-ip-availabilities{query}")
        assert status == 200, answer
        assert [one["network_id"] for one in answer["network_ip_availabilities"]] == ids, query
    for path, expected in (
        ("?ip_version=5", 400),
        ("?colour=red", 400),
        ("?sort_key=total_ips", 400),
        (f"/{PROJECT}", 404),
    ):
        assert (await api.call("GET", f"/v2.0/network-ip-availabilities{path}"))[0] == expected


async def test_more_addresses_than_64_bits_count_are_one_number(cloud: Cloud) -> None:
    network = await cloud.network()
    insert = """INSERT INTO network.subnet (id, network_id, project_id, ip_version, cidr)
        VALUES (gen_random_uuid(), $1, '', 6, '2001:db8::/40')"""
    async with cloud.networks.database.transaction() as tx:
        await tx.execute(insert, network.id)
    _, answer = await Api(cloud).call("GET", "/v2.0/network-ip-availabilities?ip_version=6&fields=total_ips")
    assert answer == {"network_ip_availabilities": [{"total_ips": 2**88}]}


async def test_a_page_counts_the_addresses_of_its_networks_alone(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        await cloud.plain(f"10.{number}.0.0/28")
    counted: list[int] = []
    count_held = address_rows.count_held

    async def record(tx: Any, subnet_ids: Sequence[str]) -> Any:
        counted.append(len(subnet_ids))
        return await count_held(tx, subnet_ids)

    monkeypatch.setattr(address_rows, "count_held", record)
    api, path = Api(cloud), "/v2.0/network-ip-availabilities"
    seen: list[str] = []
    link = f"{path}?limit=2&ip_version=4"
    while link:
        _, answer = await api.call("GET", link)
        seen += [item["network_id"] for item in answer["network_ip_availabilities"]]
        links = {item["rel"]: item["href"] for item in answer["network_ip_availabilities_links"]}
        link = links.get("next", "").removeprefix("http://roost.test/network")
    assert (len(set(seen)), seen) == (5, sorted(seen))
    assert counted == [2, 2, 1]
    assert (await api.call("GET", f"{path}?limit=2&ip_version=6"))[1]["network_ip_availabilities"] == []
    assert counted == [2, 2, 1]
