"""What Nova and Neutron read in Placement's answers beside status codes: sentences, codes, and what old versions say.

Source: nova/scheduler/client/report.py, neutron-lib's placement client, neutron/services/segments.
"""

import uuid
from typing import Any

import pytest
from tests.placement.calls import Api

from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database

HOST, SEGMENT, NOBODY, CONSUMER, RACK = (f"00000000-0000-4000-8000-00000000000{n}" for n in range(1, 6))


@pytest.fixture
async def api(database: Database) -> Api:
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    return Api(ledger)


@pytest.fixture
async def host(api: Api) -> str:
    """A host as Nova's compute makes it, at the versions that it uses for that."""
    status, made = await api.call("POST", "/resource_providers", {"uuid": HOST, "name": "h1"}, version="1.20")
    assert (status, made["generation"]) == (200, 0)
    inventories = {"VCPU": {"total": 4, "allocation_ratio": 4.0, "max_unit": 4}, "MEMORY_MB": {"total": 2048}}
    body = {"resource_provider_generation": 0, "inventories": inventories}
    status, put = await api.call("PUT", f"/resource_providers/{HOST}/inventories", body, version="1.26")
    assert (status, put["resource_provider_generation"]) == (200, 1)
    return HOST


def detail(answer: Any) -> str:
    text: str = answer["errors"][0]["detail"]
    return text


def code(answer: Any) -> str:
    text: str = answer["errors"][0]["code"]
    return text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("DELETE", "", None),
        ("GET", "/inventories", None),
        ("PUT", "/inventories", {"resource_provider_generation": 0, "inventories": {}}),
        ("POST", "/inventories", {"resource_class": "VCPU", "total": 1}),
        ("DELETE", "/inventories", None),
        ("GET", "/inventories/VCPU", None),
        ("PUT", "/inventories/VCPU", {"resource_provider_generation": 0, "total": 1}),
        ("DELETE", "/inventories/VCPU", None),
        ("GET", "/aggregates", None),
        ("PUT", "/aggregates", {"resource_provider_generation": 0, "aggregates": []}),
        ("GET", "/traits", None),
        ("PUT", "/traits", {"resource_provider_generation": 0, "traits": []}),
        ("DELETE", "/traits", None),
        ("GET", "/usages", None),
        ("GET", "/allocations", None),
    ],
)
async def test_an_unknown_provider_is_named_in_the_sentence_clients_look_for(
    api: Api, method: str, path: str, body: Any
) -> None:
    status, answer = await api.call(method, f"/resource_providers/{NOBODY}{path}", body)
    assert status == 404
    assert f"No resource provider with uuid {NOBODY}" in detail(answer)


async def test_a_missing_inventory_is_told_in_the_sentence_neutron_looks_for(api: Api, host: str) -> None:
    for method in ("GET", "DELETE"):
        status, answer = await api.call(method, f"/resource_providers/{host}/inventories/IPV4_ADDRESS")
        assert (status, "No inventory of class IPV4_ADDRESS" in detail(answer)) == (404, True)


async def test_taken_names_and_uuids_are_told_apart(api: Api, host: str) -> None:
    body = {"uuid": NOBODY, "name": "h1"}
    status, answer = await api.call("POST", "/resource_providers", body)
    assert (status, code(answer)) == (409, "placement.duplicate_name")
    assert "Conflicting resource provider name: h1 already exists." in detail(answer)
    status, answer = await api.call("POST", "/resource_providers", {"uuid": host, "name": "other"})
    assert (status, code(answer)) == (409, "placement.duplicate_name")
    assert f"Conflicting resource provider uuid: {host} already exists." in detail(answer)
    assert "Conflicting resource provider name:" not in detail(answer)


async def test_a_stale_generation_has_the_code_on_which_clients_try_again(api: Api, host: str) -> None:
    stale = {"resource_provider_generation": 0}
    for path, more in (
        ("inventories", {"inventories": {}}),
        ("inventories/VCPU", {"total": 9}),
        ("traits", {"traits": []}),
        ("aggregates", {"aggregates": []}),
    ):
        status, answer = await api.call("PUT", f"/resource_providers/{host}/{path}", {**stale, **more})
        assert (status, code(answer)) == (409, "placement.concurrent_update"), path
    for generation in (3, -1):
        body = claim({host: {"VCPU": 1}}, consumer_generation=generation)
        status, answer = await api.call("PUT", f"/allocations/{CONSUMER}", body)
        assert (status, code(answer)) == (409, "placement.concurrent_update")
        assert "consumer generation conflict - expected null but got" in detail(answer)
    assert await api.call("GET", f"/allocations/{CONSUMER}") == (200, {"allocations": {}})


async def test_an_inventory_in_use_has_its_code_and_stays(api: Api, host: str) -> None:
    assert (await api.call("PUT", f"/allocations/{CONSUMER}", claim({host: {"VCPU": 1}})))[0] == 204
    for method, path, body in (
        ("PUT", "inventories", {"resource_provider_generation": 2, "inventories": {}}),
        ("DELETE", "inventories", None),
    ):
        status, answer = await api.call(method, f"/resource_providers/{host}/{path}", body)
        assert (status, code(answer)) == (409, "placement.inventory.inuse")
        assert f"Inventory for 'VCPU' on resource provider '{host}' in use" in detail(answer)
    status, answer = await api.call("DELETE", f"/resource_providers/{host}")
    assert (status, code(answer)) == (409, "placement.resource_provider.inuse")
    assert (await api.call("GET", f"/resource_providers/{host}/inventories/VCPU"))[0] == 200


async def test_a_claim_beyond_the_capacity_is_no_reason_to_try_the_same_again(api: Api, host: str) -> None:
    status, answer = await api.call("PUT", f"/allocations/{CONSUMER}", claim({host: {"MEMORY_MB": 4096}}))
    assert (status, code(answer)) == (409, "placement.undefined_code")
    assert "Unable to allocate inventory" in detail(answer)
    assert "would exceed the capacity" in detail(answer)


async def test_codes_come_with_1_23_and_not_before(api: Api) -> None:
    for version, expected in (("1.22", False), ("1.23", True)):
        _, answer = await api.call("GET", f"/resource_providers/{NOBODY}", version=version)
        assert ("code" in answer["errors"][0]) is expected


async def test_neutron_publishes_a_segment_at_1_1(api: Api) -> None:
    """Lists of bare UUIDs, no generations, and an inventory that is changed by what was read before."""
    segment = {"uuid": SEGMENT, "name": f"Neutron segment id {SEGMENT}"}
    assert await api.call("POST", "/resource_providers", segment, version="1.1") == (201, None)
    inventory = {"total": 254, "reserved": 2, "min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
    below = f"/resource_providers/{SEGMENT}"
    body = {"resource_class": "IPV4_ADDRESS", "resource_provider_generation": 0, **inventory}
    assert (await api.call("POST", f"{below}/inventories", body, version="1.1"))[0] == 201
    assert await api.call("PUT", f"{below}/aggregates", [RACK], version="1.1") == (200, {"aggregates": [RACK]})
    _, read = await api.call("GET", f"{below}/inventories/IPV4_ADDRESS", version="1.1")
    assert read == {**inventory, "resource_provider_generation": 1}
    status, changed = await api.call("PUT", f"{below}/inventories/IPV4_ADDRESS", {**read, "reserved": 3}, version="1.1")
    assert (status, changed["reserved"], changed["resource_provider_generation"]) == (200, 3, 2)
    status, _ = await api.call("PUT", f"{below}/inventories/IPV4_ADDRESS", {**changed, "reserved": 254})
    assert status == 200  # from 1.26 on a segment may be wholly reserved
    old = {**changed, "reserved": 254, "resource_provider_generation": 3}
    assert (await api.call("PUT", f"{below}/inventories/IPV4_ADDRESS", old, version="1.1"))[0] == 400
    assert (await api.call("DELETE", below, version="1.1"))[0] == 204


async def test_nova_schedules_at_1_36_and_sends_back_what_it_got(api: Api, host: str) -> None:
    query = "resources=VCPU:1,MEMORY_MB:512&required=!COMPUTE_STATUS_DISABLED&limit=1000&root_required=!HW_ARCH_AARCH64"
    status, found = await api.call("GET", f"/allocation_candidates?{query}", version="1.36")
    assert status == 200
    (candidate,) = found["allocation_requests"]
    assert candidate["mappings"] == {"": [host]}
    assert found["provider_summaries"][host]["resources"]["VCPU"] == {"capacity": 16, "used": 0}
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": None}
    assert (await api.call("PUT", f"/allocations/{CONSUMER}", {**candidate, **owner}, version="1.36"))[0] == 204
    _, held = await api.call("GET", f"/allocations/{CONSUMER}", version="1.28")
    assert held["consumer_generation"] == 1
    assert held["allocations"][host]["resources"] == {"VCPU": 1, "MEMORY_MB": 512}
    assert "consumer_type" not in held
    # A resize moves what the server holds to its migration, in one step.
    migration = str(uuid.uuid4())
    moved = {"allocations": held["allocations"], "project_id": "p", "user_id": "u", "consumer_generation": None}
    emptied = {"allocations": {}, "project_id": "p", "user_id": "u", "consumer_generation": 1}
    body = {migration: moved, CONSUMER: emptied}
    assert await api.call("POST", "/allocations", body, version="1.28") == (204, None)
    assert (await api.call("GET", f"/allocations/{CONSUMER}", version="1.28"))[1] == {"allocations": {}}
    _, usages = await api.call("GET", f"/resource_providers/{host}/usages", version="1.36")
    assert usages["usages"] == {"VCPU": 1, "MEMORY_MB": 512}
    assert await api.call("DELETE", f"/allocations/{migration}", version="1.36") == (204, None)
    assert (await api.call("DELETE", f"/allocations/{migration}", version="1.36"))[0] == 404


async def test_nova_makes_classes_and_traits_as_it_needs_them(api: Api, host: str) -> None:
    assert (await api.call("PUT", "/resource_classes/CUSTOM_PCI", version="1.7"))[0] == 201
    assert (await api.call("PUT", "/resource_classes/CUSTOM_PCI", version="1.7"))[0] == 204
    assert (await api.call("PUT", "/traits/CUSTOM_GOLD", version="1.6"))[0] == 201
    assert (await api.call("PUT", "/traits/CUSTOM_GOLD", version="1.6"))[0] == 204
    body = {"resource_provider_generation": 1, "traits": ["CUSTOM_GOLD", "COMPUTE_NODE"]}
    status, put = await api.call("PUT", f"/resource_providers/{host}/traits", body, version="1.6")
    assert (status, put["resource_provider_generation"]) == (200, 2)
    body = {"resource_provider_generation": 2, "aggregates": [RACK]}
    status, put = await api.call("PUT", f"/resource_providers/{host}/aggregates", body, version="1.19")
    assert (status, put) == (200, {"aggregates": [RACK], "resource_provider_generation": 3})


@pytest.mark.parametrize("minor", range(9, 40))
async def test_the_usage_of_a_project_is_told_at_every_microversion(api: Api, host: str, minor: int) -> None:
    assert (await api.call("PUT", f"/allocations/{CONSUMER}", claim({host: {"VCPU": 2}})))[0] == 204
    status, answer = await api.call("GET", "/usages?project_id=p", version=f"1.{minor}")
    assert status == 200
    typed = {"INSTANCE": {"consumer_count": 1, "VCPU": 2}}
    assert answer["usages"] == ({"VCPU": 2} if minor < 38 else typed)


def claim(allocations: dict[str, dict[str, int]], **fields: Any) -> dict[str, Any]:
    return {
        "allocations": {provider: {"resources": resources} for provider, resources in allocations.items()},
        "project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE", **fields,
    }  # fmt: skip
