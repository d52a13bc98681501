"""Whatever Compute is asked and does not do is refused by name; what asks for nothing passes."""

from typing import Any

import pytest
from tests.agent.cloud import AGENT

from roost.compute.service import DEFAULT_PROJECT, Compute
from roost.compute.service import hosts as hosts_service
from roost.platform.auth import Caller
from roost.seams.agent import HostReport

NET = "bbbbbbbb-0000-0000-0000-000000000001"
OTHER = "bbbbbbbb-0000-0000-0000-00000000000f"
IMAGE = "cccccccc-0000-0000-0000-000000000001"
OWN_DISK = {"boot_index": 0, "source_type": "blank", "destination_type": "local", "delete_on_termination": True}
IMAGE_DISK = OWN_DISK | {"source_type": "image", "uuid": IMAGE}
VOLUME = {"boot_index": 0, "source_type": "volume", "destination_type": "volume", "uuid": OTHER}


@pytest.fixture
async def flavor_id(call: Any, networks: Any, compute: Compute) -> str:
    await networks.add(NET)
    reports = [HostReport(name=name, vcpus=4, ram_mb=4096, disk_gb=40) for name in ("h1", "h2")]
    await hosts_service.register_hosts(compute, reports, agent=AGENT)
    answer = await call("POST", "/v2.1/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 10}})
    return str(answer.body["flavor"]["id"])


async def boot(call: Any, flavor: str, *, version: str = "2.1", hints: Any = None, **other: Any) -> Any:
    server = {"name": "web", "imageRef": "", "flavorRef": flavor, "networks": [{"uuid": NET}]} | other
    return await call("POST", "/v2.1/servers", {"server": server} | (hints or {}), version=version)


REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("2.1", {"availability_zone": "rack1"}, "zone is not available: rack1. There are: nova."),
    ("2.1", {"availability_zone": "rack1:h1"}, "zone is not available: rack1. There are: nova."),
    ("2.1", {"availability_zone": "nova:h9"}, "Compute host h9 could not be found."),
    ("2.1", {"availability_zone": "nova:h1:h2"}, "h1 and h2 are two hosts"),
    ("2.1", {"availability_zone": "a:b:c:d"}, "Unable to parse availability_zone a:b:c:d"),
    ("2.1", {"host": "h1"}, "host: there is this attribute from microversion 2.74"),
    ("2.74", {"host": "h9"}, "Compute host h9 could not be found."),
    ("2.74", {"host": "h1", "hypervisor_hostname": "h2"}, "h1 and h2 are two hosts"),
    ("2.74", {"host": "h1", "availability_zone": "nova:h1"}, "are mutually exclusive"),
    ("2.1", {"hints": {"os:scheduler_hints": {"group": OTHER}}}, f"Instance group {OTHER} could not be found"),
    ("2.1", {"hints": {"OS-SCH-HNT:scheduler_hints": {"same_host": OTHER}}}, f"hint same_host={OTHER}"),
    ("2.1", {"hints": {"os:scheduler": {}}}, "os:scheduler"),
    ("2.1", {"key_name": "mine"}, "Invalid key_name provided: Roost keeps no key pairs, so there is none named mine"),
    ("2.1", {"security_groups": [{"name": "web"}]}, "Security group web not found"),
    ("2.1", {"user_data": "IyEvYmluL3No"}, "user_data"), ("2.1", {"config_drive": True}, "config_drive"),
    ("2.1", {"config_drive": "maybe"}, "config_drive"),
    ("2.1", {"accessIPv4": "192.0.2.1"}, "accessIPv4"), ("2.1", {"accessIPv6": "2001:db8::1"}, "accessIPv6"),
    ("2.1", {"OS-DCF:diskConfig": "AUTO"}, "OS-DCF:diskConfig=AUTO"), ("2.1", {"OS-DCF:diskConfig": 1}, "diskConfig"),
    ("2.1", {"personality": [{"path": "/a", "contents": "YQ=="}]}, "personality"),
    ("2.57", {"personality": []}, "personality: there is this attribute up to microversion 2.56"),
    ("2.1", {"block_device_mapping": [{"volume_id": OTHER}]}, "block_device_mapping"),
    ("2.1", {"block_device_mapping_v2": [VOLUME]}, "block_device_mapping_v2[0]"),
    ("2.1", {"block_device_mapping_v2": [OWN_DISK, OWN_DISK]}, "block_device_mapping_v2[1]"),
    ("2.1", {"block_device_mapping_v2": [OWN_DISK | {"volume_size": 5}]}, "block_device_mapping_v2[0]"),
    ("2.1", {"block_device_mapping_v2": [OWN_DISK | {"guest_format": "swap"}]}, "block_device_mapping_v2[0]"),
    ("2.1", {"block_device_mapping_v2": [OWN_DISK | {"destination_type": "volume"}]}, "block_device_mapping_v2[0]"),
    ("2.1", {"block_device_mapping_v2": [OWN_DISK | {"delete_on_termination": False}]}, "block_device_mapping_v2[0]"),
    ("2.1", {"block_device_mapping_v2": [IMAGE_DISK]}, "block_device_mapping_v2[0]"),
    ("2.1", {"tags": []}, "tags: there is this attribute from microversion 2.52"), ("2.52", {"tags": ["a,b"]}, "tags"),
    ("2.52", {"tags": [""]}, "tags"), ("2.52", {"tags": ["x" * 61]}, "tags"), ("2.52", {"tags": ["x"] * 51}, "tags"),
    ("2.1", {"description": "d"}, "description: there is this attribute from microversion 2.19"),
    ("2.63", {"trusted_image_certificates": ["a"]}, "trusted_image_certificates"),
    ("2.74", {"hostname": "web"}, "hostname"), ("2.1", {"OS-EXT-AZ:availability_zone": "nova"}, "OS-EXT-AZ"),
    ("2.1", {"networks": "none"}, "networks=none"), ("2.37", {"networks": "all"}, "networks"),
)  # fmt: skip


async def test_what_is_not_done_is_refused_by_name(call: Any, flavor_id: str) -> None:
    for version, asked, named in REFUSED:
        answer = await boot(call, flavor_id, version=version, **asked)
        assert answer.status == 400, (asked, answer.raw)
        assert named in answer.body["badRequest"]["message"], asked
    assert (await call("GET", "/v2.1/servers?all_tenants=1")).body == {"servers": []}


PASSING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("2.1", {"availability_zone": "nova"}), ("2.1", {"availability_zone": ""}), ("2.1", {"availability_zone": None}),
    ("2.1", {"security_groups": [{"name": "default"}]}), ("2.1", {"security_groups": []}),
    ("2.1", {"hints": {"os:scheduler_hints": {}}}), ("2.1", {"key_name": None}), ("2.1", {"user_data": ""}),
    ("2.1", {"config_drive": False}), ("2.1", {"config_drive": ""}), ("2.1", {"OS-DCF:diskConfig": "MANUAL"}),
    ("2.1", {"personality": []}), ("2.1", {"accessIPv4": ""}), ("2.1", {"block_device_mapping_v2": []}),
    ("2.1", {"block_device_mapping_v2": [OWN_DISK]}),
    ("2.1", {"block_device_mapping_v2": [IMAGE_DISK], "imageRef": IMAGE}),
    ("2.52", {"tags": []}), ("2.63", {"trusted_image_certificates": None}),
)  # fmt: skip


async def test_what_asks_for_nothing_passes(call: Any, flavor_id: str) -> None:
    for version, asked in PASSING:
        answer = await boot(call, flavor_id, version=version, **asked)
        assert answer.status == 202, (asked, answer.raw)


async def test_a_forced_host_is_kept_with_the_server(call: Any, compute: Compute, flavor_id: str) -> None:
    for version, asked in (
        ("2.1", {"availability_zone": "nova:h2"}), ("2.1", {"availability_zone": "nova:h2:h2"}),
        ("2.1", {"availability_zone": "nova::h2"}), ("2.1", {"availability_zone": ":h2"}), ("2.74", {"host": "h2"}),
        ("2.74", {"hypervisor_hostname": "h2"}), ("2.74", {"host": "h2", "hypervisor_hostname": "h2"}),
    ):  # fmt: skip
        answer = await boot(call, flavor_id, version=version, **asked)
        assert answer.status == 202, (asked, answer.raw)
        async with compute.database.connection() as connection:
            statement = "SELECT spec -> 'forced_host' ->> 'name' FROM compute.server WHERE id = $1"
            assert await connection.fetchval(statement, answer.body["server"]["id"]) == "h2", asked


async def test_a_disabled_host_refuses_to_be_forced(call: Any, flavor_id: str) -> None:
    await call("PUT", "/v2.1/os-services/disable", {"host": "h2", "binary": "nova-compute"})
    answer = await boot(call, flavor_id, availability_zone="nova:h2")
    assert (answer.status, list(answer.body)) == (409, ["conflictingRequest"])
    assert "Compute host h2 is disabled" in answer.body["conflictingRequest"]["message"]


async def test_a_flavor_that_constrains_otherwise_refuses_the_boot(call: Any, flavor_id: str) -> None:
    specs = {"extra_specs": {"hw:numa_nodes": "2"}}
    assert (await call("POST", f"/v2.1/flavors/{flavor_id}/os-extra_specs", specs)).status == 200
    answer = await boot(call, flavor_id)
    assert answer.status == 400
    assert "hw:numa_nodes=2" in answer.body["badRequest"]["message"]


async def test_unknown_filters_and_sort_keys_are_refused_by_name(call: Any, flavor_id: str) -> None:
    for version, query, named in (
        ("2.1", "hostname=a", "hostname: Roost does not serve"), ("2.1", "key_name=a", "key_name"),
        ("2.1", "nonsense=1", "nonsense"), ("2.1", "_project=1", "_project"), ("2.1", "tags=red", "tags"),
        ("2.25", "tags-any=red", "tags-any"), ("2.1", "changes-since=2026-01-01T00:00:00Z", "changes-since"),
        ("2.66", "changes-before=2026-01-01T00:00:00Z", "changes-before"), ("2.1", "deleted=true", "deleted"),
        ("2.72", "locked=false", "locked"), ("2.73", "locked=perhaps", "locked"),
        ("2.1", "config_drive=1", "config_drive"),
        ("2.1", "sort_key=display_name", "sort_key=display_name"), ("2.1", "sort_key=vcpus", "sort_key=vcpus"),
        ("2.1", "sort_dir=up", "sort_dir=up"),
        ("2.1", "name=a&name=b", "name: expected once"), ("2.1", "name=a&display_name=b", "display_name=b"),
        ("2.1", "ip=(", "ip=("), ("2.1", "metadata=%7B%7D", "metadata"), ("2.1", "launch_index=1", "launch_index"),
    ):  # fmt: skip
        for path in ("/v2.1/servers", "/v2.1/servers/detail"):
            answer = await call("GET", f"{path}?{query}", version=version)
            assert answer.status == 400, (query, answer.raw)
            assert named in answer.body["badRequest"]["message"], query


async def test_every_filter_that_is_served_narrows(call: Any, compute: Compute, flavor_id: str) -> None:
    ids = [(await boot(call, flavor_id, name=name)).body["server"]["id"] for name in ("a", "b", "c")]
    async with compute.database.transaction() as tx:
        for server_id, address in zip(ids, ("10.0.0.7", "10.0.0.8", "2001:db8::7"), strict=True):
            await tx.execute(
                "UPDATE compute.server SET network_info = $2::jsonb WHERE id = $1",
                server_id,
                '[{"port_id": "p", "tag": "0", "network_id": "n", "network_name": "public", "mac_address": "m",'
                f' "addresses": ["{address}"], "preserve_on_delete": false}}]',
            )
        await tx.execute(
            "UPDATE compute.server SET host = 'h1', status = 'ACTIVE', task_state = NULL, image_ref = 'i'"
            " WHERE id = $1",
            ids[0],
        )
        await tx.execute("UPDATE compute.server SET status = 'ERROR', user_id = 'u' WHERE id = $1", ids[1])
    for query, names in (
        ("", "cba"), ("deleted=False&soft_deleted=0", "cba"), ("availability_zone=nova", "a"),
        ("availability_zone=mars", ""), ("user_id=u", "b"),
        ("status=ACTIVE", "a"), ("status=active&status=error", "ba"), ("vm_state=building", "c"), ("vm_state=x", ""),
        ("task_state=scheduling", "cb"), ("host=h1", "a"), ("node=h1", "a"), ("image=i", "a"), ("image_ref=x", ""),
        ("ip=10.0.0.7", "a"), ("ip=10.0", "ba"), ("ip=2001", ""), ("ip6=2001", "c"), ("ip6=10", ""),
        ("name=b", "b"), ("display_name=b", "b"), (f"uuid={ids[2]}", "c"), (f"flavor={flavor_id}", "cba"),
        ("sort_key=created_at&sort_dir=asc", "abc"), ("sort_key=created_at&sort_dir=desc&sort_key=uuid", "cba"),
    ):  # fmt: skip
        answer = await call("GET", f"/v2.1/servers?{query}")
        assert answer.status == 200, (query, answer.raw)
        assert "".join(one["name"] for one in answer.body["servers"]) == names, query


async def test_a_list_without_all_tenants_is_of_the_callers_own_project(
    call: Any, as_caller: Any, flavor_id: str
) -> None:
    for project in ("acme", "other"):
        as_caller(Caller(user_id=f"{project}-admin", project_id=project, roles=("admin",)))
        answer = await boot(call, flavor_id, name=project)
        shown = (await call("GET", f"/v2.1/servers/{answer.body['server']['id']}")).body["server"]
        assert (shown["tenant_id"], shown["user_id"]) == (project, f"{project}-admin")
        assert [one["name"] for one in (await call("GET", "/v2.1/servers")).body["servers"]] == [project]
    for query, names in (("all_tenants=1", ["other", "acme"]), ("project_id=acme", ["acme"])):
        assert [one["name"] for one in (await call("GET", f"/v2.1/servers?{query}")).body["servers"]] == names


async def test_only_an_admin_forces_a_host(call: Any, as_caller: Any, flavor_id: str) -> None:
    as_caller(Caller(user_id="u", project_id=DEFAULT_PROJECT, roles=("member",)))
    answer = await boot(call, flavor_id, availability_zone="nova:h2")
    assert (answer.status, list(answer.body)) == (403, ["forbidden"])
    assert "os_compute_api:servers:create:forced_host" in answer.body["forbidden"]["message"]
    assert (await boot(call, flavor_id, availability_zone="nova")).status == 202


async def test_a_password_is_taken_and_shown_to_nobody(call: Any, flavor_id: str) -> None:
    answer = await boot(call, flavor_id, adminPass="secret")
    assert (answer.status, "secret" in answer.raw.decode(), "adminPass" in answer.body["server"]) == (202, False, False)


@pytest.mark.parametrize(("value", "is_all"), [("", True), ("1", True), ("true", True), ("0", False), ("false", False)])
async def test_all_tenants_without_a_value_is_true(
    call: Any, as_caller: Any, flavor_id: str, value: str, is_all: bool
) -> None:
    await boot(call, flavor_id)
    as_caller(Caller("admin", "another", ("admin",)))
    answer = await call("GET", f"/v2.1/servers?all_tenants={value}")
    assert (answer.status, len(answer.body["servers"])) == (200, int(is_all))


async def test_a_resize_with_a_disk_config_of_auto_is_refused_by_name(call: Any, flavor_id: str) -> None:
    server_id = (await boot(call, flavor_id)).body["server"]["id"]
    body = {"resize": {"flavorRef": flavor_id, "OS-DCF:diskConfig": "AUTO"}}
    answer = await call("POST", f"/v2.1/servers/{server_id}/action", body)
    assert (answer.status, "OS-DCF:diskConfig=AUTO" in answer.raw.decode()) == (400, True)


ZONES = [("nova:h1", "east"), ("east:h1", "east"), ("east:h2", "nova"), ("nova:h2", "nova")]


@pytest.mark.parametrize(("asked", "zone"), ZONES)
async def test_a_forced_host_decides_the_zone(
    call: Any, compute: Compute, flavor_id: str, asked: str, zone: str
) -> None:
    aggregate = {"aggregate": {"name": "e", "availability_zone": "east"}}
    number = (await call("POST", "/v2.1/os-aggregates", aggregate)).body["aggregate"]["id"]
    await call("POST", f"/v2.1/os-aggregates/{number}/action", {"add_host": {"host": "h1"}})
    answer = await boot(call, flavor_id, availability_zone=asked)
    assert answer.status == 202
    async with compute.database.connection() as connection:
        assert await connection.fetchval("SELECT spec ->> 'availability_zone' FROM compute.server") == zone
