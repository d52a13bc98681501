"""POST .../action {"evacuate": {"readdress": true}}: Roost's own attribute, with a rule of its own."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.compute.test_actions import make_server

from roost.compute.api import operations
from roost.compute.api.openapi import ABOUT
from roost.compute.service import Compute
from roost.compute.service import hosts as hosts_service
from roost.platform.auth import Caller
from roost.platform.openapi import describe
from roost.platform.policy import OsloPolicy

Call = Callable[..., Awaitable[Any]]
NOTHING: Any = None


@pytest.fixture
async def server_id(call: Call, compute: Compute) -> str:
    """A server on a host that is down."""
    server_id = await make_server(call, compute, "mine")
    await hosts_service.force_down(compute, "h1", True)
    return server_id


@pytest.mark.parametrize("version", ["2.1", "2.14", "2.96"])
@pytest.mark.parametrize(
    ("body", "readdress"), [({"readdress": True}, True), ({"readdress": False}, False), ({}, False)]
)
async def test_an_evacuation_may_be_with_other_addresses(
    call: Call, compute: Compute, server_id: str, version: str, body: Any, readdress: bool
) -> None:
    answer = await call("POST", f"/v2.1/servers/{server_id}/action", {"evacuate": body}, version=version)
    assert answer.status == 200, answer.raw
    async with compute.database.connection() as connection:
        assert await connection.fetchval("SELECT (plan ->> 'readdress')::boolean FROM compute.move") == readdress


@pytest.mark.parametrize("value", ["true", 1, None])
async def test_what_is_no_yes_or_no_is_refused(call: Call, server_id: str, value: Any) -> None:
    body = {"evacuate": {"readdress": value}}
    answer = await call("POST", f"/v2.1/servers/{server_id}/action", body, version="2.96")
    assert answer.status == 400
    assert "readdress" in answer.body["badRequest"]["message"]


async def test_other_addresses_have_a_rule_of_their_own(
    call: Call, as_caller: Any, server_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_caller(Caller("u", "mine", ("member", "reader")))
    path = f"/v2.1/servers/{server_id}/action"
    monkeypatch.setattr(OsloPolicy, "enforce", allow_too("os_compute_api:os-evacuate"))
    refused = await call("POST", path, {"evacuate": {"readdress": True}}, version="2.96")
    assert refused.status == 403
    assert "os_compute_api:os-evacuate:readdress" in refused.body["forbidden"]["message"]
    assert (await call("POST", path, {"evacuate": {}}, version="2.96")).status == 200


def allow_too(allowed: str) -> Callable[..., None]:
    """The policy, but that everybody passes one rule."""
    enforce = OsloPolicy.enforce

    def asked(policy: OsloPolicy, caller: Caller, rule: str, target: Any = None) -> None:
        if rule != allowed:
            enforce(policy, caller, rule, target)

    return asked


def test_the_document_says_that_it_is_roosts_own() -> None:
    document: Any = describe(ABOUT, operations(NOTHING), server="/compute")
    schema = document["components"]["schemas"]["EvacuateBody"]["properties"]["readdress"]
    assert schema["description"].startswith("Roost's own")
    assert schema["default"] is False
