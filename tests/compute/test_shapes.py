"""What clients match: numbers and UUIDs of hosts, reasons, addresses of servers, flavors by size, by microversion."""

from typing import Any

import pytest
from tests.agent.cloud import AGENT

from roost.compute.service import Compute
from roost.compute.service import hosts as service
from roost.seams.agent import HostReport

NET = "bbbbbbbb-0000-0000-0000-000000000001"
BINARY = {"binary": "nova-compute"}


@pytest.fixture
async def hosts(compute: Compute) -> dict[str, str]:
    """Name -> UUID."""
    reports = [HostReport(name=name, vcpus=4, ram_mb=4096, disk_gb=40) for name in ("r1-h1", "r1-h2", "r2-h1")]
    return {host.name: host.provider_uuid for host in await service.register_hosts(compute, reports, agent=AGENT)}


async def test_hosts_have_numbers_up_to_2_52_and_uuids_from_2_53(call: Any, hosts: dict[str, str]) -> None:
    old = (await call("GET", "/v2.1/os-hypervisors/detail", version="2.52")).body["hypervisors"]
    new = (await call("GET", "/v2.1/os-hypervisors/detail", version="2.53")).body["hypervisors"]
    assert [type(one["id"]) for one in old] == [type(one["service"]["id"]) for one in old] == [int] * 3
    assert {one["hypervisor_hostname"]: one["id"] for one in new} == hosts
    assert [one["service"]["id"] for one in new] == [one["id"] for one in new]
    services = (await call("GET", "/v2.1/os-services", version="2.1")).body["services"]
    assert {one["host"]: one["id"] for one in services} == {one["hypervisor_hostname"]: one["id"] for one in old}
    assert "forced_down" not in services[0]
    services = (await call("GET", "/v2.1/os-services", version="2.53")).body["services"]
    assert {one["host"]: one["id"] for one in services} == hosts
    number, uuid = old[0]["id"], new[0]["id"]
    for version, host_id, status in (
        ("2.52", number, 200),
        ("2.52", uuid, 404),
        ("2.53", uuid, 200),
        ("2.53", number, 404),
    ):
        answer = await call("GET", f"/v2.1/os-hypervisors/{host_id}", version=version)
        assert answer.status == status, answer.raw
    assert (await call("GET", "/v2.1/os-hypervisors/99999999999999999999")).status == 404
    page = (await call("GET", f"/v2.1/os-hypervisors?limit=1&marker={number}", version="2.33")).body
    assert [one["id"] for one in page["hypervisors"]] == [old[1]["id"]]
    assert f"marker={old[1]['id']}" in page["hypervisors_links"][0]["href"]
    assert (await call("GET", f"/v2.1/os-hypervisors?marker={number}", version="2.53")).status == 400


async def test_a_number_stays_a_hosts_own(call: Any, compute: Compute, hosts: dict[str, str]) -> None:
    before = (await call("GET", "/v2.1/os-hypervisors")).body
    await service.register_hosts(compute, [HostReport(name="r1-h1", vcpus=8, ram_mb=1, disk_gb=1)], agent=None)
    assert (await call("GET", "/v2.1/os-hypervisors")).body == before


async def test_hypervisors_are_searched_by_a_part_of_the_name(
    call: Any, compute: Compute, hosts: dict[str, str]
) -> None:
    async with compute.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO compute.server (id, name, project_id, user_id, flavor, spec, host)"
            " VALUES ('eeeeeeee-0000-0000-0000-000000000001', 'web', 'p', 'u', '{}', '{}', 'r1-h2')"
        )
    web = [{"uuid": "eeeeeeee-0000-0000-0000-000000000001", "name": "web"}]
    for version, path in (
        ("2.52", "/v2.1/os-hypervisors/r1/search"), ("2.53", "/v2.1/os-hypervisors?hypervisor_hostname_pattern=r1"),
    ):  # fmt: skip
        found = (await call("GET", path, version=version)).body["hypervisors"]
        assert [one["hypervisor_hostname"] for one in found] == ["r1-h1", "r1-h2"]
    for version, path in (
        ("2.52", "/v2.1/os-hypervisors/r1/servers"),
        ("2.53", "/v2.1/os-hypervisors?hypervisor_hostname_pattern=r1&with_servers=true"),
        ("2.53", "/v2.1/os-hypervisors/detail?hypervisor_hostname_pattern=r1&with_servers=true"),
    ):
        found = (await call("GET", path, version=version)).body["hypervisors"]
        assert [one.get("servers") for one in found] == [None, web], path
    one = f"/v2.1/os-hypervisors/{hosts['r1-h2']}?with_servers=true"
    assert (await call("GET", one, version="2.53")).body["hypervisor"]["servers"] == web
    for version, path, status in (
        ("2.52", "/v2.1/os-hypervisors/r9/search", 404), ("2.53", "/v2.1/os-hypervisors/r1/search", 404),
        ("2.53", "/v2.1/os-hypervisors?hypervisor_hostname_pattern=r9", 404),
        ("2.53", "/v2.1/os-hypervisors?hypervisor_hostname_pattern=r1&limit=1", 400),
        ("2.52", "/v2.1/os-hypervisors?with_servers=true", 400), ("2.1", "/v2.1/os-hypervisors?nonsense=1", 400),
        ("2.1", "/v2.1/os-services?nonsense=1", 400),
    ):  # fmt: skip
        assert (await call("GET", path, version=version)).status == status, path


async def test_a_host_is_disabled_with_a_reason(call: Any, hosts: dict[str, str]) -> None:
    body = BINARY | {"host": "r1-h1"}
    answer = await call("PUT", "/v2.1/os-services/disable-log-reason", body | {"disabled_reason": "broken fan"})
    assert answer.body == {"service": body | {"status": "disabled", "disabled_reason": "broken fan"}}
    [shown] = (await call("GET", "/v2.1/os-services?host=r1-h1")).body["services"]
    assert (shown["status"], shown["disabled_reason"]) == ("disabled", "broken fan")
    detail = (await call("GET", "/v2.1/os-hypervisors/detail")).body["hypervisors"]
    assert [one["service"]["disabled_reason"] for one in detail] == ["broken fan", None, None]
    await call("PUT", "/v2.1/os-services/enable", body)
    [shown] = (await call("GET", "/v2.1/os-services?host=r1-h1")).body["services"]
    assert (shown["status"], shown["disabled_reason"]) == ("enabled", None)
    for action, wrong in (
        ("disable-log-reason", {}), ("disable-log-reason", {"disabled_reason": ""}), ("force-down", {}),
        ("disable-log-reason", {"disabled_reason": "x" * 256}), ("disable", {"disabled_reason": "x"}),
        ("enable", {"forced_down": True}),
    ):  # fmt: skip
        answer = await call("PUT", f"/v2.1/os-services/{action}", body | wrong, version="2.11")
        assert answer.status == 400, answer.raw
    assert (
        await call("PUT", "/v2.1/os-services/force-down", body | {"forced_down": True}, version="2.10")
    ).status == 404
    assert (await call("PUT", "/v2.1/os-services/unknown", body)).status == 404


async def test_from_2_53_a_service_is_changed_by_its_uuid(call: Any, hosts: dict[str, str]) -> None:
    path = f"/v2.1/os-services/{hosts['r1-h1']}"
    answer = await call("PUT", path, {"status": "disabled", "disabled_reason": "fan"}, version="2.53")
    shown = answer.body["service"]
    assert (shown["id"], shown["status"], shown["disabled_reason"]) == (hosts["r1-h1"], "disabled", "fan")
    shown = (await call("PUT", path, {"status": "enabled", "forced_down": True}, version="2.53")).body["service"]
    assert (shown["status"], shown["disabled_reason"], shown["forced_down"]) == ("enabled", None, True)
    assert (await call("PUT", path, {"forced_down": False}, version="2.53")).body["service"]["state"] == "up"
    for wrong in ({}, {"status": "up"}, {"status": "enabled", "disabled_reason": "x"}, {"host": "r1-h1"},
                  {"forced_down": True, "disabled_reason": "x"}, {"forced_down": "maybe"}):  # fmt: skip
        assert (await call("PUT", path, wrong, version="2.53")).status == 400, wrong
    wrong_and_right = {"status": "disabled", "forced_down": "maybe"}
    assert (await call("PUT", path, wrong_and_right, version="2.53")).status == 400
    [shown] = (await call("GET", "/v2.1/os-services?host=r1-h1")).body["services"]
    assert shown["status"] == "enabled", "what is refused has changed nothing"
    for missing in ("enable", "1", "eeeeeeee-0000-0000-0000-000000000001"):
        answer = await call("PUT", f"/v2.1/os-services/{missing}", {"status": "disabled"}, version="2.53")
        assert answer.status == 404


async def test_addresses_of_a_server_by_network(call: Any, compute: Compute, networks: Any) -> None:
    await networks.add(NET)
    await call("POST", "/v2.1/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 10}})
    body = {"server": {"name": "web", "flavorRef": "small", "networks": [{"uuid": NET}]}}
    server_id = (await call("POST", "/v2.1/servers", body)).body["server"]["id"]
    assert (await call("GET", f"/v2.1/servers/{server_id}/ips")).body == {"addresses": {}}
    async with compute.database.transaction() as tx:
        await tx.execute(
            "UPDATE compute.server SET network_info = $2::jsonb WHERE id = $1",
            server_id,
            '[{"port_id": "p", "tag": "0", "network_id": "n", "network_name": "public", "mac_address": "m",'
            ' "addresses": ["203.0.113.5", "2001:db8::5"], "preserve_on_delete": false}]',
        )
    public = [{"version": 4, "addr": "203.0.113.5"}, {"version": 6, "addr": "2001:db8::5"}]
    assert (await call("GET", f"/v2.1/servers/{server_id}/ips")).body == {"addresses": {"public": public}}
    assert (await call("GET", f"/v2.1/servers/{server_id}/ips/public")).body == {"public": public}
    for missing in (f"{server_id}/ips/other", f"{NET}/ips", "x/ips"):
        assert (await call("GET", f"/v2.1/servers/{missing}")).status == 404


async def test_flavors_are_listed_by_size_and_by_who_may_see_them(call: Any) -> None:
    for name, ram, disk, public in (("a", 512, 10, True), ("b", 1024, 5, True), ("c", 2048, 20, False)):
        flavor = {"id": name, "name": name, "vcpus": 1, "ram": ram, "disk": disk, "os-flavor-access:is_public": public}
        assert (await call("POST", "/v2.1/flavors", {"flavor": flavor})).status == 200
    for query, names in (
        ("", "ab"), ("minRam=512", "ab"), ("minRam=513", "b"), ("minDisk=10", "a"), ("minRam=513&minDisk=10", ""),
        ("is_public=None", "abc"), ("is_public=false", "c"), ("is_public=None&minRam=2000", "c"),
        ("minRam=99999999999999", ""), ("sort_key=flavorid&sort_dir=asc", "ab"), ("is_public=None&limit=2", "ab"),
    ):  # fmt: skip
        for path in ("/v2.1/flavors", "/v2.1/flavors/detail"):
            assert "".join(one["id"] for one in (await call("GET", f"{path}?{query}")).body["flavors"]) == names, query
    for query in ("minRam=x", "minDisk=-1", "is_public=maybe", "sort_key=ram", "sort_dir=desc", "nonsense=1"):
        answer = await call("GET", f"/v2.1/flavors?{query}")
        assert answer.status == 400
        assert query.split("=")[0] in answer.body["badRequest"]["message"]


async def test_flavors_and_servers_show_what_their_microversion_has(call: Any, networks: Any) -> None:
    await networks.add(NET)
    flavor = {"id": "f", "name": "small", "vcpus": 1, "ram": 1024, "disk": 10}
    assert (
        await call("POST", "/v2.1/flavors", {"flavor": flavor | {"description": "d"}}, version="2.54")
    ).status == 400
    assert (await call("POST", "/v2.1/flavors", {"flavor": flavor | {"rxtx_factor": 2.0}})).status == 400
    made = await call("POST", "/v2.1/flavors", {"flavor": flavor | {"description": "d"}}, version="2.55")
    assert made.body["flavor"]["description"] == "d"
    await call("POST", "/v2.1/flavors/f/os-extra_specs", {"extra_specs": {"team:cost": "7"}})
    old, new = [(await call("GET", "/v2.1/flavors/f", version=version)).body["flavor"] for version in ("2.54", "2.61")]
    assert {"description", "extra_specs"}.isdisjoint(old)
    assert (new["description"], new["extra_specs"]) == ("d", {"team:cost": "7"})
    body = {"server": {"name": "web", "flavorRef": "small", "networks": [{"uuid": NET}]}}
    server_id = (await call("POST", "/v2.1/servers", body)).body["server"]["id"]
    old, new = [
        (await call("GET", f"/v2.1/servers/{server_id}", version=version)).body["server"]
        for version in ("2.46", "2.74")
    ]
    assert old["flavor"]["id"] == "f"
    assert new["flavor"] == {
        "vcpus": 1, "ram": 1024, "disk": 10, "ephemeral": 0, "swap": 0, "original_name": "small",
        "extra_specs": {"team:cost": "7"},
    }  # fmt: skip
    assert new.keys() - old.keys() == {"trusted_image_certificates", "server_groups", "locked_reason"}


async def test_there_is_one_zone_with_every_host(call: Any, compute: Compute, hosts: dict[str, str]) -> None:
    await service.disable_host(compute, "r1-h2")
    zone = {"zoneName": "nova", "zoneState": {"available": True}, "hosts": None}
    assert (await call("GET", "/v2.1/os-availability-zone")).body == {"availabilityZoneInfo": [zone]}
    [shown] = (await call("GET", "/v2.1/os-availability-zone/detail")).body["availabilityZoneInfo"]
    states = {name: services["nova-compute"] for name, services in shown["hosts"].items()}
    assert {name: (one["available"], one["active"]) for name, one in states.items()} == {
        "r1-h1": (True, True), "r1-h2": (True, False), "r2-h1": (True, True),
    }  # fmt: skip
