"""The Compute API's shapes, refusals and microversions."""

from typing import Any

import pytest
from tests.agent.cloud import AGENT

from roost.compute.service import Compute
from roost.compute.service import hosts as hosts_service
from roost.seams.agent import HostReport

NET = "bbbbbbbb-0000-0000-0000-000000000001"
SMALL = {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 10, "id": "auto"}}


@pytest.fixture
async def flavor_id(call: Any, networks: Any) -> str:
    await networks.add(NET)
    answer = await call("POST", "/v2.1/flavors", SMALL)
    assert answer.status == 200, answer.raw
    return str(answer.body["flavor"]["id"])


async def boot(call: Any, flavor: str, version: str | None = None, **other: Any) -> Any:
    server = {"name": "web", "imageRef": "", "flavorRef": flavor, "networks": [{"uuid": NET}]} | other
    return await call("POST", "/v2.1/servers", {"server": server}, version=version)


async def test_version_documents_tell_the_range(call: Any) -> None:
    for path in ("/", "/v2.1", "/v2.1/"):
        answer = await call("GET", path, version="9.99")
        assert answer.status == 200
        body = answer.body
        version = body["version"] if "version" in body else body["versions"][0]
        assert (version["id"], version["min_version"], version["version"]) == ("v2.1", "2.1", "2.96")
        assert version["links"][0] == {"rel": "self", "href": "http://cloud:8778/compute/v2.1/"}


async def test_microversions_are_negotiated(call: Any) -> None:
    answer = await call("GET", "/v2.1/flavors", version="2.96")
    assert answer.headers["openstack-api-version"] == "compute 2.96"
    assert answer.headers["x-openstack-nova-api-version"] == "2.96"
    answer = await call("GET", "/v2.1/flavors", version="2.97")
    assert (answer.status, answer.body["computeFault"]["code"]) == (406, 406)
    assert (await call("GET", "/v2.1/flavors", version="x")).body["badRequest"]["code"] == 400


async def test_a_flavor_comes_and_goes(call: Any, flavor_id: str) -> None:
    again = await call("POST", "/v2.1/flavors", SMALL)
    assert (again.status, list(again.body)) == (409, ["conflictingRequest"])
    [shown] = (await call("GET", "/v2.1/flavors/detail")).body["flavors"]
    assert (shown["ram"], shown["vcpus"], shown["disk"], shown["swap"]) == (1024, 1, 10, "")
    specs = {"extra_specs": {"hw:cpu_policy": "dedicated"}}
    assert (await call("POST", f"/v2.1/flavors/{flavor_id}/os-extra_specs", specs)).body == specs
    assert (await call("GET", f"/v2.1/flavors/{flavor_id}/os-extra_specs")).body == specs
    assert (await call("DELETE", f"/v2.1/flavors/{flavor_id}/os-extra_specs/hw:cpu_policy")).status == 200
    assert (await call("GET", f"/v2.1/flavors/{flavor_id}/os-extra_specs/hw:cpu_policy")).status == 404
    assert (await call("DELETE", f"/v2.1/flavors/{flavor_id}")).status == 202
    gone = await call("GET", f"/v2.1/flavors/{flavor_id}")
    assert (gone.status, gone.body["itemNotFound"]["code"]) == (404, 404)


async def test_flavors_are_paged(call: Any, flavor_id: str) -> None:
    for number in range(3):
        await call("POST", "/v2.1/flavors", {"flavor": SMALL["flavor"] | {"name": f"f{number}", "id": f"{number}"}})
    seen, target = [], "/v2.1/flavors?limit=2"
    while target:
        body = (await call("GET", target)).body
        seen += [flavor["id"] for flavor in body["flavors"]]
        target = body.get("flavors_links", [{"href": ""}])[0]["href"].removeprefix("http://cloud:8778/compute")
    assert sorted(seen) == sorted([flavor_id, "0", "1", "2"])


async def test_a_server_is_accepted_shown_and_deleted(call: Any, compute: Compute, flavor_id: str) -> None:
    answer = await boot(call, "small", imageRef="img", metadata={"k": "v"}, description="d", version="2.96")
    assert answer.status == 202
    server_id = answer.body["server"]["id"]
    assert answer.headers["location"] == f"http://cloud:8778/compute/v2.1/servers/{server_id}"
    shown = (await call("GET", f"/v2.1/servers/{server_id}", version="2.41")).body["server"]
    assert (shown["status"], shown["OS-EXT-STS:vm_state"], shown["flavor"]["id"]) == ("BUILD", "building", flavor_id)
    assert (shown["image"]["id"], shown["metadata"], shown["description"]) == ("img", {"k": "v"}, "d")
    assert (shown["addresses"], shown["OS-EXT-SRV-ATTR:host"], shown["host_status"]) == ({}, None, "")
    assert "locked" not in (await call("GET", f"/v2.1/servers/{server_id}")).body["server"]
    for _ in range(2):
        assert (await call("DELETE", f"/v2.1/servers/{server_id}")).status == 204
    assert (await call("GET", f"/v2.1/servers/{server_id.upper()}")).status == 200


async def test_addresses_and_faults_have_novas_shape(call: Any, compute: Compute, flavor_id: str) -> None:
    server_id = (await boot(call, flavor_id)).body["server"]["id"]
    async with compute.database.transaction() as tx:
        await tx.execute(
            "UPDATE compute.server SET status = 'ERROR', network_info = $2::jsonb, fault = $3::jsonb WHERE id = $1",
            server_id,
            '[{"port_id": "p", "tag": "0", "network_id": "n", "network_name": "public",'
            ' "mac_address": "fa:16:3e:0:0:1", "addresses": ["203.0.113.5"], "preserve_on_delete": false}]',
            '{"message": "No host has room.", "host": null, "funnel": [["enabled", 3], ["free addresses", 0]]}',
        )
    shown = (await call("GET", f"/v2.1/servers/{server_id}")).body["server"]
    assert shown["addresses"] == {
        "public": [
            {
                "addr": "203.0.113.5", "version": 4, "OS-EXT-IPS:type": "fixed",
                "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:0:0:1",
            }
        ]
    }  # fmt: skip
    fault = shown["fault"]
    assert (fault["code"], fault["message"]) == (500, "No host has room.")
    assert "free addresses: 0 hosts left" in fault["details"]


async def test_several_servers_answer_the_first_or_their_reservation(call: Any, flavor_id: str) -> None:
    first = (await boot(call, flavor_id, min_count=1, max_count="3")).body["server"]["id"]
    answer = await boot(call, flavor_id, name="db", max_count=2, return_reservation_id=True)
    assert list(answer.body) == ["reservation_id"]
    mine = f"/v2.1/servers?reservation_id={answer.body['reservation_id']}"
    assert [one["name"] for one in (await call("GET", mine)).body["servers"]] == ["db-2", "db-1"]
    names, target = [], "/v2.1/servers/detail?all_tenants=1&limit=2"
    while target:
        body = (await call("GET", target)).body
        names += [one["name"] for one in body["servers"]]
        target = body.get("servers_links", [{"href": ""}])[0]["href"].removeprefix("http://cloud:8778/compute")
    assert names == ["db-2", "db-1", "web-3", "web-2", "web-1"]
    [found] = (await call("GET", "/v2.1/servers?name=web-1&status=build")).body["servers"]
    assert found["id"] == first


async def test_several_networks_and_none_named_is_a_conflict(call: Any, networks: Any, flavor_id: str) -> None:
    await networks.add("bbbbbbbb-0000-0000-0000-000000000002")
    answer = await boot(call, flavor_id, networks="auto", version="2.37")
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"].startswith("Multiple possible networks found")
    assert (await boot(call, flavor_id, networks="none", version="2.37")).status == 202


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"name": ""}, 400), ({"name": "   "}, 400), ({"name": 5}, 400), ({"name": "x" * 256}, 400),
        ({"name": "\x00"}, 400), ({"flavorRef": "none"}, 400), ({"flavorRef": None}, 400), ({"networks": [{}]}, 400),
        ({"networks": [{"uuid": "x"}]}, 400), ({"networks": "all"}, 400), ({"networks": [{"port": "\u0000"}]}, 400),
        ({"networks": [{"uuid": NET, "fixed_ip": "x"}]}, 400), ({"networks": [{"uuid": NET, "more": 1}]}, 400),
        ({"networks": [{"uuid": NET.replace("1", "7")}]}, 400), ({"min_count": 0}, 400), ({"max_count": 1001}, 400),
        ({"min_count": "9999999999"}, 400), ({"min_count": 10**30}, 400), ({"min_count": -1}, 400),
        ({"min_count": 1.5}, 400), ({"metadata": {"k": 1}}, 400), ({"metadata": {"": ""}}, 400),
        ({"unknown": 1}, 400), ({"return_reservation_id": "maybe"}, 400), ({"availability_zone": []}, 400),
        ({"networks": []}, 202), ({"networks": None}, 202), ({"name": "\U0001f600"}, 202),
    ],
)  # fmt: skip
async def test_malformed_servers_are_refused(call: Any, flavor_id: str, changed: Any, status: int) -> None:
    answer = await boot(call, flavor_id, **changed)
    assert answer.status == status, answer.raw
    if status == 400:
        assert answer.body["badRequest"]["message"]
        assert (await call("GET", "/v2.1/servers")).body == {"servers": []}


@pytest.mark.parametrize(
    ("method", "target", "content", "status"),
    [
        ("POST", "/v2.1/servers", b"", 400), ("POST", "/v2.1/servers", b"[", 400),
        ("POST", "/v2.1/servers", b'"\xff"', 400), ("POST", "/v2.1/servers", b"[" * 100_000, 400),
        ("POST", "/v2.1/servers", b'{"server": null}', 400), ("POST", "/v2.1/flavors", b'{"flavor": {"name": 1}}', 400),
        ("POST", "/v2.1/flavors", b'{"flavor": {"name": "a", "ram": 1e30, "vcpus": 1, "disk": 0}}', 400),
        ("POST", "/v2.1/flavors", b'{"flavor": {"name": "a", "ram": 99999999999, "vcpus": 1, "disk": 0}}', 400),
        ("POST", "/v2.1/flavors", b'{"flavor": {"name": "a", "ram": 1, "vcpus": 0, "disk": 0}}', 400),
        ("POST", "/v2.1/flavors", b'{"flavor": {"name": "a", "ram": 1, "vcpus": 1, "disk": 0, "swap": 7}}', 400),
        ("GET", "/v2.1/servers/x", b"", 404), ("DELETE", "/v2.1/servers/\udcff", b"", 400),
        ("GET", "/v2.1/servers?limit=x", b"", 400), ("GET", "/v2.1/servers?marker=x", b"", 400),
        ("GET", "/v2.1/servers?limit=0", b"", 200), ("GET", "/v2.1/servers?name=(", b"", 400),
        ("GET", "/v2.1/servers?name=%00", b"", 400), ("GET", "/v2.1/servers?status=nonsense", b"", 200),
        ("GET", "/v2.1/servers?uuid=x", b"", 400), ("GET", "/v2.1/servers?sort_key=host", b"", 400),
        ("GET", "/v2.1/servers?all_tenants=x", b"", 400), ("GET", "/v2.1/servers?host=%ff", b"", 200),
        ("GET", "/v2.1/flavors?marker=x", b"", 400), ("GET", "/v2.1/flavors/\x00", b"", 400),
        ("GET", "/v2.1/os-aggregates/x", b"", 404), ("GET", "/v2.1/os-aggregates/999999999999", b"", 404),
        ("GET", "/v2.1/os-hypervisors/x", b"", 404), ("GET", "/v2.1/os-hypervisors?marker=x", b"", 400),
        ("PUT", "/v2.1/os-services/enable", b'{"host": "x"}', 404), ("PUT", "/v2.1/os-services/enable", b"{}", 400),
        ("PATCH", "/v2.1/servers", b"", 405), ("GET", "/v2.1/nothing", b"", 404),
    ],
)  # fmt: skip
async def test_nothing_malformed_is_an_internal_error(
    call: Any, method: str, target: str, content: bytes, status: int
) -> None:
    answer = await call(method, target, content)
    assert answer.status == status, answer.raw
    if status >= 400:
        [fault] = answer.body.values()
        assert fault["code"] == status
        assert fault["message"]


async def test_an_operator_sees_and_closes_hosts(call: Any, compute: Compute, flavor_id: str) -> None:
    reports = [HostReport(name=name, vcpus=4, ram_mb=4096, disk_gb=40) for name in ("h1", "h2", "h3")]
    await hosts_service.register_hosts(compute, reports, agent=AGENT)
    page = (await call("GET", "/v2.1/os-hypervisors?limit=2")).body
    assert [one["hypervisor_hostname"] for one in page["hypervisors"]] == ["h1", "h2"]
    rest = page["hypervisors_links"][0]["href"].removeprefix("http://cloud:8778/compute")
    assert [one["hypervisor_hostname"] for one in (await call("GET", rest)).body["hypervisors"]] == ["h3"]
    detail = (await call("GET", "/v2.1/os-hypervisors/detail")).body["hypervisors"][0]
    assert (detail["vcpus"], detail["vcpus_used"], detail["memory_mb"], detail["running_vms"]) == (4, 0, 4096, 0)
    assert (await call("GET", f"/v2.1/os-hypervisors/{detail['id']}")).body["hypervisor"] == detail
    body = {"host": "h2", "binary": "nova-compute"}
    disabled = await call("PUT", "/v2.1/os-services/disable", body)
    assert disabled.body == {"service": body | {"status": "disabled"}}
    forced = await call("PUT", "/v2.1/os-services/force-down", body | {"forced_down": True}, version="2.11")
    assert forced.body["service"]["forced_down"] is True
    [shown] = (await call("GET", "/v2.1/os-services?host=h2", version="2.11")).body["services"]
    assert (shown["status"], shown["state"], shown["forced_down"]) == ("disabled", "down", True)
    for version, removed in (("2.52", 1), ("2.53", hosts_service.provider_uuid_of("h1"))):
        path = f"/v2.1/os-services/{removed}"
        if version == "2.53":
            assert (await call("DELETE", path, version="2.52")).status == 404, "a number, up to 2.52"
            await hosts_service.register_hosts(compute, reports[:1], agent=AGENT)
        assert (await call("DELETE", path, version=version)).status == 204
        assert (await call("DELETE", path, version=version)).status == 404
    await hosts_service.register_hosts(compute, reports, agent=AGENT)
    [aggregate] = (await call("GET", "/v2.1/os-aggregates", version="2.41")).body["aggregates"]
    assert (aggregate["name"], aggregate["hosts"]) == ("all-hosts", ["h1", "h2", "h3"])
    shown = (await call("GET", f"/v2.1/os-aggregates/{aggregate['id']}", version="2.41")).body
    assert shown == {"aggregate": aggregate}
