"""Many of one kind made by one request: all, or none."""

import ipaddress
from typing import Any

import pytest
from tests.network.cloud import Cloud, counting
from tests.network.test_api import Api

from roost.network.model.ports import PortFilter
from roost.network.service import ports


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


async def test_ports_are_made_in_their_order_with_their_addresses(api: Api, cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/29")
    many = [{"network_id": network.id, "name": f"p{number}", "tags": ["b", "a"]} for number in range(5)]
    status, answer = await api.call("POST", "/v2.0/ports", {"ports": many})
    assert (status, [port["name"] for port in answer["ports"]]) == (201, ["p0", "p1", "p2", "p3", "p4"])
    assert {len(port["fixed_ips"]) for port in answer["ports"]} == {1}
    assert answer["ports"][0]["tags"] == ["a", "b"]
    assert await cloud.used(network.id) == (5, 5)


async def test_of_ports_of_which_one_is_refused_nothing_remains(api: Api, cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/29")
    cases: list[tuple[list[Any], int, str]] = [
        ([{}] * 6, 409, "IpAddressGenerationFailure"),
        ([{}, {"fixed_ips": [{"ip_address": "192.0.2.1"}]}], 400, "InvalidIpForNetwork"),
        ([{}, {"mac_address": "fa:16:3e:00:00:01"}, {"mac_address": "fa:16:3e:00:00:01"}], 409, "MacAddressInUse"),
        ([{}, {"dns_name": "a"}], 400, "InvalidInput"),
        ([{}, {"network_id": "11111111-1111-4111-8111-111111111111"}], 404, "NetworkNotFound"),
    ]
    for many, status, kind in cases:
        body = {"ports": [{"network_id": network.id, **item} for item in many]}
        answered, answer = await api.call("POST", "/v2.0/ports", body)
        assert (answered, answer["NeutronError"]["type"]) == (status, kind)
        assert await ports.list_ports(cloud.networks, PortFilter()) == []
        assert await cloud.used(network.id) == (5, 0)


async def test_addresses_that_many_ports_name_are_looked_for_without_reading_all_subnets_again(
    api: Api, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a network of 1,000 subnets it took a worker a minute; far too many for a port, seven seconds to read."""
    network = await cloud.network()
    cidrs = [f"10.0.{number}.0/29" for number in range(10)]
    many = [{"network_id": network.id, "cidr": cidr, "ip_version": 4} for cidr in cidrs]
    assert (await api.call("POST", "/v2.0/subnets", {"subnets": many}))[0] == 201
    read, ip_network = [], ipaddress.ip_network

    def count(cidr: str) -> Any:
        read.append(cidr)
        return ip_network(cidr)

    monkeypatch.setattr(ipaddress, "ip_network", count)
    named = [{"fixed_ips": [{"ip_address": f"10.0.9.{last}"}, {"ip_address": "10.0.9.7"}]} for last in range(2, 5)]
    body = {"ports": [{"network_id": network.id, **item} for item in named]}
    assert (await api.call("POST", "/v2.0/ports", body))[0] == 400, "one is the broadcast address"
    assert len(read) <= len(cidrs)
    too_many = {"fixed_ips": [{"ip_address": "never read"}] * 17}
    new = {"network_id": network.id, **too_many}
    for method, path, one in (("POST", "ports", new), ("PUT", f"ports/{network.id}", too_many)):
        status, answer = await api.call(method, f"/v2.0/{path}", {"port": one})
        assert (status, answer["NeutronError"]["message"]) == (400, "A port has at most 16 fixed_ips, 17 were given.")


async def test_of_subnets_of_which_one_is_refused_nothing_remains(api: Api, cloud: Cloud) -> None:
    network = await cloud.network()
    cidrs = ["10.0.0.0/29", "10.0.1.0/29", "10.0.0.0/30"]
    many = [{"network_id": network.id, "cidr": cidr, "ip_version": 4} for cidr in cidrs]
    assert (await api.call("POST", "/v2.0/subnets", {"subnets": many}))[0] == 400
    assert (await api.call("GET", "/v2.0/subnets"))[1] == {"subnets": []}
    assert await cloud.networks.placement.list_usages([network.id]) in ({}, {network.id: {}})
    status, answer = await api.call("POST", "/v2.0/subnets", {"subnets": many[:2]})
    assert (status, [subnet["cidr"] for subnet in answer["subnets"]]) == (201, cidrs[:2])
    assert await cloud.used(network.id) == (10, 0)


async def test_what_ports_cannot_have_is_refused_by_name_unless_it_asks_for_nothing(api: Api, cloud: Cloud) -> None:
    network = await cloud.plain()
    nothing = {
        "security_groups": [], "extra_dhcp_opts": [], "qos_policy_id": None, "dns_name": "", "dns_domain": "",
        "propagate_uplink_status": False, "numa_affinity_policy": None, "device_profile": None, "hints": None,
        "trusted": None,
    }  # fmt: skip
    port = await api.make("port", network_id=network.id, **nothing)
    something = {
        "security_groups": ["a"], "extra_dhcp_opts": [{}], "qos_policy_id": network.id, "dns_name": "a",
        "numa_affinity_policy": "legacy", "trusted": 1,
    }  # fmt: skip
    for name, value in something.items():
        for method, path in (("POST", "ports"), ("PUT", f"ports/{port['id']}")):
            body = {"network_id": network.id, name: value} if method == "POST" else {name: value}
            status, answer = await api.call(method, f"/v2.0/{path}", {"port": body})
            assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput"), name
            assert answer["NeutronError"]["message"].startswith(f"{name}: Roost does not serve it: ")


async def test_many_networks_and_segments_cost_as_many_statements_as_one(api: Api, cloud: Cloud) -> None:
    counts = []
    for size in (1, 20):
        with counting(cloud) as statements:
            _, made = await api.call("POST", "/v2.0/networks", {"networks": [{"name": "net"}] * size})
            wanted = [{"network_id": one["id"], "network_type": "geneve"} for one in made["networks"]]
            status, answer = await api.call("POST", "/v2.0/segments", {"segments": wanted})
        assert (status, len(answer["segments"])) == (201, size)
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 10


async def test_items_may_be_wrapped_as_one_is(api: Api, cloud: Cloud) -> None:
    """Neutron's API takes them so, and some clients send them so."""
    network = await cloud.plain("10.0.0.0/29")
    plain = {"network_id": network.id, "name": "plain", "binding:profile": {"a": [1]}}
    wrapped = {"port": {**plain, "name": "wrapped"}}
    for many, names in (([wrapped], ["wrapped"]), ([plain, wrapped, plain], ["plain", "wrapped", "plain"])):
        status, answer = await api.call("POST", "/v2.0/ports", {"ports": many})
        assert (status, [port["name"] for port in answer["ports"]]) == (201, names), answer
        assert answer["ports"][0]["binding:profile"] == {"a": [1]}
    for kind, fields in (
        ("network", {"name": "n"}),
        ("segment", {"network_id": (await api.make("network"))["id"], "network_type": "geneve"}),
        ("subnet", {"network_id": (await api.make("network"))["id"], "cidr": "10.1.0.0/24", "ip_version": 4}),
    ):
        status, answer = await api.call("POST", f"/v2.0/{kind}s", {f"{kind}s": [{kind: fields}]})
        assert (status, len(answer[f"{kind}s"])) == (201, 1), answer


async def test_what_is_wrapped_wrongly_is_refused(api: Api, cloud: Cloud) -> None:
    network = await cloud.plain("10.0.0.0/29")
    item = {"network_id": network.id}
    for body in (
        {"ports": [{"port": {"port": item}}]},
        {"ports": [{"port": item, "name": "x"}]},
        {"ports": [{"port": item}, 5]},
        {"ports": [{"port": [item]}]},
        {"ports": [{"network": item}]},
        {"port": {"port": item}},
    ):
        status, answer = await api.call("POST", "/v2.0/ports", body)
        assert (status, answer["NeutronError"]["type"]) == (400, "HTTPBadRequest"), body
