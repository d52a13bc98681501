"""What hosts are told of the NICs that they make."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.network.cloud import Cloud, counting
from tests.network.parts import a_subnet

from roost.network.model.networks import HostRoute
from roost.network.model.ports import FixedIpRequest, PortRequest
from roost.network.model.ports import Nic as NicRow
from roost.network.rules.nics import describe_nic
from roost.network.service.ports import create_ports
from roost.seams.guests import NicNetwork, NicSegment, NicSubnet, Route
from roost.seams.network import Nic


async def port_on(cloud: Cloud, network_id: str, **more: Any) -> str:
    (port,) = await create_ports(cloud.networks, [PortRequest(network_id=network_id, project_id="p", **more)])
    return port.id


async def test_a_nic_is_told_of_the_segment_of_its_addresses_and_of_the_routes_to_its_peers(cloud: Cloud) -> None:
    network = await cloud.network()
    first, second = [await cloud.segment(network, name) for name in ("rack1", "rack2")]
    await cloud.subnet(network, "10.1.0.0/24", first, dns_nameservers=("10.9.9.9",), enable_dhcp=False)
    await cloud.subnet(network, "10.2.0.0/24", second, host_routes=(HostRoute("10.8.0.0/16", "10.2.0.9"),))
    await cloud.subnet(
        network, "fd00::/64", second, ipv6_ra_mode="dhcpv6-stateful", ipv6_address_mode="dhcpv6-stateful"
    )
    fixed_ips = (FixedIpRequest(ip_address="10.2.0.7"), FixedIpRequest(ip_address="fd00::7"))
    port_id = await port_on(cloud, network.id, fixed_ips=fixed_ips)
    told = (await cloud.client.get_nic_networks([port_id]))[port_id]
    assert told.segment == NicSegment(id=second.id, network_type="vlan", physical_network="rack2")
    assert (told.port_id, told.mtu) == (port_id, 1500)
    assert sorted(told.subnets, key=lambda subnet: subnet.cidr) == [
        NicSubnet(
            cidr="10.2.0.0/24",
            gateway="10.2.0.1",
            routes=(
                Route(destination="10.8.0.0/16", nexthop="10.2.0.9"),
                Route(destination="10.1.0.0/24", nexthop="10.2.0.1"),
            ),
        ),
        NicSubnet(cidr="fd00::/64", gateway="fd00::1", ra_mode="dhcpv6-stateful", address_mode="dhcpv6-stateful"),
    ]
    other = await port_on(cloud, network.id, fixed_ips=(FixedIpRequest(ip_address="10.1.0.7"),))
    (subnet,) = (await cloud.client.get_nic_networks([other]))[other].subnets
    assert (subnet.dns, subnet.dhcp) == (("10.9.9.9",), False)


async def test_a_network_without_segments_is_its_own(cloud: Cloud) -> None:
    bare, wired = await cloud.plain(), await cloud.plain("10.3.0.0/24", "rack1")
    ids = [await port_on(cloud, network.id) for network in (bare, wired)]
    told = await cloud.client.get_nic_networks([*ids, wired.id])
    assert told.keys() == set(ids)
    assert told[ids[0]].segment is None
    assert told[ids[1]].segment == NicSegment(id=wired.id, network_type="flat", physical_network="rack1")


async def test_a_port_without_addresses_is_on_the_only_segment_of_its_network(cloud: Cloud) -> None:
    network = await cloud.network()
    segment = await cloud.segment(network, "rack1")
    port_id = await port_on(cloud, network.id, fixed_ips=())
    told = (await cloud.client.get_nic_networks([port_id]))[port_id]
    assert told.segment is not None
    assert (told.segment.id, told.subnets) == (segment.id, ())
    await cloud.segment(network, "rack2")
    assert (await cloud.client.get_nic_networks([port_id]))[port_id] == NicNetwork(port_id=port_id)


async def test_two_statements_tell_of_any_number_of_nics_hidden_ones_too(cloud: Cloud) -> None:
    network, flat = await cloud.plain(), await cloud.flat(cell1="10.4.0.0/24")
    server = cloud.server(Nic(tag="0", network_id=flat.id))
    await cloud.client.ensure_ports([server], placed=True)
    ids = [await port_on(cloud, network.id) for _ in range(3)] + [Nic(tag="0").port_id_of(server.server_id)]
    with counting(cloud) as seen:
        told = await cloud.client.get_nic_networks(ids)
    assert list(map(told.__contains__, ids)) == [True] * 4
    assert len(seen) == 2


NIC = NicRow(
    port_id="p", network_id="n", mtu=9000, segment_id=None, network_type=None, physical_network=None,
    segmentation_id=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("link", "segment"),
    [
        ({}, None),
        ({"physical_network": "rack1"}, NicSegment(id="n", network_type="flat", physical_network="rack1")),
        ({"network_type": "vxlan", "segmentation_id": 7}, NicSegment(id="n", network_type="vxlan", segmentation_id=7)),
        (
            {"segment_id": "g", "network_type": "vlan", "physical_network": "rack1", "segmentation_id": 7},
            NicSegment(id="g", network_type="vlan", physical_network="rack1", segmentation_id=7),
        ),
    ],
)
def test_a_nic_is_told_what_carries_it(link: dict[str, Any], segment: NicSegment | None) -> None:
    others = a_subnet(network_id="other")
    told = describe_nic(replace(NIC, subnet_ids=("s",), **link), [others])
    assert told == NicNetwork(port_id="p", mtu=9000, segment=segment)
