"""Operators' host aggregates over the API, and that placement mirrors them, or is told later.

Facts of upstream's functional tests: nova/tests/functional/test_aggregates.py and its nova-manage tests.
"""

import asyncio
from typing import Any

import pytest
import structlog
from tests.agent.cloud import AGENT

from roost.compute.rules.aggregates import RATIO_KEYS
from roost.compute.rules.drift import MIRROR_WRONG
from roost.compute.service import Compute, audit, operator_aggregates
from roost.compute.service import aggregates as service
from roost.compute.service import hosts as hosts_service
from roost.platform.drift import Repairs
from roost.platform.errors import DatabaseUnavailable
from roost.seams.agent import HostReport
from roost.seams.compute import HostAggregateState
from roost.seams.placement import ProviderState

OTHERS = "cccccccc-0000-0000-0000-000000000001"
NETWORKS = "aaaaaaaa-0000-0000-0000-000000000001"
LATEST = "2.96"


@pytest.fixture(autouse=True)
async def hosts(compute: Compute) -> None:
    reports = [HostReport(name=name, vcpus=4, ram_mb=4096, disk_gb=40) for name in ("h1", "h2", "h3")]
    await hosts_service.register_hosts(compute, reports, agent=AGENT)


async def make(call: Any, name: str, zone: str | None = None) -> dict[str, Any]:
    body = {"aggregate": {"name": name} | ({} if zone is None else {"availability_zone": zone})}
    answer = await call("POST", "/v2.1/os-aggregates", body, version=LATEST)
    assert answer.status == 200, answer.raw
    return dict(answer.body["aggregate"])


async def act(call: Any, aggregate: Any, action: str, **body: Any) -> Any:
    return await call("POST", f"/v2.1/os-aggregates/{aggregate['id']}/action", {action: body}, version=LATEST)


async def mirrored(compute: Compute, host: str) -> set[str]:
    uuid = hosts_service.provider_uuid_of(host)
    return set((await compute.placement.get_providers([uuid]))[uuid].placement_aggregates or ())


async def server_on(compute: Compute, host: str) -> None:
    async with compute.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO compute.server (id, name, project_id, user_id, flavor, reservation_id, spec, status, host)"
            """ VALUES (gen_random_uuid(), 's', 'p', 'u', $2::jsonb, 'r', $3::jsonb, 'ACTIVE', $1)""",
            host,
            '{"id": "f", "name": "f", "vcpus": 1, "ram_mb": 1, "disk_gb": 1}',
            '{"vcpus": 1, "memory_mb": 1, "disk_gb": 1}',
        )


class Calls:
    """Counts what placement is asked, and fails or hangs when told to."""

    def __init__(self, compute: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.broken: Exception | None = None
        self.hangs = False
        self.answered = asyncio.Event()
        for name in ("ensure_providers", "set_placement_aggregates"):
            monkeypatch.setattr(compute.placement, name, self._counting(name, getattr(compute.placement, name)))

    def _counting(self, name: str, real: Any) -> Any:
        async def call(*arguments: Any, **more: Any) -> Any:
            self.names.append(name)
            if self.hangs:
                try:
                    await asyncio.shield(self.answered.wait())
                finally:
                    await (
                        self.answered.wait()
                    )  # a write to a placement elsewhere waits for its answer when it is cut off
            if self.broken is not None:
                raise self.broken
            return await real(*arguments, **more)

        return call


@pytest.fixture
def calls(compute: Compute, hosts: None, monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(compute, monkeypatch)


async def test_an_aggregate_is_made_changed_and_deleted(call: Any, compute: Compute) -> None:
    made = await make(call, " gpu ", "east")
    assert made["name"] == "gpu"
    assert made["availability_zone"] == "east"
    assert made["updated_at"] is None
    assert made.keys() == {
        "id", "uuid", "name", "availability_zone", "created_at", "updated_at", "deleted", "deleted_at"
    }  # fmt: skip
    path = f"/v2.1/os-aggregates/{made['id']}"
    older = (await call("GET", path, version="2.40")).body["aggregate"]
    assert "uuid" not in older
    assert older["metadata"] == {"availability_zone": "east"}
    assert older["hosts"] == []
    assert (await call("POST", "/v2.1/os-aggregates", {"aggregate": {"name": "gpu"}})).status == 409
    renamed = await call("PUT", path, {"aggregate": {"name": "gpus"}}, version=LATEST)
    assert renamed.body["aggregate"]["name"] == "gpus"
    assert renamed.body["aggregate"]["updated_at"]
    assert (await act(call, made, "set_metadata", metadata={"ssd": "true", "availability_zone": None})).body[
        "aggregate"
    ]["metadata"] == {"ssd": "true"}
    added = await act(call, made, "add_host", host="h1")
    assert added.body["aggregate"]["hosts"] == ["h1"]
    refused = await call("DELETE", path)
    assert (refused.status, "not empty" in refused.body["badRequest"]["message"]) == (400, True)
    assert await mirrored(compute, "h1") == {made["uuid"]}
    assert (await act(call, made, "remove_host", host="h1")).body["aggregate"]["hosts"] == []
    assert await mirrored(compute, "h1") == set()
    assert (await call("DELETE", path)).status == 200
    assert (await call("GET", path)).status == (await call("DELETE", path)).status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "part"),
    [
        ("POST", "", {"aggregate": {}}, 400, "name"), ("POST", "", {"aggregate": {"name": " "}}, 400, "blanks"),
        ("POST", "", {"aggregate": {"name": "x" * 256}}, 400, "name"),
        ("POST", "", {"aggregate": {"name": "a", "availability_zone": "a:b"}}, 400, "availability_zone"),
        ("POST", "", {"aggregate": {"name": "a", "availability_zone": " "}}, 400, "availability_zone"),
        ("POST", "", {"aggregate": {"name": "a", "metadata": {}}}, 400, "metadata"),
        ("PUT", "/{id}", {"aggregate": {}}, 400, "expected a name"),
        ("PUT", "/99", {"aggregate": {"name": "b"}}, 404, "99"),
        ("PUT", "/{id}", {"aggregate": {"name": "taken"}}, 409, "taken already exists"),
        ("GET", "/x", None, 404, "Aggregate x"), ("GET", "/99999999999", None, 404, "could not be found"),
        ("POST", "/{id}/action", {}, 400, "no action"), ("POST", "/{id}/action", {"explode": {}}, 400, "explode"),
        ("POST", "/{id}/action", {"add_host": {"host": "h1"}, "remove_host": {"host": "h1"}}, 400, "expected one of"),
        ("POST", "/{id}/action", {"add_host": {"host": "h9"}}, 404, "Compute host h9 could not be found"),
        ("POST", "/{id}/action", {"add_host": {"host": "a b"}}, 400, "host"),
        ("POST", "/99/action", {"add_host": {"host": "h1"}}, 404, "Aggregate 99"),
        ("POST", "/{id}/action", {"remove_host": {"host": "h1"}}, 404, "has no host h1"),
        ("POST", "/{id}/action", {"set_metadata": {"metadata": {"k": 1}}}, 400, "metadata"),
        ("POST", "/{id}/action", {"set_metadata": {"metadata": {"cpu_allocation_ratio": "0"}}}, 400, "above 0"),
        ("POST", "/{id}/action", {"set_metadata": {"metadata": {"availability_zone": ""}}}, 400, "availability_zone"),
        ("POST", "/{id}/images", {"cache": [{"id": "i"}]}, 400, "caches no images"),
    ],
)  # fmt: skip
async def test_what_cannot_be_is_refused_by_name(
    call: Any, method: str, path: str, body: Any, status: int, part: str
) -> None:
    await make(call, "taken")
    made = await make(call, "mine")
    answer = await call(method, f"/v2.1/os-aggregates{path.format(id=made['id'])}", body, version=LATEST)
    (fault,) = answer.body.values()
    assert (answer.status, part in fault["message"]) == (status, True), answer.raw
    assert (await call("GET", f"/v2.1/os-aggregates/{made['id']}", version=LATEST)).body["aggregate"]["hosts"] == []


async def test_the_network_services_aggregates_are_shown_and_not_changed(call: Any, compute: Compute) -> None:
    await service.ensure_host_aggregates(compute, [HostAggregateState(NETWORKS, "rack1")])
    (shown,) = (await call("GET", "/v2.1/os-aggregates", version=LATEST)).body["aggregates"]
    for method, path, body in (
        ("PUT", "", {"aggregate": {"name": "x"}}), ("DELETE", "", None),
        ("POST", "/action", {"add_host": {"host": "h1"}}), ("POST", "/action", {"set_metadata": {"metadata": {}}}),
    ):  # fmt: skip
        answer = await call(method, f"/v2.1/os-aggregates/{shown['id']}{path}", body, version=LATEST)
        assert answer.status == 409
        assert "network service keeps it" in answer.body["conflictingRequest"]["message"]


async def test_zones_come_from_aggregates_and_a_host_with_servers_keeps_its_own(call: Any, compute: Compute) -> None:
    east, west = await make(call, "e", "east"), await make(call, "w", "west")
    assert (await act(call, east, "add_host", host="h1")).status == 200
    refused = await act(call, west, "add_host", host="h1")
    assert refused.status == 409
    assert "already in availability zone(s) ['east']" in refused.raw.decode()
    await server_on(compute, "h1")
    await server_on(compute, "h2")
    for answer, status in (
        (await act(call, west, "add_host", host="h2"), 409), (await act(call, east, "remove_host", host="h1"), 409),
        (await act(call, east, "set_metadata", metadata={"availability_zone": "north"}), 400),
        (await call("PUT", f"/v2.1/os-aggregates/{east['id']}", {"aggregate": {"availability_zone": None}}), 400),
        (await act(call, west, "add_host", host="h3"), 200),
    ):  # fmt: skip
        assert answer.status == status, answer.raw
    zones = (await call("GET", "/v2.1/os-availability-zone/detail", version=LATEST)).body["availabilityZoneInfo"]
    assert {zone["zoneName"]: set(zone["hosts"]) for zone in zones} == {
        "east": {"h1"}, "nova": {"h2"}, "west": {"h3"}
    }  # fmt: skip
    services = (await call("GET", "/v2.1/os-services", version=LATEST)).body["services"]
    assert {one["host"]: one["zone"] for one in services} == {"h1": "east", "h2": "nova", "h3": "west"}
    for zone, count in (("east", 1), ("nova", 1), ("west", 0)):
        listed = await call("GET", f"/v2.1/servers/detail?all_tenants=1&availability_zone={zone}", version=LATEST)
        shown = [one["OS-EXT-AZ:availability_zone"] for one in listed.body["servers"]]
        assert shown == [zone] * count, listed.raw


async def test_making_and_renaming_calls_nothing_and_a_host_one_write(call: Any, calls: Calls) -> None:
    made = await make(call, "gpu", "east")
    await call("PUT", f"/v2.1/os-aggregates/{made['id']}", {"aggregate": {"name": "b", "availability_zone": "x"}})
    await act(call, made, "set_metadata", metadata={"ssd": "true"})
    assert calls.names == []
    await act(call, made, "add_host", host="h1")
    assert calls.names == ["ensure_providers", "set_placement_aggregates"]


async def test_other_aggregates_of_a_provider_are_kept(call: Any, compute: Compute) -> None:
    h1 = ProviderState(uuid=hosts_service.provider_uuid_of("h1"), name="h1", placement_aggregates=frozenset([OTHERS]))
    await compute.placement.ensure_providers([h1])
    made, other = await make(call, "gpu"), await make(call, "ssd")
    for aggregate in (made, other):
        assert (await act(call, aggregate, "add_host", host="h1")).status == 200
    assert await mirrored(compute, "h1") == {OTHERS, made["uuid"], other["uuid"]}
    await act(call, made, "remove_host", host="h1")
    assert await mirrored(compute, "h1") == {OTHERS, other["uuid"]}


@pytest.mark.parametrize("failure", [DatabaseUnavailable("no answer"), ConnectionRefusedError(111, "refused"), None])
async def test_where_placement_cannot_be_reached_the_change_is_made_and_mirrored_later(
    call: Any, compute: Compute, calls: Calls, failure: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, gone = await make(call, "kept"), await make(call, "gone")
    for aggregate in (kept, gone):
        await act(call, aggregate, "add_host", host="h1")
    monkeypatch.setattr(operator_aggregates, "MIRROR_TIMEOUT_S", 0.2)
    calls.broken, calls.hangs = failure, failure is None
    with structlog.testing.capture_logs() as logs:
        assert (await act(call, kept, "add_host", host="h2")).body["aggregate"]["hosts"] == ["h1", "h2"]
    (warning,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert (warning["aggregate"], warning["hosts"], bool(warning["reason"])) == ("kept", "h2", True)
    assert (await act(call, gone, "remove_host", host="h1")).status == 200
    assert (await call("DELETE", f"/v2.1/os-aggregates/{gone['id']}")).status == 200
    calls.broken, calls.hangs = None, False
    calls.answered.set()
    assert await mirrored(compute, "h1") == {kept["uuid"], gone["uuid"]}
    await hosts_service.publish_hosts(compute)
    assert (await mirrored(compute, "h1"), await mirrored(compute, "h2")) == ({kept["uuid"]}, {kept["uuid"]})


async def test_a_mirror_that_is_wrong_is_drift_and_set_right(call: Any, compute: Compute) -> None:
    made, gone = await make(call, "gpu"), await make(call, "old")
    await act(call, made, "add_host", host="h1")
    await call("DELETE", f"/v2.1/os-aggregates/{gone['id']}")
    h1 = hosts_service.provider_uuid_of("h1")
    wrong = ProviderState(uuid=h1, name="h1", placement_aggregates=frozenset([OTHERS, gone["uuid"]]))
    await compute.placement.ensure_providers([wrong])
    (drift,) = await audit.AUDIT.run(compute, repairs=Repairs.NONE)
    assert drift.kind is MIRROR_WRONG
    assert "is not in gpu; is also in old (deleted)" in drift.says
    await audit.AUDIT.run(compute, repairs=Repairs.ALL)
    assert await mirrored(compute, "h1") == {OTHERS, made["uuid"]}
    assert await audit.AUDIT.run(compute, repairs=Repairs.NONE) == []


async def test_ratios_of_an_aggregate_are_its_members_while_they_are_in_it(call: Any, compute: Compute) -> None:
    async def ratio(host: str, resource_class: str = "VCPU") -> float:
        uuid = hosts_service.provider_uuid_of(host)
        state = (await compute.placement.get_providers([uuid]))[uuid]
        return float((state.inventories or {})[resource_class].allocation_ratio)

    made = await make(call, "dense")
    await act(call, made, "add_host", host="h1")
    await act(call, made, "set_metadata", metadata={RATIO_KEYS["VCPU"]: "4", RATIO_KEYS["MEMORY_MB"]: "1.5"})
    assert (await ratio("h1"), await ratio("h1", "MEMORY_MB"), await ratio("h2")) == (4.0, 1.5, 1.0)
    await act(call, made, "add_host", host="h2")
    assert await ratio("h2") == 4.0
    h2 = hosts_service.provider_uuid_of("h2")
    state = (await compute.placement.get_providers([h2]))[h2]
    changed = dict(state.inventories or {})
    changed["VCPU"] = type(changed["VCPU"])(total=4, max_unit=4, allocation_ratio=9.0)
    await compute.placement.ensure_providers([ProviderState(uuid=h2, name="h2", inventories=changed)])
    (drift,) = await audit.AUDIT.run(compute, repairs=Repairs.ALL)
    assert "the ratio of VCPU is 9, its aggregates say 4" in drift.says
    assert await ratio("h2") == 4.0
    await act(call, made, "remove_host", host="h1")
    assert (await ratio("h1"), await ratio("h1", "MEMORY_MB")) == (1.0, 1.0)
    await act(call, made, "set_metadata", metadata={RATIO_KEYS["VCPU"]: None})
    assert (await ratio("h2"), await ratio("h2", "MEMORY_MB")) == (1.0, 1.5)


async def test_a_host_is_shown_as_up_once_the_ledger_knows(call: Any, compute: Compute) -> None:
    async def state() -> str:
        answer = await call("GET", "/v2.1/os-services?host=h1", version=LATEST)
        return str(answer.body["services"][0]["state"])

    assert await state() == "up"
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.host SET silent = true, wanted = wanted + 1 WHERE name = 'h1'")
    assert await state() == "down"
    await hosts_service.publish_hosts(compute)
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.host SET silent = false, wanted = wanted + 1 WHERE name = 'h1'")
    assert await state() == "down", "the ledger still keeps servers from it"
    await hosts_service.publish_hosts(compute)
    assert await state() == "up"


async def test_of_two_zones_at_once_a_host_gets_one(compute: Compute) -> None:
    made = [await operator_aggregates.create_aggregate(compute, zone, zone) for zone in ("east", "west")]
    answers = await asyncio.gather(
        *(operator_aggregates.add_host(compute, aggregate.id, "h1") for aggregate in made), return_exceptions=True
    )
    assert sum(isinstance(answer, Exception) for answer in answers) == 1
    zones = await service.list_hosts_by_zone(compute, await hosts_service.list_hosts(compute))
    assert sum("h1" in [host.name for host in hosts] for hosts in zones.values()) == 1
