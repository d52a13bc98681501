"""IPv6 subnets and their ports over HTTP: what is shown, and how the wrong is refused by upstream's names."""

import pytest
from tests.network.cloud import Cloud
from tests.network.test_api import Api

from roost.network.errors import InvalidInput, NetworkMTUSubnetConflict
from roost.network.model.networks import NetworkChanges, SubnetChanges
from roost.network.service import networks, subnets

SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


async def test_an_ipv6_subnet_is_shown_as_upstream_shows_it(api: Api) -> None:
    network = await api.make("network", name="six")
    subnet = await api.make("subnet", network_id=network["id"], ip_version=6, cidr="2001:DB8:0::/64", **SLAAC)
    assert {name: subnet[name] for name in ("cidr", "gateway_ip", "ip_version", *SLAAC, "allocation_pools")} == {
        "cidr": "2001:db8::/64",
        "gateway_ip": "2001:db8::1",
        "ip_version": 6,
        **SLAAC,
        "allocation_pools": [{"start": "2001:db8::2", "end": "2001:db8::ffff:ffff:ffff:ffff"}],
    }
    port = await api.make("port", network_id=network["id"], mac_address="FA-16-3E-00-00-01")
    assert port["fixed_ips"] == [{"subnet_id": subnet["id"], "ip_address": "2001:db8::f816:3eff:fe00:1"}]
    status, found = await api.call("GET", "/v2.0/ports?fixed_ips=ip_address=2001:DB8::F816:3EFF:FE00:1")
    assert status == 200
    assert [item["id"] for item in found["ports"]] == [port["id"]]


async def test_a_wrong_subnet_is_refused_by_upstreams_name(api: Api) -> None:
    network = await api.make("network", name="six")
    six = {"ip_version": 6, "cidr": "2001:db8::/64"}
    pools = [[{"start": f"{prefix}1", "end": f"{prefix}9"}] for prefix in ("2001:db8::", "10.0.0.")]
    for fields, kind in (
        ({"ip_version": 5, "cidr": "10.0.0.0/24"}, "InvalidInput"),
        ({**six, "ip_version": 4}, "InvalidInput"),
        ({**six, "ipv6_ra_mode": "other"}, "InvalidInput"),
        ({"cidr": "10.0.0.0/24", "service_types": ["nova"]}, "InvalidSubnetServiceType"),
        ({**six, "allocation_pools": pools[0]}, "GatewayConflictWithAllocationPools"),
        ({**six, "allocation_pools": pools[1]}, "OutOfBoundsAllocationPool"),
    ):
        body = {"network_id": network["id"], **fields}
        status, answer = await api.call("POST", "/v2.0/subnets", {"subnet": body})
        assert (status, answer["NeutronError"]["type"]) == (409 if kind.startswith("Gateway") else 400, kind), fields
    assert (await api.call("GET", "/v2.0/subnets"))[1] == {"subnets": []}


async def test_wrong_addresses_of_ports_are_refused_by_upstreams_name(api: Api) -> None:
    network = await api.make("network", name="six")
    for cidr, more in (("2001:db8::/64", SLAAC), ("2001:db8:1::/126", {})):
        await api.make("subnet", network_id=network["id"], ip_version=6, cidr=cidr, **more)
    for address, kind in (
        ("2001:db8::5", "AllocationOnAutoAddressSubnet"),
        ("2001:db8:2::5", "InvalidIpForNetwork"),
        ("10.0.0.1", "InvalidIpForNetwork"),
        ("::1", "InvalidInput"),
        ("fe80::1%eth0", "InvalidInput"),
    ):
        asked = {"network_id": network["id"], "fixed_ips": [{"ip_address": address}]}
        status, answer = await api.call("POST", "/v2.0/ports", {"port": asked})
        assert (status, answer["NeutronError"]["type"]) == (400, kind), address
    for _ in range(2):
        await api.make("port", network_id=network["id"])
    status, answer = await api.call("POST", "/v2.0/ports", {"port": {"network_id": network["id"]}})
    assert (status, answer["NeutronError"]["type"]) == (409, "IpAddressGenerationFailure")
    assert answer["NeutronError"]["message"] == (
        f"No more IP addresses available on network six ({network['id']}). "
        "The addresses of network six ran out: 0 of 2 free."
    )


async def test_dhcp_stays_where_ipv6_modes_need_it(cloud: Cloud) -> None:
    """As a subnet without it is refused when it is made. Source: Neutron, _validate_ipv6_update_dhcp."""
    network = await cloud.network()
    modes = {"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}
    subnet = await cloud.subnet(network, "2001:db8::/64", **modes)
    with pytest.raises(InvalidInput, match="ipv6_ra_mode cannot be set when enable_dhcp is set to false"):
        await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(enable_dhcp=False))
    assert await subnets.list_subnets(cloud.networks) == [subnet]


async def test_a_network_whose_mtu_is_too_small_for_ipv6_gets_no_ipv6_subnet(cloud: Cloud) -> None:
    """As such a subnet keeps its network from getting such an MTU."""
    network = await cloud.network()
    await networks.update_network(cloud.networks, network.id, NetworkChanges(mtu=1279))
    with pytest.raises(NetworkMTUSubnetConflict):
        await cloud.subnet(network, "2001:db8::/64")
    four = await cloud.subnet(network, "10.0.0.0/24")
    assert await subnets.list_subnets(cloud.networks) == [four]
    await networks.update_network(cloud.networks, network.id, NetworkChanges(mtu=1280))
    await cloud.subnet(network, "2001:db8::/64")
