"""The Placement API over ASGI, on a real ledger: upstream's shapes and errors."""

import uuid
from typing import Any

import pytest
from tests.placement.calls import Api

from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.seams.placement import IPV4_ADDRESS, SHARING, VCPU, Inventory, ProviderState


def a_uuid() -> str:
    return str(uuid.uuid4())


# Fixed: the names of parametrised tests must be the same in every process.
AGGREGATE, HOST, SEGMENT = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))


@pytest.fixture
async def api(database: Database) -> Api:
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    await claims_service.ensure_providers(
        ledger,
        [
            ProviderState(
                uuid=HOST, name="r1-h1", inventories={VCPU: Inventory(total=4, max_unit=4)},
                placement_aggregates=frozenset({AGGREGATE}),
            ),
            ProviderState(
                uuid=SEGMENT, name="rack1", inventories={IPV4_ADDRESS: Inventory(total=2, max_unit=2)},
                placement_aggregates=frozenset({AGGREGATE}), traits=frozenset({SHARING}),
            ),
        ],
    )  # fmt: skip
    return Api(ledger)


def consumer(allocations: dict[str, dict[str, int]], **fields: Any) -> dict[str, Any]:
    return {
        "allocations": {uuid: {"resources": resources} for uuid, resources in allocations.items()},
        "project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE", **fields,
    }  # fmt: skip


async def test_providers_are_shown_with_all_that_they_have(api: Api) -> None:
    status, one = await api.call("GET", f"/resource_providers/{HOST}")
    assert status == 200
    assert (one["name"], one["parent_provider_uuid"], one["root_provider_uuid"]) == ("r1-h1", None, HOST)
    assert one["links"][0] == {"rel": "self", "href": f"/placement/resource_providers/{HOST}"}
    assert api.headers["openstack-api-version"] == "placement 1.39"
    assert api.headers["cache-control"] == "no-cache"
    below = f"/resource_providers/{HOST}"
    _, answer = await api.call("GET", f"{below}/inventories")
    assert answer["inventories"][VCPU] == {
        "total": 4, "reserved": 0, "min_unit": 1, "max_unit": 4, "step_size": 1, "allocation_ratio": 1.0,
    }  # fmt: skip
    assert answer["resource_provider_generation"] == one["generation"]
    assert (await api.call("GET", f"{below}/usages"))[1]["usages"] == {VCPU: 0}
    assert (await api.call("GET", f"{below}/aggregates"))[1]["aggregates"] == [AGGREGATE]
    assert (await api.call("GET", f"{below}/allocations"))[1]["allocations"] == {}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", {"r1-h1", "rack1"}),
        ("?name=rack1", {"rack1"}),
        (f"?uuid={HOST}", {"r1-h1"}),
        (f"?in_tree={HOST}", {"r1-h1"}),
        (f"?member_of=in:{AGGREGATE},{HOST}", {"r1-h1", "rack1"}),
        (f"?member_of=!{AGGREGATE}", set()),
        ("?resources=VCPU:4", {"r1-h1"}),
        ("?resources=VCPU:5", set()),
        (f"?required={SHARING}", {"rack1"}),
        (f"?required=!{SHARING}", {"r1-h1"}),
    ],
)
async def test_providers_are_listed_by_filters(api: Api, query: str, names: set[str]) -> None:
    status, answer = await api.call("GET", f"/resource_providers{query}")
    assert status == 200
    assert {one["name"] for one in answer["resource_providers"]} == names


async def test_a_candidate_can_be_claimed_as_it_came_and_is_shown_then(api: Api) -> None:
    query = f"resources=VCPU:1&resources_nic0=IPV4_ADDRESS:1&member_of_nic0=in:{AGGREGATE}&limit=5"
    _, found = await api.call("GET", f"/allocation_candidates?{query}")
    (request,) = found["allocation_requests"]
    assert request["mappings"] == {"": [HOST], "_nic0": [SEGMENT]}
    assert found["provider_summaries"][SEGMENT] == {
        "resources": {IPV4_ADDRESS: {"capacity": 2, "used": 0}},
        "traits": [SHARING], "parent_provider_uuid": None, "root_provider_uuid": SEGMENT,
    }  # fmt: skip
    holder = a_uuid()
    body = {**request, "project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"}
    assert await api.call("PUT", f"/allocations/{holder}", body) == (204, None)
    _, held = await api.call("GET", f"/allocations/{holder}")
    assert {uuid: one["resources"] for uuid, one in held["allocations"].items()} == {
        HOST: {VCPU: 1}, SEGMENT: {IPV4_ADDRESS: 1},
    }  # fmt: skip
    assert (held["project_id"], held["user_id"], held["consumer_type"]) == ("p", "u", "INSTANCE")
    assert held["consumer_generation"] == 1
    _, there = await api.call("GET", f"/resource_providers/{SEGMENT}/allocations")
    assert there["allocations"] == {holder: {"resources": {IPV4_ADDRESS: 1}, "consumer_generation": 1}}
    assert (await api.call("GET", f"/resource_providers/{SEGMENT}/usages"))[1]["usages"] == {IPV4_ADDRESS: 1}
    assert (await api.call("DELETE", f"/allocations/{holder}"))[0] == 204
    assert (await api.call("GET", f"/allocations/{holder}"))[1] == {"allocations": {}}


async def test_many_consumers_are_claimed_together_or_not_at_all(api: Api) -> None:
    first, second, third = a_uuid(), a_uuid(), a_uuid()
    both = {first: consumer({HOST: {VCPU: 3}}), second: consumer({SEGMENT: {IPV4_ADDRESS: 1}})}
    assert (await api.call("POST", "/allocations", both))[0] == 204
    status, answer = await api.call("PUT", f"/allocations/{third}", consumer({HOST: {VCPU: 2}}))
    assert status == 409
    (error,) = answer["errors"]
    assert (error["status"], error["code"]) == (409, "placement.undefined_code")
    assert "Unable to allocate inventory" in error["detail"]
    assert error["request_id"].startswith("req-")
    too_much = {third: consumer({SEGMENT: {IPV4_ADDRESS: 1}}), first: consumer({}, consumer_generation=7)}
    status, answer = await api.call("POST", "/allocations", too_much)
    assert (status, answer["errors"][0]["code"]) == (409, "placement.concurrent_update")
    assert "expected 1 but got 7" in answer["errors"][0]["detail"]
    assert (await api.call("GET", f"/allocations/{third}"))[1]["allocations"] == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", f"/resource_providers/{AGGREGATE}", None, 404, f"No resource provider with uuid {AGGREGATE} found"),
        ("GET", "/resource_providers/nonsense/usages", None, 404, "No resource provider with uuid nonsense found"),
        ("GET", "/nowhere", None, 404, "/nowhere"),
        ("GET", "/allocation_candidates", None, 400, "There must be at least one resources"),
        ("GET", "/allocation_candidates?resources=VCPU:0", None, 400, "requires amount >= 1. Got: 0."),
        ("GET", "/allocation_candidates?resources=VCPU", None, 400, "Badly formed resources parameter."),
        ("GET", "/allocation_candidates?resources=NO_SUCH:1", None, 400, "No such resource class NO_SUCH"),
        ("GET", "/allocation_candidates?resources=VCPU:1&required=NO_SUCH", None, 400, "No such trait(s): NO_SUCH"),
        ("GET", "/allocation_candidates?resources=VCPU:1&colour=red", None, 400, "Invalid query string parameters"),
        ("GET", "/allocation_candidates?resources1=VCPU:1&resources2=VCPU:1", None, 400, "group_policy"),
        ("GET", "/resource_providers?in_tree=x", None, 400, "'x' is not a 'uuid'"),
        ("PUT", f"/allocations/{HOST}", {}, 400, "JSON does not validate"),
        ("PUT", "/allocations/x", consumer({HOST: {VCPU: 1}}), 400, "Malformed consumer_uuid"),
        ("PUT", f"/allocations/{HOST}", consumer({AGGREGATE: {VCPU: 1}}), 400, "that does not exist"),
        ("PUT", f"/allocations/{HOST}", consumer({HOST: {"NO_SUCH": 1}}), 400, "No such resource class"),
        ("PUT", f"/allocations/{HOST}", consumer({HOST: {IPV4_ADDRESS: 1}}), 409, "No inventory of class"),
        ("PUT", f"/allocations/{HOST}", consumer({HOST: {VCPU: 1}}, project_id="\0"), 400, "u0000"),
        ("PUT", f"/allocations/{HOST}", consumer({HOST: {VCPU: 1}}, user_id="a\0b"), 400, "u0000"),
        ("DELETE", f"/allocations/{HOST}", None, 404, "No allocations for consumer"),
    ],
)
async def test_refusals_say_what_is_wrong(api: Api, method: str, path: str, body: Any, status: int, words: str) -> None:
    answered, answer = await api.call(method, path, body)
    assert answered == status
    assert words.lower() in answer["errors"][0]["detail"].lower()


async def test_the_version_document_names_the_range_and_others_are_not_acceptable(api: Api) -> None:
    status, answer = await api.call("GET", "/", version=None)
    assert status == 200
    assert (answer["versions"][0]["min_version"], answer["versions"][0]["max_version"]) == ("1.0", "1.39")
    assert (await api.call("GET", "/resource_providers", version="1.40"))[0] == 406
    assert (await api.call("GET", "/resource_providers", version="9" * 5000 + ".1"))[0] == 400


async def test_a_refusal_is_one_line_for_openstack_shows_its_last_one_only(api: Api) -> None:
    for path, body in ((f"/allocations/{HOST}", {}), (f"/resource_providers/{HOST}/inventories", {"x": {"y": 1}})):
        status, answer = await api.call("PUT", path, body)
        assert status == 400
        explanation, _, detail = answer["errors"][0]["detail"].partition("\n\n ")
        assert explanation.startswith("The server could not comply")
        assert detail.startswith("JSON does not validate: ")
        assert "\n" not in detail
        assert "Failed validating" in detail
