"""os-quota-sets, os-quota-class-sets, limits and os-simple-tenant-usage, at every microversion that changes them."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from roost.compute.model.cloud import Flavor
from roost.compute.model.usages import ServerUsage
from roost.compute.rules.usages import add_up, hours_of, uptime_s
from roost.compute.service import DEFAULT_PROJECT, Compute
from roost.compute.service.quotas import QUOTAS
from roost.compute.store.history import keep_servers

Call = Callable[..., Awaitable[Any]]
NETWORK = {"fixed_ips": -1, "floating_ips": -1, "security_groups": -1, "security_group_rules": -1}
INJECTED = {"injected_files": 5, "injected_file_content_bytes": 10_240, "injected_file_path_bytes": 255}
GROUPS = {"server_groups": 10, "server_group_members": 10}
ALWAYS = {"instances": -1, "cores": -1, "ram": -1, "metadata_items": 128, "key_pairs": 100}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("2.1", ALWAYS | GROUPS | INJECTED | NETWORK), ("2.35", ALWAYS | GROUPS | INJECTED | NETWORK),
        ("2.36", ALWAYS | GROUPS | INJECTED), ("2.56", ALWAYS | GROUPS | INJECTED),
        ("2.57", ALWAYS | GROUPS), ("2.96", ALWAYS | GROUPS),
    ],
)  # fmt: skip
async def test_a_quota_set_has_what_there_is_at_a_microversion(call: Call, version: str, shown: dict[str, int]) -> None:
    for path in ("", "/defaults"):
        answer = await call("GET", f"/v2.1/os-quota-sets/p{path}", version=version)
        assert (answer.status, answer.body) == (200, {"quota_set": {"id": "p", **shown}})
    detail = (await call("GET", "/v2.1/os-quota-sets/p/detail", version=version)).body["quota_set"]
    assert detail.pop("id") == "p"
    assert detail == {name: {"limit": limit, "in_use": 0, "reserved": 0} for name, limit in shown.items()}
    for name in {**NETWORK, **INJECTED, **ALWAYS}:
        answer = await call("PUT", "/v2.1/os-quota-sets/p", {"quota_set": {name: 7}}, version=version)
        assert (answer.status, answer.body) == (
            (200, {"quota_set": {**shown, **dict.fromkeys(shown.keys() & {name}, 7)}})
            if name in shown
            else (400, answer.body)
        )
        await call("DELETE", "/v2.1/os-quota-sets/p", version=version)


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("2.49", ALWAYS | INJECTED | NETWORK), ("2.50", ALWAYS | GROUPS | INJECTED),
        ("2.56", ALWAYS | GROUPS | INJECTED), ("2.57", ALWAYS | GROUPS),
    ],
)  # fmt: skip
async def test_the_class_has_what_there_is_at_a_microversion(call: Call, version: str, shown: Any) -> None:
    path = "/v2.1/os-quota-class-sets/default"
    answer = await call("GET", path, version=version)
    assert (answer.status, answer.body) == (200, {"quota_class_set": {"id": "default", **shown}})
    answer = await call("PUT", path, {"quota_class_set": {"instances": 3}}, version=version)
    assert (answer.status, answer.body) == (200, {"quota_class_set": {**shown, "instances": 3}})
    assert (await call("GET", "/v2.1/os-quota-sets/p", version=version)).body["quota_set"]["instances"] == 3
    refused = await call("PUT", path, {"quota_class_set": {"fixed_ips": 3}}, version=version)
    assert refused.status == (200 if "fixed_ips" in shown else 400)
    unknown = await call("GET", "/v2.1/os-quota-class-sets/gold", version=version)
    assert (unknown.status, "There is one: default." in unknown.body["itemNotFound"]["message"]) == (404, True)


@pytest.mark.parametrize(
    ("version", "left_out"),
    [
        ("2.35", set()),
        ("2.36", {"maxTotalFloatingIps", "maxSecurityGroups", "maxSecurityGroupRules", "totalFloatingIpsUsed",
                  "totalSecurityGroupsUsed"}),
        ("2.39", {"maxImageMeta"}), ("2.57", {"maxPersonality", "maxPersonalitySize"}),
    ],
)  # fmt: skip
async def test_limits_lose_what_quota_sets_lose(call: Call, version: str, left_out: set[str]) -> None:
    below = f"2.{int(version[2:]) - 1}"
    before, after = [(await call("GET", "/v2.1/limits", version=v)).body["limits"] for v in (below, version)]
    assert before["absolute"].keys() - after["absolute"].keys() == left_out
    assert before["absolute"].items() >= after["absolute"].items()
    assert before["rate"] == after["rate"] == []
    assert len(after["absolute"]) == {"2.35": 19, "2.36": 14, "2.39": 13, "2.57": 11}[version]


async def test_limits_are_of_the_own_project_or_of_the_one_that_is_named(call: Call, compute: Compute) -> None:
    await QUOTAS.set(compute, DEFAULT_PROJECT, {"instances": 5, "metadata_items": 9}, check=True)
    await QUOTAS.set(compute, "p", {"cores": 6}, check=True)
    own = (await call("GET", "/v2.1/limits", version="2.1")).body["limits"]["absolute"]
    assert (own["maxTotalInstances"], own["maxServerMeta"], own["maxImageMeta"]) == (5, 9, 9)
    other = (await call("GET", "/v2.1/limits?tenant_id=p&reserved=True", version="2.1")).body["limits"]["absolute"]
    assert (other["maxTotalInstances"], other["maxTotalCores"], other["totalCoresUsed"]) == (-1, 6, 0)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "os-quota-sets/p", None), ("GET", "os-quota-sets/p/detail", None),
        ("GET", "os-quota-sets/p/defaults", None), ("PUT", "os-quota-sets/p", {"quota_set": {}}),
        ("DELETE", "os-quota-sets/p", None), ("GET", "limits", None), ("GET", "os-simple-tenant-usage", None),
        ("GET", "os-simple-tenant-usage/p", None),
    ],
)  # fmt: skip
async def test_unknown_parameters_are_refused_from_2_75_on(call: Call, method: str, path: str, body: Any) -> None:
    assert (await call(method, f"/v2.1/{path}?colour=red", body, version="2.74")).status < 300
    answer = await call(method, f"/v2.1/{path}?colour=red", body, version="2.75")
    assert (answer.status, "colour" in answer.body["badRequest"]["message"]) == (400, True)


@pytest.mark.parametrize("version", ["2.1", "2.96"])
async def test_a_single_user_has_no_quota(call: Call, version: str) -> None:
    path = "/v2.1/os-quota-sets/p"
    assert (await call("GET", f"{path}?user_id=u", version=version)).status == 200
    for method, target, body in (
        ("PUT", path, {"quota_set": {}}),
        ("DELETE", path, None),
        ("GET", f"{path}/detail", None),
    ):
        answer = await call(method, f"{target}?user_id=u", body, version=version)
        assert (answer.status, answer.body["badRequest"]["message"].startswith("user_id")) == (400, True)


@pytest.mark.parametrize(
    "quota", [{"instances": -2}, {"instances": 2**31}, {"instances": "many"}, {"instances": None}, {"networks": 1},
              {"instances": 1.5}, {"force": "perhaps"}],
)  # fmt: skip
async def test_what_is_no_quota_is_refused(call: Call, quota: dict[str, Any]) -> None:
    answer = await call("PUT", "/v2.1/os-quota-sets/p", {"quota_set": quota}, version="2.96")
    assert answer.status == 400, answer.body


async def test_a_project_name_is_bounded(call: Call) -> None:
    assert (await call("GET", f"/v2.1/os-quota-sets/{'p' * 256}")).status == 400
    assert (await call("GET", f"/v2.1/os-quota-sets/{'p' * 255}")).status == 200


@pytest.fixture
async def flavor(call: Call) -> str:
    body = {"flavor": {"name": "small", "id": "small", "vcpus": 2, "ram": 512, "disk": 10}}
    assert (await call("POST", "/v2.1/flavors", body)).status == 200
    return "small"


async def boot(call: Call, **more: Any) -> Any:
    server = {"name": "web", "flavorRef": "small", "networks": "none"} | more
    return await call("POST", "/v2.1/servers", {"server": server}, version="2.96")


async def test_who_is_over_the_quota_is_told_in_novas_words(call: Call, flavor: str) -> None:
    path = f"/v2.1/os-quota-sets/{DEFAULT_PROJECT}"
    set_to = await call("PUT", path, {"quota_set": {"instances": "2", "metadata_items": 1}}, version="2.96")
    assert set_to.body["quota_set"]["instances"] == 2
    assert (await boot(call, min_count=1, max_count=5)).status == 202
    answer = await boot(call)
    text = "Quota exceeded for instances: Requested 1, but already used 2 of 2 instances"
    assert (answer.status, answer.body) == (403, {"forbidden": {"code": 403, "message": text}})
    detail = (await call("GET", f"{path}/detail", version="2.96")).body["quota_set"]
    assert detail["instances"] == {"limit": 2, "in_use": 2, "reserved": 0}
    assert (detail["cores"]["in_use"], detail["ram"]["in_use"]) == (4, 1024)
    low = await call("PUT", path, {"quota_set": {"instances": 1}}, version="2.96")
    text = "Quota limit 1 for instances must be greater than or equal to already used and reserved 2."
    assert (low.status, low.body["badRequest"]["message"]) == (400, text)
    forced = await call("PUT", path, {"quota_set": {"instances": 1, "force": "True"}}, version="2.96")
    assert forced.body["quota_set"]["instances"] == 1
    assert (await call("DELETE", path, version="2.96")).status == 202
    assert (await boot(call)).status == 202


async def test_metadata_is_within_the_quota_wherever_it_is_written(call: Call, compute: Compute, flavor: str) -> None:
    await QUOTAS.set(compute, DEFAULT_PROJECT, {"metadata_items": 2}, check=True)
    text = "Maximum number of metadata items exceeds 2"
    full, surplus = {"a": "", "b": ""}, {"a": "", "b": "", "c": ""}
    answer = await boot(call, metadata=surplus)
    assert (answer.status, answer.body["forbidden"]["message"]) == (403, text)
    server_id = (await boot(call, metadata=full)).body["server"]["id"]
    async with compute.database.transaction() as tx:
        await tx.execute("DELETE FROM compute.work")
        await tx.execute("UPDATE compute.server SET status = 'ACTIVE', task_state = NULL")
    path = f"/v2.1/servers/{server_id}/metadata"
    for method, target, body in (
        ("PUT", path, {"metadata": surplus}), ("POST", path, {"metadata": {"c": ""}}),
        ("PUT", f"{path}/c", {"meta": {"c": ""}}),
    ):  # fmt: skip
        answer = await call(method, target, body, version="2.96")
        assert (answer.status, answer.body["forbidden"]["message"]) == (403, text), method
    assert (await call("POST", path, {"metadata": {"b": "x"}}, version="2.96")).status == 200


def server(launched: datetime, ended: datetime | None, project_id: str = "p", **size: int) -> ServerUsage:
    flavor = Flavor(id="f", name="f", **{"vcpus": 2, "ram_mb": 512, "disk_gb": 10, **size})
    return ServerUsage(
        id="i", name="n", project_id=project_id, flavor=flavor, state="active", launched_at=launched, ended_at=ended
    )


@pytest.mark.parametrize(
    ("launched", "ended", "hours"),
    [
        (-2, None, 4.0), (1, None, 3.0), (1, 2, 1.0), (-2, 1, 1.0), (-2, -1, 0.0), (5, None, 0.0), (3, 9, 1.0),
    ],
)  # fmt: skip
def test_a_server_is_counted_for_what_it_was_there_of_the_period(
    launched: int, ended: int | None, hours: float
) -> None:
    there = server(NOON + launched * HOUR, None if ended is None else NOON + ended * HOUR)
    assert hours_of(there, start=NOON, stop=NOON + 4 * HOUR) == hours


def test_a_project_used_sizes_times_hours() -> None:
    servers = [server(NOON, None), server(NOON, NOON + HOUR, vcpus=8), server(NOON, None, "q")]
    mine, theirs = add_up(servers, start=NOON, stop=NOON + 2 * HOUR)
    assert (mine.project_id, mine.hours, mine.vcpu_hours, mine.memory_mb_hours) == ("p", 3.0, 12.0, 1536.0)
    assert (theirs.project_id, theirs.hours, theirs.disk_gb_hours, len(theirs.servers)) == ("q", 2.0, 20.0, 1)
    assert [uptime_s(one, NOON + 3 * HOUR) for one in servers] == [10_800, 3600, 10_800]


@pytest.fixture
async def launched(call: Call, compute: Compute, flavor: str) -> list[str]:
    """Three servers, launched 4, 3 and 2 hours ago; the second was deleted an hour ago, and its row is gone."""
    ids = [(await boot(call, name=f"web{number}")).body["server"]["id"] for number in range(3)]
    async with compute.database.transaction() as tx:
        for hours, server_id in zip((4, 3, 2), ids, strict=True):
            await tx.execute(
                "UPDATE compute.server SET status = 'ACTIVE', launched_at = now() - $2 * interval '1 hour'"
                " WHERE id = $1",
                server_id, hours,
            )  # fmt: skip
        await tx.execute("UPDATE compute.server SET project_id = 'p' WHERE id = $1", ids[2])
        await keep_servers(tx, [ids[1]])
        await tx.execute("DELETE FROM compute.server WHERE id = $1", ids[1])
        await tx.execute("UPDATE compute.deleted_server SET deleted_at = now() - interval '1 hour'")
    await boot(call, name="never launched")
    return ids


def period(start_h: float, end_h: float) -> str:
    """From so many hours ago to so many hours ago, as clients write it."""
    start, end = (datetime.now(UTC) - hours * HOUR for hours in (start_h, end_h))
    return f"start={start:%Y-%m-%dT%H:%M:%S.%f}&end={end:%Y-%m-%d %H:%M:%S.%f}".replace(" ", "%20")


async def test_usages_are_of_servers_that_were_there(call: Call, launched: list[str]) -> None:
    path = "/v2.1/os-simple-tenant-usage"
    answer = await call("GET", f"{path}?{period(10, 0)}&detailed=1", version="2.96")
    mine, theirs = answer.body["tenant_usages"]
    assert (mine["tenant_id"], theirs["tenant_id"]) == (DEFAULT_PROJECT, "p")
    first, second = mine["server_usages"]
    assert [one["instance_id"] for one in (first, second)] == launched[:2]
    assert (first["hours"], second["hours"]) == (pytest.approx(4, abs=0.1), pytest.approx(2, abs=0.1))
    assert (first["state"], first["ended_at"], second["state"]) == ("active", None, "terminated")
    assert second["ended_at"] > second["started_at"]
    assert (first["flavor"], first["vcpus"], first["memory_mb"], first["local_gb"]) == ("small", 2, 512, 10)
    assert first["uptime"] == pytest.approx(4 * 3600, abs=300)
    assert mine["total_vcpus_usage"] == pytest.approx(12, abs=0.3)
    assert mine["total_memory_mb_usage"] == pytest.approx(6 * 512, abs=100)
    brief = (await call("GET", f"{path}?{period(10, 0)}", version="2.96")).body["tenant_usages"]
    assert all("server_usages" not in one for one in brief)
    one = (await call("GET", f"{path}/p?{period(1.5, 0.5)}", version="2.96")).body["tenant_usage"]
    assert (one["total_hours"], len(one["server_usages"])) == (pytest.approx(1, abs=0.1), 1)
    early = await call("GET", f"{path}/{DEFAULT_PROJECT}?{period(10, 5)}", version="2.96")
    assert early.body == {"tenant_usage": {}}
    late = await call("GET", f"{path}/{DEFAULT_PROJECT}?{period(0.5, -9)}", version="2.96")
    assert [one["instance_id"] for one in late.body["tenant_usage"]["server_usages"]] == launched[:1]
    assert (await call("GET", path, version="2.96")).status == 200


async def test_usages_have_pages_of_servers_from_2_40_on(call: Call, launched: list[str]) -> None:
    target, seen = f"/v2.1/os-simple-tenant-usage?{period(10, 0)}&detailed=1&limit=1", []
    whole = (await call("GET", target, version="2.39")).body
    assert (len(whole["tenant_usages"]), "tenant_usages_links" in whole) == (2, False)
    while target:
        body = (await call("GET", target, version="2.40")).body
        seen += [one["instance_id"] for usage in body["tenant_usages"] for one in usage["server_usages"]]
        target = body.get("tenant_usages_links", [{"href": ""}])[0]["href"].removeprefix("http://cloud:8778/compute")
    assert seen == launched
    shown = await call("GET", f"/v2.1/os-simple-tenant-usage/p?{period(10, 0)}&limit=1", version="2.40")
    assert shown.body["tenant_usage_links"][0]["rel"] == "next"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("start=2026-01-02T00:00:00&end=2026-01-01T00:00:00", "The start time cannot occur after the end time."),
        ("start=9999-12-31T23:59:59.999999", "The start time cannot occur after the end time."),
        ("start=yesterday", "Invalid datetime string: start=yesterday"), ("end=2026-13-01T00:00:00", "end=2026-13-01"),
        ("start=2026-01-01T00:00:00&marker=x", "Marker x could not be found."),
        ("start=2026-01-01T00:00:00&marker=aaaaaaaa-0000-0000-0000-000000000001", "could not be found."),
        ("start=2026-01-01T00:00:00&limit=-1", "limit=-1"),
    ],
)  # fmt: skip
async def test_periods_and_markers_that_cannot_be(call: Call, query: str, words: str) -> None:
    for path in ("", "/p"):
        answer = await call("GET", f"/v2.1/os-simple-tenant-usage{path}?{query}", version="2.96")
        assert (answer.status, words in answer.body["badRequest"]["message"]) == (400, True), answer.body
