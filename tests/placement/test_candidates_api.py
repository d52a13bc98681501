"""GET /allocation_candidates over HTTP: microversions, cache headers, and why an answer is empty."""

import pytest
from tests.placement.calls import Api
from tests.placement.test_api import AGGREGATE, HOST, api

__all__ = ["api"]


async def test_candidates_came_with_1_10_and_their_cache_headers_with_1_15(api: Api) -> None:
    path = "/allocation_candidates?resources=VCPU:1"
    assert (await api.call("GET", path, version="1.9"))[0] == 404
    for version, cached in (("1.10", False), ("1.14", False), ("1.15", True), ("1.39", True)):
        status, answer = await api.call("GET", path, version=version)
        assert (status, len(answer["allocation_requests"])) == (200, 1)
        assert (api.headers.get("cache-control") == "no-cache") == ("last-modified" in api.headers) == cached
        assert api.headers["content-type"] == "application/json"
        assert "x-roost-explain" not in api.headers


async def test_an_empty_answer_says_why(api: Api) -> None:
    query = "resources=VCPU:1&resources1=IPV4_ADDRESS:3&required1=HW_CPU_X86_AVX&root_required=!HW_CPU_X86_VMX"
    status, answer = await api.call("GET", f"/allocation_candidates?{query}")
    assert (status, answer) == (200, {"allocation_requests": [], "provider_summaries": {}})
    assert api.headers["x-roost-explain"] == "none of 1 hosts left: trait HW_CPU_X86_AVX (group 1)"
    status, answer = await api.call("GET", f"/explain?{query}")
    assert status == 200
    assert answer["explanation"] == "none of 1 hosts left: trait HW_CPU_X86_AVX (group 1)"
    assert [(step["requirement"], step["group"], step["names"], step["hosts_left"]) for step in answer["steps"]] == [
        ("hosts", "", [], 1),
        ("no_root_trait", "", ["HW_CPU_X86_VMX"], 1),
        ("inventory", "", ["VCPU"], 1),
        ("inventory", "1", ["IPV4_ADDRESS"], 1),
        ("trait", "1", ["HW_CPU_X86_AVX"], 0),
        ("free", "", ["VCPU"], 0),
        ("free", "1", ["IPV4_ADDRESS"], 0),
    ]


OTHER, FAR = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"


@pytest.mark.parametrize(
    ("query", "shortages"),
    [
        pytest.param(f"resources=VCPU:1,DISK_GB:1&member_of=in:{AGGREGATE},{FAR}",
                     [("1 DISK_GB free", "1 VCPU free", [FAR]), ("1 VCPU free", "1 DISK_GB free", [AGGREGATE])],
                     id="free in different places"),
        pytest.param("resources=VCPU:9", [], id="free nowhere"),
        pytest.param("resources=VCPU:1", [], id="free"),
    ],
)  # fmt: skip
async def test_what_is_free_in_different_places_is_said_from_both_sides(
    api: Api, query: str, shortages: list[tuple[str, str, list[str]]]
) -> None:
    for uuid, aggregate, used in ((HOST, AGGREGATE, "DISK_GB"), (OTHER, FAR, "VCPU")):
        await api.call("POST", "/resource_providers", {"name": uuid, "uuid": uuid})
        _, provider = await api.call("GET", f"/resource_providers/{uuid}")
        inventories = {name: {"total": 4, "reserved": 4 if name == used else 0} for name in ("VCPU", "DISK_GB")}
        body = {"resource_provider_generation": provider["generation"], "inventories": inventories}
        status, answer = await api.call("PUT", f"/resource_providers/{uuid}/inventories", body)
        assert status == 200
        body = {"resource_provider_generation": answer["resource_provider_generation"], "aggregates": [aggregate]}
        assert (await api.call("PUT", f"/resource_providers/{uuid}/aggregates", body))[0] == 200
    _, answer = await api.call("GET", f"/explain?{query}")
    assert [(one["has"], one["lacks"], one["hosts"], one["member_of"]) for one in answer["shortages"]] == [
        (has, lacks, 1, near) for has, lacks, near in shortages
    ]
    await api.call("GET", f"/allocation_candidates?{query}")
    if shortages:
        assert (
            api.headers["x-roost-explain"]
            == answer["explanation"]
            == (
                "none of 1 hosts left: 1 DISK_GB free; 1 with 1 DISK_GB free but not 1 VCPU free; "
                "1 with 1 VCPU free but not 1 DISK_GB free"
            )
        )
    else:
        assert "but not" not in answer["explanation"]


async def test_what_can_be_had_is_explained_to_the_end(api: Api) -> None:
    _, answer = await api.call("GET", "/explain?resources=VCPU:4&resources1=IPV4_ADDRESS:2&group_policy=isolate")
    assert answer["explanation"] == "1 hosts left"
    assert [step["description"] for step in answer["steps"][-3:]] == [
        "2 IPV4_ADDRESS free (group 1)", "all of it together", "each group on a provider of its own",
    ]  # fmt: skip
    assert answer["steps"][-3]["amount"] == 2
    assert (await api.call("GET", "/explain?resources=VCPU"))[0] == 400
    assert (await api.call("GET", "/explain?resources=NO_SUCH:1"))[0] == 400


async def test_names_that_nobody_has_are_looked_up(api: Api) -> None:
    async def asks(query: str) -> tuple[int, str]:
        status, answer = await api.call("GET", f"/allocation_candidates?{query}")
        return status, answer["errors"][0]["detail"] if status == 400 else ""

    assert await asks("resources=VGPU:1") == (200, "")
    assert await asks("resources=VCPU:1&root_required=HW_CPU_X86_VMX") == (200, "")
    for query, words in (
        ("resources=CUSTOM_X:1", "Invalid resource class in resources parameter: No such resource class CUSTOM_X."),
        ("resources=a%00b:1", "No such resource class a\x00b."),
        ("resources=VCPU:1&required=CUSTOM_T", "No such trait(s): CUSTOM_T."),
        ("resources=VCPU:1&root_required=!%00", "No such trait(s): \x00."),
        ("resources_a=VCPU:1&required_b=CUSTOM_T&same_subtree=_a,_b&group_policy=none", "No such trait(s): CUSTOM_T."),
    ):
        status, detail = await asks(query)
        assert (status, words in detail) == (400, True), query
    status, answer = await api.call("GET", "/resource_providers?required=CUSTOM_T")
    assert status == 400
    assert 'Invalid trait(s) in "required" parameter: No such trait(s): CUSTOM_T.' in answer["errors"][0]["detail"]
