"""What each microversion from 2.75 on changes: a row is asked at the one below and at the one itself."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from tests.agent.cloud import AGENT
from tests.compute.test_actions import ADMIN, make_server, tell

from roost.compute.model.work import MoveKind
from roost.compute.service import Compute
from roost.compute.service import hosts as hosts_service
from roost.compute.service import moves as moves_service
from roost.compute.service.moves import MoveRequest
from roost.platform.auth import Caller
from roost.seams.agent import HostReport

Call = Callable[..., Awaitable[Any]]
READER = Caller("r", "mine", ("reader",))
MEMBER = Caller("u", "mine", ("member", "reader"))


@pytest.fixture
async def server_id(call: Call, compute: Compute) -> str:
    """A server of the project `mine` that is ACTIVE on h1; h2 is empty."""
    hosts = [HostReport(name="h2", vcpus=4, ram_mb=4096, disk_gb=40)]
    await hosts_service.register_hosts(compute, hosts, agent=AGENT)
    return await make_server(call, compute, "mine")


@pytest.fixture
async def shelved_id(compute: Compute, server_id: str) -> str:
    """The same server, on no host."""
    async with compute.database.transaction() as tx:
        await tx.execute("DELETE FROM compute.guest WHERE server_id = $1", server_id)
        await tx.execute("UPDATE compute.server SET host = NULL, status = 'SHELVED_OFFLOADED' WHERE id = $1", server_id)
    return server_id


def value_at(body: Any, keys: str) -> Any:
    """What is below keys and indices with slashes between them; `-` where there is no such key."""
    for key in keys.split("/"):
        body = body[int(key)] if isinstance(body, list) else body.get(key, "-")
    return body


async def plan_of(compute: Compute, server_id: str) -> dict[str, Any]:
    """What was asked of the server's move."""
    async with compute.database.connection() as connection:
        row = await connection.fetchrow(
            "SELECT plan -> 'spec' ->> 'availability_zone' AS zone, plan -> 'spec' -> 'forced_host' ->> 'name' AS host,"
            " plan ->> 'power' AS power, plan ->> 'dest_power' AS dest_power FROM compute.move WHERE server_id = $1",
            server_id,
        )
    assert row is not None
    return dict(row)


SHOWN: Sequence[tuple[int, str, str, Any, Any]] = (
    (75, "/flavors/small", "flavor/swap", "", 0), (75, "/flavors/detail", "flavors/0/swap", "", 0),
    (75, "/os-hypervisors?with_servers=true", "hypervisors/1/servers", "-", []),
    (75, "/os-hypervisors/detail?with_servers=true", "hypervisors/1/servers", "-", []),
    (88, "/os-hypervisors/detail", "hypervisors/0/vcpus", 4, "-"),
    (88, "/os-hypervisors/detail", "hypervisors/0/running_vms", 1, "-"),
    (88, "/os-hypervisors/detail", "hypervisors/0/cpu_info", {}, "-"),
    (88, "/os-hypervisors/detail", "hypervisors/0/uptime", "-", None),
    (90, "/servers/{id}", "server/OS-EXT-SRV-ATTR:hostname", "-", "web"),
    (90, "/servers/detail", "servers/0/OS-EXT-SRV-ATTR:hostname", "-", "web"),
    (96, "/servers/{id}", "server/pinned_availability_zone", "-", None),
    (96, "/servers/detail", "servers/0/pinned_availability_zone", "-", None),
)  # fmt: skip


@pytest.mark.parametrize(("minor", "path", "keys", "below", "at"), SHOWN)
async def test_what_is_shown(
    call: Call, as_caller: Any, server_id: str, minor: int, path: str, keys: str, below: Any, at: Any
) -> None:
    if path.startswith("/servers"):
        as_caller(READER)
    for version, expected in ((minor - 1, below), (minor, at)):
        answer = await call("GET", "/v2.1" + path.replace("{id}", server_id), version=f"2.{version}")
        assert value_at(answer.body, keys) == expected, (version, answer.raw)


SPECS = "/flavors/small/os-extra_specs"
ANSWERED: Sequence[tuple[int, str, str, Any, int, int]] = (
    (78, "GET", "/servers/{id}/topology", None, 404, 200),
    (86, "POST", SPECS, {"extra_specs": {"hw:numa_nodes": "2"}}, 200, 400),
    (86, "POST", SPECS, {"extra_specs": {"resources:CUSTOM_GPU": "many"}}, 200, 400),
    (86, "POST", SPECS, {"extra_specs": {"trait:HW_CPU_X86_VMX": "wanted"}}, 200, 400),
    (86, "POST", SPECS, {"extra_specs": {"team:cost": "7", "hw:cpu_policy": "shared"}}, 200, 200),
    (88, "GET", "/os-hypervisors/{host}/uptime", None, 501, 404),
    (88, "GET", "/os-hypervisors/statistics", None, 404, 404),
    (90, "PUT", "/servers/{id}", {"server": {"hostname": "db-1"}}, 400, 200),
    (90, "POST", "/servers/{id}/action", {"rebuild": {"imageRef": "i", "hostname": "db-1"}}, 400, 202),
    (94, "PUT", "/servers/{id}", {"server": {"hostname": "db.example.org"}}, 400, 200),
    (94, "POST", "/servers/{id}/action", {"rebuild": {"imageRef": "i", "hostname": "db.example.org"}}, 400, 202),
    *((76, "POST", "/os-server-external-events", {"events": []}, 404, 404),),
    *((minor, "GET", "/servers/{id}/os-volume_attachments", None, 404, 404) for minor in (79, 85, 89)),
    (81, "POST", "/os-aggregates/1/images", {"cache": []}, 404, 404),
    (87, "POST", "/servers/{id}/action", {"rescue": None}, 501, 501),
    (92, "GET", "/os-keypairs", None, 404, 404),
)  # fmt: skip


@pytest.mark.parametrize(("minor", "method", "path", "body", "below", "at"), ANSWERED)
async def test_what_is_answered(
    call: Call, server_id: str, minor: int, method: str, path: str, body: Any, below: int, at: int
) -> None:
    host_id = (await call("GET", "/v2.1/os-services", version="2.96")).body["services"][0]["id"]
    target = "/v2.1" + path.replace("{id}", server_id).replace("{host}", host_id)
    for version, status in ((minor - 1, below), (minor, at)):
        answer = await call(method, target, body, version=f"2.{version}")
        assert answer.status == status, (version, answer.raw)


async def test_a_server_has_no_numa_nodes(call: Call, as_caller: Any, server_id: str) -> None:
    as_caller(READER)
    answer = await call("GET", f"/v2.1/servers/{server_id}/topology", version="2.96")
    assert answer.body == {"nodes": [], "pagesize_kb": None}
    as_caller(Caller("u", "mine", ()))
    assert (await call("GET", f"/v2.1/servers/{server_id}/topology", version="2.96")).status == 403


async def test_from_2_75_changes_answer_with_the_whole_server(call: Call, server_id: str) -> None:
    path, shown = f"/v2.1/servers/{server_id}", {}
    for version in ("2.74", "2.75"):
        shown[version] = set((await call("GET", path, version=version)).body["server"])
        changed = set((await call("PUT", path, {"server": {"name": "db"}}, version=version)).body["server"])
        assert (changed == shown[version]) == (version == "2.75")
    rebuilt = await call("POST", f"{path}/action", {"rebuild": {"imageRef": "i"}}, version="2.75")
    assert set(rebuilt.body["server"]) == shown["2.75"] - {"OS-EXT-SRV-ATTR:user_data"} | {"user_data"}
    assert (rebuilt.body["server"]["status"], rebuilt.body["server"]["progress"]) == ("REBUILD", 0)


async def test_a_list_shows_no_server_groups(call: Call, server_id: str) -> None:
    one = (await call("GET", f"/v2.1/servers/{server_id}", version="2.96")).body["server"]
    (listed,) = (await call("GET", "/v2.1/servers/detail?all_tenants=1", version="2.96")).body["servers"]
    assert one.keys() - listed.keys() == {"server_groups"}


@pytest.mark.parametrize(("version", "keys"), [("2.53", ""), ("2.54", "key_name"), ("2.57", "key_name user_data")])
async def test_a_rebuild_shows_the_key_and_the_user_data_that_there_are_not(
    call: Call, server_id: str, version: str, keys: str
) -> None:
    body = {"rebuild": {"imageRef": "i", "adminPass": "secret"}}
    rebuilt = (await call("POST", f"/v2.1/servers/{server_id}/action", body, version=version)).body["server"]
    assert {name: rebuilt[name] for name in ("key_name", "user_data") if name in rebuilt} == dict.fromkeys(keys.split())
    assert "adminPass" not in rebuilt


async def test_from_2_84_the_event_log_says_why_something_failed(
    call: Call, compute: Compute, as_caller: Any, server_id: str
) -> None:
    path = f"/v2.1/servers/{server_id}"
    await call("POST", f"{path}/action", {"reboot": {"type": "HARD"}}, version="2.96")
    await tell(compute, server_id, "failed", attempt=2)
    as_caller(READER)
    for version, expected in (("2.83", "-"), ("2.84", "its guest is gone from host h1")):
        log = (await call("GET", f"{path}/os-instance-actions", version=version)).body["instanceActions"]
        one = await call("GET", f"{path}/os-instance-actions/{log[0]['request_id']}", version=version)
        assert value_at(one.body, "instanceAction/events/0/details") == expected, one.raw


@pytest.mark.parametrize(
    ("version", "body", "status"),
    [
        ("2.76", {"availability_zone": "rack1", "whatever": 1}, 202), ("2.77", {"availability_zone": "nova"}, 202),
        ("2.77", None, 202), ("2.77", {}, 400), ("2.77", {"availability_zone": "rack1"}, 400),
        ("2.77", {"availability_zone": None}, 400), ("2.90", {"host": "h2"}, 400), ("2.91", {"host": "h2"}, 202),
        ("2.91", {"availability_zone": None, "host": "h2"}, 202), ("2.91", {"host": "h9"}, 400),
        ("2.91", {"availability_zone": "rack1", "host": "h2"}, 400), ("2.91", {"destination": "h2"}, 400),
    ],
)  # fmt: skip
async def test_where_to_a_server_is_unshelved(
    call: Call, compute: Compute, shelved_id: str, version: str, body: Any, status: int
) -> None:
    answer = await call("POST", f"/v2.1/servers/{shelved_id}/action", {"unshelve": body}, version=version)
    assert answer.status == status, answer.raw
    if status == 202:
        asked = body or {} if version > "2.76" else {}
        plan = await plan_of(compute, shelved_id)
        assert (plan["zone"], plan["host"]) == (asked.get("availability_zone"), asked.get("host"))


async def test_a_zone_of_null_unpins_the_server(call: Call, compute: Compute, shelved_id: str) -> None:
    pin = """UPDATE compute.server SET spec = jsonb_set(spec, '{availability_zone}', '"nova"') WHERE id = $1"""
    async with compute.database.transaction() as tx:
        await tx.execute(pin, shelved_id)
    path = f"/v2.1/servers/{shelved_id}"
    shown = (await call("GET", path, version="2.96")).body["server"]
    assert shown["pinned_availability_zone"] == "nova"
    body = {"unshelve": {"availability_zone": None}}
    assert (await call("POST", f"{path}/action", body, version="2.91")).status == 202
    assert (await plan_of(compute, shelved_id))["zone"] is None


async def test_who_may_unshelve_to_a_host(call: Call, as_caller: Any, shelved_id: str) -> None:
    as_caller(MEMBER)
    path = f"/v2.1/servers/{shelved_id}/action"
    refused = await call("POST", path, {"unshelve": {"host": "h2"}}, version="2.91")
    assert refused.status == 403
    assert "os_compute_api:os-shelve:unshelve_to_host" in refused.body["forbidden"]["message"]
    assert (await call("POST", path, {"unshelve": None}, version="2.91")).status == 202


@pytest.mark.parametrize(("version", "dest_power"), [("2.94", None), ("2.95", "stopped")])
async def test_from_2_95_an_evacuated_server_is_stopped(
    call: Call, compute: Compute, server_id: str, version: str, dest_power: str | None
) -> None:
    await hosts_service.force_down(compute, "h1", True)
    answer = await call("POST", f"/v2.1/servers/{server_id}/action", {"evacuate": {}}, version=version)
    assert answer.status == 200, answer.raw
    plan = await plan_of(compute, server_id)
    assert (plan["power"], plan["dest_power"]) == ("running", dest_power)


@pytest.mark.parametrize(
    ("version", "body", "hostname"),
    [
        ("2.89", {}, "web-server"), ("2.89", {"hostname": "db"}, None), ("2.90", {"hostname": "db"}, "db"),
        ("2.90", {"hostname": "db.example"}, None), ("2.94", {"hostname": "db.example"}, "db.example"),
        ("2.94", {"hostname": "a b"}, None), ("2.94", {"hostname": ""}, None), ("2.94", {"hostname": None}, None),
        ("2.94", {"hostname": "db", "max_count": 2}, None),
    ],
)  # fmt: skip
async def test_the_hostname_of_a_new_server(
    call: Call, server_id: str, version: str, body: Any, hostname: str | None
) -> None:
    server = {"name": "Web Server", "flavorRef": "small", "networks": "none"} | body
    answer = await call("POST", "/v2.1/servers", {"server": server}, version=version)
    assert answer.status == (400 if hostname is None else 202), answer.raw
    if hostname is None:
        assert "hostname" in answer.body["badRequest"]["message"]
        return
    path = f"/v2.1/servers/{answer.body['server']['id']}"
    assert (await call("GET", path, version="2.96")).body["server"]["OS-EXT-SRV-ATTR:hostname"] == hostname
    changed = await call("PUT", path, {"server": {"name": "other"}}, version="2.96")
    assert changed.body["server"]["OS-EXT-SRV-ATTR:hostname"] == hostname


async def test_a_zone_that_there_is_not_begins_no_move(compute: Compute, shelved_id: str) -> None:
    request = MoveRequest(kind=MoveKind.UNSHELVE, zone="rack1")
    with pytest.raises(Exception, match="zone is not available: rack1"):
        await moves_service.begin_move(compute, shelved_id, request, ADMIN)
