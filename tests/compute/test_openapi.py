"""The Compute API's OpenAPI document is valid, has every operation and no other, and says what is answered."""

from collections.abc import Iterator
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.agent.cloud import AGENT

from roost.cli.serving.access import VERSION_PATHS
from roost.compute.api import operations, routes
from roost.compute.api.openapi import ABOUT
from roost.compute.service import DEFAULT_PROJECT, Compute
from roost.compute.service import hosts as hosts_service
from roost.platform.http import MethodRoute
from roost.platform.openapi import describe
from roost.seams.agent import HostReport

NOTHING: Any = None
OPERATIONS = operations(NOTHING)
HIGHEST = (2, 96)
DOCUMENT: Any = describe(ABOUT, OPERATIONS, server="/compute")
NET = "bbbbbbbb-0000-0000-0000-000000000001"


def described(document: Any) -> Iterator[tuple[str, str, Any]]:
    """(path, method, operation)."""
    for path, item in document["paths"].items():
        yield from ((path, method, operation) for method, operation in item.items() if method != "parameters")


@pytest.mark.parametrize(
    "minor",
    [
        *(1, 53, 78, 96),
        *(pytest.param(minor, marks=pytest.mark.long) for minor in (18, 19, 37, 52, 56, 57, 73, 77, 87, 88, 90, 91)),
    ],
)
def test_the_document_of_a_microversion_is_valid_and_has_what_there_is_then(minor: int) -> None:
    document = describe(ABOUT, OPERATIONS, (2, minor), server="/compute")
    OpenAPIV31SpecValidator(document).validate()
    served = {
        (path, method.lower())
        for path, methods in OPERATIONS.items()
        for method, operation in methods.items()
        if operation.serves((2, minor))
    }
    assert {(path, method) for path, method, _ in described(document)} == served
    attributes = document["components"]["schemas"]["ServerBody"]["properties"]
    assert ("description" in attributes, "personality" in attributes) == (minor >= 19, minor <= 56)


def test_every_route_is_in_a_document_and_no_other() -> None:
    served = {
        (route.path, method.lower())
        for route in routes(NOTHING)
        if isinstance(route, MethodRoute)
        for method in route.methods_served
    }
    both = [DOCUMENT, describe(ABOUT, OPERATIONS, (2, 52), server="/compute")]
    assert {(path, method) for document in both for path, method, _ in described(document)} == served


def test_every_operation_has_a_rule_or_needs_no_token() -> None:
    """But for those of flavors, of which upstream asks none, and for actions, which have rules of their own."""
    without = {
        (method, path)
        for path, methods in OPERATIONS.items()
        for method, operation in methods.items()
        if operation.rule is None and operation.needs_token
    }
    paths = ("/v2.1/flavors", "/v2.1/flavors/detail", "/v2.1/flavors/{flavor_id}")
    actions = {("POST", f"/v2.1/{path}/action") for path in ("servers/{server_id}", "os-aggregates/{aggregate_id}")}
    assert without == {("GET", path) for path in paths} | actions


def test_what_nobody_needs_a_token_for_is_said_and_let_through() -> None:
    open_paths = {path for path, _, operation in described(DOCUMENT) if operation.get("security") == []}
    assert open_paths == {path for path in VERSION_PATHS["compute"] if path}


def test_where_nobody_is_asked_no_token_is_demanded() -> None:
    document = describe(ABOUT, OPERATIONS, server="/compute", asks_callers=False)
    assert document["security"] == []
    assert {"401", "403"} & {
        status for *_, operation in described(document) for status in operation["responses"]
    } == set()


async def test_the_document_is_served_for_the_microversion_that_is_asked_for(call: Any) -> None:
    newest = await call("GET", "/openapi.json")
    assert newest.status == 200
    assert newest.body == describe(ABOUT, OPERATIONS, HIGHEST, server="/compute")
    assert (await call("GET", "/openapi.json?microversion=2.52")).body["info"]["version"] == "2.52"
    for bad in ("2.97", "2.0", "1.1", "x", "2.1&a=b"):
        answer = await call("GET", f"/openapi.json?microversion={bad}")
        assert answer.status == 400, bad
        assert "expected microversion, 2.1 to 2.96" in answer.body["badRequest"]["message"]


async def test_answers_are_as_the_document_says(call: Any, compute: Compute, networks: Any) -> None:
    """Every GET at the highest microversion, and changes; `call` holds each answer against the document."""
    await networks.add(NET)
    reports = [HostReport(name=name, vcpus=4, ram_mb=4096, disk_gb=40) for name in ("h1", "h2")]
    await hosts_service.register_hosts(compute, reports, agent=AGENT)
    flavor = {"name": "small", "vcpus": 1, "ram": 1024, "disk": 10, "description": "d"}
    asked = await call("POST", "/v2.1/flavors", {"flavor": flavor}, version="2.96")
    flavor_id = asked.body["flavor"]["id"]
    server = {"name": "web", "flavorRef": flavor_id, "networks": [{"uuid": NET}]}
    for more in ({}, {"return_reservation_id": True}, {"min_count": 3, "imageRef": "i"}):
        made = await call("POST", "/v2.1/servers", {"server": server | more}, version="2.96")
        assert made.status == 202
    server_id = made.body["server"]["id"]
    async with compute.database.transaction() as tx:
        await tx.execute(
            "UPDATE compute.server SET host = 'h1', status = 'ACTIVE', task_state = NULL, launched_at = now(),"
            " network_info = $1::jsonb",
            '[{"port_id": "p", "tag": "0", "network_id": "n", "network_name": "net", "mac_address": "m",'
            ' "addresses": ["10.0.0.7", "2001:db8::7"], "preserve_on_delete": false}]',
        )
        await tx.execute(
            "UPDATE compute.server SET status = 'ERROR', host = NULL, fault = $2::jsonb WHERE id = $1", server_id,
            '{"message": "none left", "funnel": [["VCPU", 0]]}',
        )  # fmt: skip
    specs = f"/v2.1/flavors/{flavor_id}/os-extra_specs"
    host_id = (await call("GET", "/v2.1/os-services", version="2.96")).body["services"][0]["id"]
    closed = {"status": "disabled", "disabled_reason": "r", "forced_down": True}
    changes: list[tuple[str, str, Any]] = [
        ("POST", specs, {"extra_specs": {"hw:cpu_policy": "shared"}}), ("PUT", f"/v2.1/os-services/{host_id}", closed),
        ("PUT", "/hosts", {"hosts": [{"name": "h3", "vcpus": 1, "ram_mb": 1, "disk_gb": 1}]}),
        ("PUT", "/v2.1/os-quota-sets/p", {"quota_set": {"cores": "5"}}),
        ("PUT", "/v2.1/os-quota-class-sets/default", {"quota_class_set": {"cores": -1}}),
    ]  # fmt: skip
    targets = (
        *("/", "/v2.1", "/v2.1/", "/openapi.json", "/hosts", "/builds", "/v2.1/extensions", "/v2.1/extensions/OS-DCF"),
        *("/v2.1/servers", "/v2.1/servers?limit=1", "/v2.1/servers/detail", "/v2.1/servers/detail?limit=1"),
        *(f"/v2.1/servers/{server_id}/{part}" for part in ("metadata", "tags", "os-instance-actions")),
        *(f"/v2.1/servers/{server_id}", f"/v2.1/servers/{server_id}/ips", f"/v2.1/servers/{server_id}/ips/net"),
        *("/v2.1/flavors", "/v2.1/flavors/detail?limit=1", f"/v2.1/flavors/{flavor_id}", specs),
        *(f"{specs}/hw:cpu_policy", "/v2.1/os-hypervisors?limit=1&with_servers=1", "/v2.1/os-hypervisors/detail"),
        *(f"/v2.1/os-hypervisors/{host_id}?with_servers=true", f"/v2.1/servers/{server_id}/topology"),
        *("/v2.1/os-services", "/v2.1/os-aggregates", "/v2.1/os-aggregates/1", "/v2.1/os-availability-zone"),
        *("/v2.1/os-availability-zone/detail", "/v2.1/limits", "/v2.1/os-quota-class-sets/default"),
        *(f"/v2.1/os-quota-sets/p{part}" for part in ("", "/detail", "/defaults")),
        *("/v2.1/os-simple-tenant-usage?detailed=1&start=2026-01-01T00:00:00&limit=1",),
        *(f"/v2.1/os-simple-tenant-usage/{project}?start=2026-01-01T00:00:00" for project in ("p", DEFAULT_PROJECT)),
    )
    for method, path, body in (*changes, *(("GET", target, None) for target in targets)):
        answer = await call(method, path, body, version="2.96")
        assert answer.status == 200, (path, answer.raw)
    host_path = f"/v2.1/os-services/{host_id}"
    assert (await call("DELETE", host_path, version="2.96")).status == 409, "a server is on it"
    for path in (f"{specs}/hw:cpu_policy", f"/v2.1/flavors/{flavor_id}", f"/v2.1/servers/{server_id}"):
        assert (await call("DELETE", path, version="2.96")).status in (200, 202, 204)
        assert (await call("GET", path, version="2.96")).status in (200, 404)
