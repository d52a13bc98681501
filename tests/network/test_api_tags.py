"""Tags over HTTP, and lists filtered by them."""

import asyncio
from typing import Any

import pytest
from tests.network.cloud import Cloud
from tests.network.test_api import Api, routed

MISSING = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


async def test_each_kind_has_tags(api: Api, cloud: Cloud) -> None:
    network, segment, subnet = await routed(api, cloud)
    port = await api.make("port", network_id=network["id"])
    network = (await api.call("GET", f"/v2.0/networks/{network['id']}"))[1]["network"]  # its subnet came meanwhile
    for kind, item in (("networks", network), ("segments", segment), ("subnets", subnet), ("ports", port)):
        path = f"/v2.0/{kind}/{item['id']}"
        steps: list[tuple[str, str, Any, int, Any]] = [
            ("GET", "/tags", None, 200, {"tags": []}),
            ("PUT", "/tags/red", None, 201, None),
            ("PUT", "/tags/red", None, 201, None),
            ("POST", "/tags", {"tags": ["green", "red"]}, 201, {"tags": ["green", "red"]}),
            ("GET", "/tags/green", None, 204, None),
            ("DELETE", "/tags/green", None, 204, None),
            ("GET", "/tags", None, 200, {"tags": ["red"]}),
            ("PUT", "/tags", {"tags": ["b", "a"]}, 200, {"tags": ["a", "b"]}),
            ("DELETE", "/tags", None, 204, None),
            ("GET", "/tags", None, 200, {"tags": []}),
        ]
        for method, rest, body, status, expected in steps:
            assert await api.call(method, f"{path}{rest}", body) == (status, expected), (kind, method, rest)
        _, answer = await api.call("GET", path)
        # Red came once, green came and went, two others came and went.
        assert answer[kind.removesuffix("s")]["revision_number"] == item["revision_number"] + 5
        refusals: list[tuple[str, str, Any, int, str]] = [
            ("GET", f"{path}/tags/red", None, 404, "TagNotFound"),
            ("DELETE", f"{path}/tags/red", None, 404, "TagNotFound"),
            ("GET", f"/v2.0/{kind}/{MISSING}/tags", None, 404, "TagResourceNotFound"),
            ("PUT", f"/v2.0/{kind}/none/tags/red", None, 404, "TagResourceNotFound"),
            ("PUT", f"{path}/tags/{'x' * 256}", None, 400, "InvalidInput"),
            ("PUT", f"{path}/tags", {"tags": [str(number) for number in range(51)]}, 400, "HTTPBadRequest"),
            ("PUT", f"{path}/tags", {"tags": "red"}, 400, "HTTPBadRequest"),
        ]
        for method, refused, body, status, name in refusals:
            answered, answer = await api.call(method, refused, body)
            assert (answered, answer["NeutronError"]["type"]) == (status, name), (method, refused, body)


async def test_tags_added_at_once_are_all_kept_up_to_fifty(api: Api, cloud: Cloud) -> None:
    network = await api.make("network")
    path = f"/v2.0/networks/{network['id']}/tags"
    answers = await asyncio.gather(*(api.call("PUT", f"{path}/tag{number}") for number in range(60)))
    assert sorted(status for status, _ in answers) == [201] * 50 + [400] * 10
    assert len((await api.call("GET", path))[1]["tags"]) == 50


async def test_lists_are_filtered_by_tags(api: Api) -> None:
    for name, tags in (("none", []), ("red", ["red"]), ("both", ["red", "blue"])):
        network = await api.make("network", name=name)
        await api.call("PUT", f"/v2.0/networks/{network['id']}/tags", {"tags": tags})
    for query, names in (
        ("tags=red", {"red", "both"}),
        ("tags=red,blue", {"both"}),
        ("tags-any=blue,green", {"both"}),
        ("not-tags=red,blue", {"none", "red"}),
        ("not-tags-any=red,blue", {"none"}),
        ("tags=red&not-tags=blue", {"red"}),
    ):
        _, answer = await api.call("GET", f"/v2.0/networks?{query}")
        assert {item["name"] for item in answer["networks"]} == names, query
