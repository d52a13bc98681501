"""Networks and segments over HTTP: made, one or many, changed, shown, refused."""

import asyncio
import tracemalloc
from typing import Any

import msgspec
import pytest
from tests.network.cloud import Cloud
from tests.network.test_api import Api, routed

from roost.network.model.networks import Link
from roost.network.store import networks

VLAN = {"provider:network_type": "vlan", "provider:physical_network": "rack1"}
STALE = [(b"if-match", b"revision_number=77")]


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


async def refused(api: Api, method: str, path: str, body: Any, **more: Any) -> tuple[int, str]:
    """(status, the error's type)."""
    status, answer = await api.call(method, f"/v2.0/{path}", body, **more)
    assert status >= 400, answer
    assert answer["NeutronError"]["message"]
    return status, answer["NeutronError"]["type"]


async def test_a_network_is_changed_and_its_revision_counts(api: Api) -> None:
    network = await api.make("network", name="old", shared=True, mtu=9000, **{"router:external": True})
    shown = {"shared": True, "mtu": 9000, "router:external": True, "revision_number": 1, "status": "ACTIVE"}
    assert shown.items() <= network.items()
    change = {"name": "new", "description": "d", "admin_state_up": False, "shared": False, "mtu": 0}
    status, answer = await api.call("PUT", f"/v2.0/networks/{network['id']}", {"network": change})
    assert status == 200
    shown = {**change, "mtu": 1500, "status": "DOWN", "router:external": True, "revision_number": 2}
    assert shown.items() <= answer["network"].items()
    path = f"networks/{network['id']}"
    for method, body in (("PUT", {"network": {"name": "x"}}), ("DELETE", None)):
        answered = await refused(api, method, path, body, headers=STALE)
        assert answered == (412, "RevisionNumberConstraintFailed")
    current = [(b"if-match", b"revision_number=2")]
    assert (await api.call("DELETE", f"/v2.0/{path}", headers=current))[0] == 204
    assert await refused(api, "PUT", path, {"network": {"name": "x"}}) == (404, "NetworkNotFound")


async def test_what_carries_a_network_is_shown_as_upstream_does_and_stays(api: Api) -> None:
    one = await api.make("network", **VLAN, **{"provider:segmentation_id": "101"})
    assert one["provider:segmentation_id"] == 101
    put = {"network": {**VLAN, "provider:segmentation_id": "101", "name": "same"}}
    assert (await api.call("PUT", f"/v2.0/networks/{one['id']}", put))[0] == 200
    other = {"network": {"provider:segmentation_id": 102}}
    assert await refused(api, "PUT", f"networks/{one['id']}", other) == (400, "InvalidInput")

    segments = [{**VLAN, "provider:segmentation_id": number} for number in (205, 203, 204)]
    many = await api.make("network", segments=segments)
    assert (many["segments"], "provider:network_type" in many) == (segments, False)
    _, answer = await api.call("GET", f"/v2.0/segments?network_id={many['id']}&sort_key=segmentation_id")
    assert [item["segmentation_id"] for item in answer["segments"]] == [203, 204, 205]
    for query, found in (("provider:segmentation_id=204", [many]), ("provider:physical_network=rack1", [one, many])):
        _, answer = await api.call("GET", f"/v2.0/networks?{query}")
        assert {item["id"] for item in answer["networks"]} == {item["id"] for item in found}, query

    routed_network = await api.make("network")
    assert routed_network["provider:network_type"] is None
    link = {"network_type": "vlan", "physical_network": "rack1", "segmentation_id": 301}
    await api.make("segment", network_id=routed_network["id"], **link)
    _, answer = await api.call("GET", f"/v2.0/networks/{routed_network['id']}")
    assert answer["network"]["provider:segmentation_id"] == 301


async def test_segments_that_cannot_be_are_refused(api: Api) -> None:
    network = await api.make("network", **VLAN, **{"provider:segmentation_id": 101})
    await api.make("network", **{"provider:network_type": "flat", "provider:physical_network": "flat1"})
    await api.make("network", **{"provider:network_type": "vxlan", "provider:segmentation_id": 7})
    same = {"provider:network_type": "vlan", "provider:physical_network": "a", "provider:segmentation_id": 5}

    def segment(**link: Any) -> Any:
        return {"segment": {"network_id": network["id"], **link}}

    vlan = {"network_type": "vlan", "physical_network": "rack1"}
    cases: list[tuple[str, Any, int, str]] = [
        ("segments", segment(**vlan, segmentation_id=101), 409, "VlanIdInUse"),
        ("segments", segment(network_type="flat", physical_network="flat1"), 409, "FlatNetworkInUse"),
        ("segments", segment(network_type="vxlan", segmentation_id=7), 409, "TunnelIdInUse"),
        ("segments", segment(**vlan, segmentation_id=4095), 400, "InvalidInput"),
        ("networks", {"network": {**VLAN, "provider:segmentation_id": 101}}, 409, "VlanIdInUse"),
        ("networks", {"network": {"segments": [same, same]}}, 400, "SegmentsContainDuplicateEntry"),
        ("networks", {"network": {"segments": [{}]}}, 400, "InvalidInput"),
        ("networks", {"network": {"segments": [same], **VLAN}}, 400, "SegmentsSetInConjunctionWithProviders"),
        ("networks", {"network": {"mtu": "65536"}}, 400, "InvalidInput"),
    ]
    for path, body, status, kind in cases:
        assert await refused(api, "POST", path, body) == (status, kind), body
    assert len((await api.call("GET", "/v2.0/networks"))[1]["networks"]) == 3
    assert len((await api.call("GET", "/v2.0/segments"))[1]["segments"]) == 3


async def test_either_all_subnets_of_a_network_are_on_its_segments_or_none(api: Api, cloud: Cloud) -> None:
    """Also where a later subnet or segment would make it otherwise."""
    _, foreign, _ = await routed(api, cloud)
    missing = "11111111-1111-4111-8111-111111111111"
    one = await api.make("network", **VLAN, **{"provider:segmentation_id": 102})
    _, answer = await api.call("GET", f"/v2.0/segments?network_id={one['id']}")
    (own,) = answer["segments"]
    await api.make("subnet", network_id=one["id"], cidr="10.1.0.0/24")
    several = await api.make("network", segments=[{**VLAN, "provider:segmentation_id": n} for n in (103, 104)])

    def subnet(network: Any, **more: Any) -> Any:
        return {"subnet": {"network_id": network["id"], "cidr": "10.2.0.0/24", **more}}

    vlan = {"network_type": "vlan", "physical_network": "rack2", "segmentation_id": 105}
    not_all = (400, "SubnetsNotAllAssociatedWithSegments")
    for path, body, expected in (
        ("subnets", subnet(one, segment_id=own["id"]), not_all),
        ("segments", {"segment": {"network_id": one["id"], **vlan}}, not_all),
        ("subnets", subnet(several), not_all),
        ("subnets", subnet(several, segment_id=foreign["id"]), (400, "NetworkIdsDontMatch")),
        ("subnets", subnet(several, segment_id=missing), (404, "SegmentNotFound")),
    ):
        assert await refused(api, "POST", path, body) == expected, body
    assert len((await api.call("GET", "/v2.0/subnets"))[1]["subnets"]) == 2


async def test_of_many_that_want_one_vlan_at_once_one_gets_it(api: Api) -> None:
    body = {"network": {**VLAN, "provider:segmentation_id": 101}}
    answers = await asyncio.gather(*(api.call("POST", "/v2.0/networks", body) for _ in range(8)))
    assert sorted(status for status, _ in answers) == [201, *[409] * 7]


async def test_a_segment_is_named_anew_and_nothing_else(api: Api, cloud: Cloud) -> None:
    _, segment, _ = await routed(api, cloud)
    path = f"segments/{segment['id']}"
    status, answer = await api.call("PUT", f"/v2.0/{path}", {"segment": {"name": "a", "description": None}})
    assert (status, answer["segment"]) == (
        200,
        {
            **segment,
            "name": "a",
            "description": "",
            "revision_number": 2,
            "updated_at": answer["segment"]["updated_at"],
        },
    )
    other = {"segment": {"segmentation_id": 7}}
    assert await refused(api, "PUT", path, other) == (400, "HTTPBadRequest")
    for method, body in (("PUT", {"segment": {"name": "x"}}), ("DELETE", None)):
        assert (await refused(api, method, path, body, headers=STALE))[0] == 412
    missing = "11111111-1111-4111-8111-111111111111"
    assert await refused(api, "PUT", f"segments/{missing}", {"segment": {}}) == (404, "SegmentNotFound")


async def test_a_shared_network_stays_so_while_others_use_it(api: Api) -> None:
    network = await api.make("network", shared=True)
    port = await api.make("port", network_id=network["id"], project_id="another")
    unshare = {"network": {"shared": False}}
    assert await refused(api, "PUT", f"networks/{network['id']}", unshare) == (409, "InvalidSharedSetting")
    await api.call("DELETE", f"/v2.0/ports/{port['id']}")
    assert (await api.call("PUT", f"/v2.0/networks/{network['id']}", unshare))[0] == 200


async def test_many_are_made_in_their_order_or_none(api: Api) -> None:
    names = [f"n{number}" for number in range(20)]
    status, answer = await api.call("POST", "/v2.0/networks", {"networks": [{"name": name} for name in names]})
    assert (status, [item["name"] for item in answer["networks"]]) == (201, names)
    known = answer["networks"][0]["id"]
    vlan = {"network_id": known, "network_type": "vlan", "physical_network": "rack1"}
    many = [{**vlan, "segmentation_id": number} for number in (9, 3, 5)]
    status, answer = await api.call("POST", "/v2.0/segments", {"segments": many})
    assert (status, [item["segmentation_id"] for item in answer["segments"]]) == (201, [9, 3, 5])
    for body in (
        {"networks": [{"name": "new"}, {"name": "vlan", **VLAN, "provider:segmentation_id": 3}]},
        {"networks": [{"name": "new"}, {"name": 7}]},
        {"networks": []},
        {"networks": [{}] * 501},
        {"networks": [{}], "network": {}},
        {},
    ):
        assert (await api.call("POST", "/v2.0/networks", body))[0] in (400, 409)
    missing = {**vlan, "segmentation_id": 11, "network_id": "11111111-1111-4111-8111-111111111111"}
    answered = await refused(api, "POST", "segments", {"segments": [{**vlan, "segmentation_id": 10}, missing]})
    assert answered == (404, "NetworkNotFound")
    assert len((await api.call("GET", "/v2.0/networks"))[1]["networks"]) == 20
    assert len((await api.call("GET", "/v2.0/segments"))[1]["segments"]) == 3


NOTHING: dict[str, dict[str, Any]] = {
    "network": {
        "availability_zone_hints": [], "dns_domain": "", "is_default": False,
        "qos_policy_id": None, "vlan_transparent": None, "pvlan": False, "ha": False,
    },
    "subnet": {
        "subnetpool_id": None, "use_default_subnetpool": False, "prefixlen": None, "dns_publish_fixed_ip": False,
    },
    "port": {"security_groups": [], "trusted": False, "pvlan_type": None},
}  # fmt: skip
"""Of each kind, what is not served and asks for nothing."""


async def test_what_is_not_served_is_refused_by_name_unless_it_asks_for_nothing(api: Api) -> None:
    network = await api.make("network", **NOTHING["network"])
    needs = {
        "network": {},
        "subnet": {"network_id": network["id"], "cidr": "10.0.0.0/24"},
        "port": {"network_id": network["id"]},
    }
    subnet = await api.make("subnet", **needs["subnet"], **NOTHING["subnet"])
    port = await api.make("port", **needs["port"], **NOTHING["port"])
    for kind, made in (("network", network), ("subnet", subnet), ("port", port)):
        for name, nothing in NOTHING[kind].items():
            something = {name: ["x"] if isinstance(nothing, list) else True if nothing is False else "x"}
            for method, path, body in (
                ("POST", f"{kind}s", {**needs[kind], **something}),
                ("PUT", f"{kind}s/{made['id']}", something),
            ):
                status, answer = await api.call(method, f"/v2.0/{path}", {kind: body})
                assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput")
                assert answer["NeutronError"]["message"].startswith(
                    f"{name}: Roost does not serve it: leave it out, or"
                )
    _, answer = await api.call("POST", "/v2.0/subnets", {"subnet": {"network_id": network["id"]}})
    assert answer["NeutronError"]["message"].startswith("cidr: a subnet needs one")


async def test_an_attribute_that_nobody_may_give_is_refused_in_upstreams_words(api: Api) -> None:
    network = await api.make("network")
    path = f"/v2.0/networks/{network['id']}"
    for method, at, body, message in (
        ("POST", "/v2.0/networks", {"network": {"status": "ACTIVE"}}, "Attribute 'status' not allowed in POST"),
        ("POST", "/v2.0/networks", {"networks": [{}, {"id": "x"}]}, "Attribute 'id' not allowed in POST"),
        ("POST", "/v2.0/networks", {"network": {"colour": 1}}, "Unrecognized attribute(s) 'colour'"),
        ("PUT", path, {"network": {"project_id": "x"}}, "Cannot update read-only attribute project_id"),
        ("PUT", path, {"network": {"colour": 1}}, "Unrecognized attribute(s) 'colour'"),
        (
            "POST", "/v2.0/networks", {"network": {"project_id": "a", "tenant_id": "b"}},
            "'project_id' and 'tenant_id' do not match",
        ),
    ):  # fmt: skip
        status, answer = await api.call(method, at, body)
        assert status == 400
        assert answer["NeutronError"] == {"type": "HTTPBadRequest", "message": message, "detail": ""}


async def test_a_list_of_far_too_many_is_refused_as_it_is_read(api: Api, cloud: Cloud) -> None:
    """Rules that look at each of a million before they count them take a minute."""
    network, _, subnet = await routed(api, cloud)
    port = await api.make("port", network_id=network["id"])
    lists: dict[str, Any] = {
        "fixed_ips": {}, "allocation_pools": {"start": "10.0.0.2", "end": "10.0.0.3"}, "dns_nameservers": "8.8.8.8",
        "host_routes": {"destination": "10.0.0.0/24", "nexthop": "10.0.0.3"}, "service_types": "compute:x",
    }  # fmt: skip
    for name, item in lists.items():
        one, made = ("port", port) if name == "fixed_ips" else ("subnet", subnet)
        new = {"network_id": network["id"]} | ({} if one == "port" else {"cidr": "10.9.0.0/24"})
        for method, path, body in (("POST", f"{one}s", new), ("PUT", f"{one}s/{made['id']}", {})):
            status, answer = await api.call(method, f"/v2.0/{path}", {one: {**body, name: [item] * 1001}})
            assert status == 400
            assert f"of length <= 1000 - at `$.{one}.{name}`" in answer["NeutronError"]["message"]


async def test_whether_links_are_taken_is_looked_up_and_not_compared_with_each(api: Api, cloud: Cloud) -> None:
    """For 10,000 VLANs among 12,000 it took twelve seconds, in which nobody could make a segment."""
    many = [{**VLAN, "provider:segmentation_id": number} for number in range(1, 1001)]
    taken = await api.make("network", segments=many)
    async with cloud.networks.database.transaction() as tx:
        await tx.execute("ANALYZE network.segment")
        wanted = [["vlan"] * 500, ["rack1"] * 500, list(range(501, 1001))]
        text = await tx.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {networks.LIST_LINKS_TAKEN}", *wanted)
        (plan,) = msgspec.json.decode(text)
        assert plan["Plan"].get("Rows Removed by Join Filter", 0) < 1000, plan
        for link, found in (
            (Link(network_type="vlan", physical_network="rack1", segmentation_id=7), True),
            (Link(network_type="vlan", physical_network="rack2", segmentation_id=7), False),
            (Link(network_type="vlan", physical_network=None, segmentation_id=7), False),
            (Link(network_type="vlan", physical_network="rack1", segmentation_id=None), False),
            (Link(network_type="vxlan", physical_network="rack1", segmentation_id=7), False),
        ):
            assert await networks.lock_links(tx, [link]) == ([(link, taken["id"])] if found else [])


async def test_an_error_does_not_repeat_megabytes(api: Api) -> None:
    network = await api.make("network")
    long = "A" * 1_000_000
    for kind, item, end in (
        (
            "subnet",
            {"cidr": long},
            "AAA' does not appear to be an IPv4 or IPv6 network; expected one like 10.0.0.0/24.",
        ),
        ("subnet", {"cidr": "10.0.0.0/24", "gateway_ip": long}, "AAA' is not an IP address."),
        ("subnet", {long: 1}, "AAA'"),
        ("port", {"binding:vnic_type": long}, ", normal, remote-managed, smart-nic, vdpa, virtio-forwarder"),
    ):
        status, answer = await api.call("POST", f"/v2.0/{kind}s", {kind: {"network_id": network["id"], **item}})
        message = answer["NeutronError"]["message"]
        assert (status, len(message) < 50_000, message.endswith(end)) == (400, True, True), message[-200:]


async def test_all_that_one_request_makes_has_no_more_parts_than_a_worker_can_look_at(api: Api, cloud: Cloud) -> None:
    """Networks with 450,000 segments took a worker ten seconds, subnets with 100,000 pools four."""
    network, _, _ = await routed(api, cloud)
    pools = [{"start": f"10.0.{number // 100}.{number % 100}", "end": "10.0.0.1"} for number in range(1000)]
    cases: dict[str, Any] = {
        "networks": {"segments": [{"provider:network_type": "geneve"}] * 1000},
        "subnets": {"network_id": network["id"], "cidr": "10.0.0.0/16", "allocation_pools": pools},
    }
    for many, item in cases.items():
        status, answer = await api.call("POST", f"/v2.0/{many}", {many: [item] * 11})
        assert status == 400
        assert "one request makes at most 10000 of them, 11000 are too many" in answer["NeutronError"]["message"]
    ten = {"networks": [{"segments": [{"provider:network_type": "geneve"}] * 50}] * 200}
    assert (await api.call("POST", "/v2.0/networks", ten))[0] == 201


async def test_what_is_not_served_is_passed_over_whatever_it_is_made_of(api: Api) -> None:
    """Decoded, such lists take a worker long: five million of them two seconds, and a third of a gigabyte."""
    network = await api.make("network")
    many = b"[" + b"[]," * 45_000 + b"[]]"
    about = f'"network_id":"{network["id"]}"'.encode()
    for path, before, after in (
        ("POST /v2.0/ports", b'{"port":{%b,"security_groups":' % about, b"}}"),
        ("POST /v2.0/ports", b'{"port":{%b,"binding:profile":{"many":' % about, b"}}}"),
        ("POST /v2.0/subnets", b'{"subnet":{%b,"cidr":"10.0.0.0/24","prefixlen":' % about, b"}}"),
        ("POST /v2.0/networks", b'{"network":{"availability_zone_hints":', b"}}"),
        (f"PUT /v2.0/networks/{network['id']}", b'{"network":{"dns_domain":', b"}}"),
        ("PUT /v2.0/quotas/any", b'{"quota":{"router":', b"}}"),
    ):
        method, _, path = path.partition(" ")
        tracemalloc.start()
        status, answer = await api.call(method, path, raw=before + many + after)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput"), answer
        assert peak < 6 * len(many), path


async def test_what_is_not_served_is_refused_unless_it_asks_for_nothing(api: Api) -> None:
    message = 'dns_domain: Roost does not serve it: leave it out, or give "".'
    refusal = (400, {"NeutronError": {"type": "InvalidInput", "message": message, "detail": ""}})
    for value in (b"[1]", b'"x"', b"true", b"1e999", b'"\\ud83d\\ude00"', b'"\xff"', b'" "', b"[]", b"false"):
        assert await api.call("POST", "/v2.0/networks", raw=b'{"network":{"dns_domain":%b}}' % value) == refusal, value
    for value in (b'""', b' "" ', b"null"):
        assert (await api.call("POST", "/v2.0/networks", raw=b'{"network":{"dns_domain":%b}}' % value))[0] == 201


async def test_a_null_that_would_change_nothing_is_refused(api: Api, cloud: Cloud) -> None:
    network, _, subnet = await routed(api, cloud)
    port = await api.make("port", network_id=network["id"], name="web", description="said")
    refuses = {
        f"networks/{network['id']}": ("name", "description", "admin_state_up", "mtu"),
        f"subnets/{subnet['id']}": ("name", "description", "enable_dhcp", "allocation_pools", "service_types"),
        f"ports/{port['id']}": (
            "name", "description", "mac_address", "admin_state_up", "device_id", "device_owner", "fixed_ips",
            "binding:vnic_type",
        ),
    }  # fmt: skip
    for path, names in refuses.items():
        for name in names:
            one = path.split("s/")[0]
            assert (await refused(api, "PUT", path, {one: {name: None}}))[0] == 400, (path, name)
    assert (await refused(api, "PUT", f"ports/{port['id']}", {"port": {"mac_address": ""}}))[0] == 400
    nulls = {"binding:host_id": None, "binding:profile": None}
    status, answer = await api.call("PUT", f"/v2.0/ports/{port['id']}", {"port": nulls})
    assert (status, answer["port"]["name"], answer["port"]["description"]) == (200, "web", "said")


async def test_l2_adjacency_ends_with_the_first_subnet_on_a_segment(api: Api, cloud: Cloud) -> None:
    """BEHAVIOURS 18."""
    network = await api.make("network")
    vlan = {"network_type": "vlan", "physical_network": "rack1", "segmentation_id": 101}
    segment = await api.make("segment", network_id=network["id"], **vlan)

    async def adjacent() -> Any:
        _, answer = await api.call("GET", f"/v2.0/networks/{network['id']}?fields=l2_adjacency")
        return answer["network"]["l2_adjacency"]

    assert await adjacent() is True
    subnet = await api.make("subnet", network_id=network["id"], segment_id=segment["id"], cidr="203.0.113.0/29")
    assert await adjacent() is False
    await api.call("DELETE", f"/v2.0/subnets/{subnet['id']}")
    assert await adjacent() is True


async def test_a_networks_revision_rises_with_its_subnets(api: Api, cloud: Cloud) -> None:
    """Clients that cache a network with its subnets ask by it whether they know the newest."""
    network = await api.make("network")

    async def revision() -> int:
        _, answer = await api.call("GET", f"/v2.0/networks/{network['id']}")
        found: int = answer["network"]["revision_number"]
        return found

    many = [{"network_id": network["id"], "cidr": f"10.0.{n}.0/24", "ip_version": 4} for n in range(2)]
    _, answer = await api.call("POST", "/v2.0/subnets", {"subnets": many})
    first, second = answer["subnets"]
    assert await revision() == 2
    await api.call("PUT", f"/v2.0/subnets/{first['id']}", {"subnet": {"name": "renamed"}})
    assert await revision() == 3
    pools = {"allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]}
    assert (await api.call("PUT", f"/v2.0/subnets/{first['id']}", {"subnet": pools}))[0] == 200
    assert await revision() == 4
    slaac = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    automatic = await api.make("subnet", network_id=network["id"], cidr="2001:db8::/64", ip_version=6, **slaac)
    assert await revision() == 5
    for subnet in (second, automatic):
        assert (await api.call("DELETE", f"/v2.0/subnets/{subnet['id']}"))[0] == 204
    assert await revision() == 7
    await api.make("port", network_id=network["id"])
    assert (await api.call("DELETE", f"/v2.0/subnets/{first['id']}"))[0] == 409
    assert await revision() == 7, "neither a port nor a refusal raises it"
    stale = [(b"if-match", b"revision_number=6")]
    assert (await api.call("PUT", f"/v2.0/networks/{network['id']}", {"network": {"name": "n"}}, headers=stale))[
        0
    ] == 412


async def test_an_overlap_is_refused_in_the_words_that_clients_look_for(api: Api) -> None:
    network = await api.make("network")
    body = {"network_id": network["id"], "cidr": "10.0.0.0/24", "ip_version": 4}
    await api.make("subnet", **body)
    status, answer = await api.call("POST", "/v2.0/subnets", {"subnet": body})
    assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput")
    assert "overlaps with another subnet" in answer["NeutronError"]["message"]


async def test_a_small_mtu_is_refused_with_the_subnet_that_it_is_too_small_for(api: Api) -> None:
    """As upstream: a network without subnets may have any, and later get the subnets that it is large enough for."""
    network = await api.make("network", mtu=67)
    body = {"subnet": {"network_id": network["id"], "cidr": "10.0.0.0/24", "ip_version": 4}}
    status, answer = await api.call("POST", "/v2.0/subnets", body)
    assert (status, answer["NeutronError"]["type"]) == (409, "NetworkMTUSubnetConflict")
    grown = {"network": {"mtu": 68}}
    assert (await api.call("PUT", f"/v2.0/networks/{network['id']}", grown))[0] == 200
    assert (await api.call("POST", "/v2.0/subnets", body))[0] == 201
    status, answer = await api.call("PUT", f"/v2.0/networks/{network['id']}", {"network": {"mtu": 67}})
    assert (status, answer["NeutronError"]["type"]) == (409, "NetworkMTUSubnetConflict")


async def test_a_network_with_ports_stays_in_the_words_that_clients_look_for(api: Api) -> None:
    network = await api.make("network")
    await api.make("port", network_id=network["id"])
    status, answer = await api.call("DELETE", f"/v2.0/networks/{network['id']}")
    assert (status, answer["NeutronError"]["type"]) == (409, "NetworkInUse")
    assert "There are one or more ports still in use on the network" in answer["NeutronError"]["message"]


@pytest.mark.parametrize("many", ["networks", "ports", "agents"])
async def test_a_page_is_reversed_or_not(api: Api, many: str) -> None:
    assert (await api.call("GET", f"/v2.0/{many}?limit=1&page_reverse=True"))[0] == 200
    status, answer = await api.call("GET", f"/v2.0/{many}?page_reverse=null")
    assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput")
