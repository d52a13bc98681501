"""The OpenAPI document describes what is served: every operation, and answers that are as it says."""

from typing import Any

import jsonschema
import pytest
from tests.network.cloud import Cloud
from tests.network.test_api import Api, routed

from roost.network.api import operations


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


def check_answer(document: Any, method: str, path: str, status: int, answer: Any) -> None:
    """Whether the answer is one that the document has for this operation."""
    operation = document["paths"][path][method.lower()]
    assert str(status) in operation["responses"], (method, path, status, answer)
    response = operation["responses"][str(status)]
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    if "content" not in response:
        assert answer is None
        return
    schema = {**response["content"]["application/json"]["schema"], "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(answer)


async def test_every_operation_is_in_the_document_and_its_schemas_are_schemas(api: Api, cloud: Cloud) -> None:
    status, document = await api.call("GET", "/openapi.json")
    assert (status, document["openapi"]) == (200, "3.1.1")
    described = {
        (path, method) for path, item in document["paths"].items() for method in item if method != "parameters"
    }
    assert described == {(path, m.lower()) for path, methods in operations(cloud.networks).items() for m in methods}
    names = [item[m]["operationId"] for item in document["paths"].values() for m in item if m != "parameters"]
    assert len(names) == len(set(names))
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


async def test_answers_are_as_the_document_says(api: Api, cloud: Cloud) -> None:
    document = (await api.call("GET", "/openapi.json"))[1]
    network, segment, subnet = await routed(api, cloud)
    port = await api.make("port", network_id=network["id"])
    for many, item in (("networks", network), ("segments", segment), ("subnets", subnet), ("ports", port)):
        one = many.removesuffix("s")
        check_answer(document, "POST", f"/v2.0/{many}", 201, {one: item})
        for path, real in ((f"/v2.0/{many}", ""), (f"/v2.0/{many}/{{id}}", f"/{item['id']}")):
            for query in ("", "?fields=id&fields=name"):
                status, answer = await api.call("GET", f"/v2.0/{many}{real}{query}")
                check_answer(document, "GET", path, status, answer)
        status, answer = await api.call("GET", f"/v2.0/{many}/none")
        check_answer(document, "GET", f"/v2.0/{many}/{{id}}", status, answer)
        with pytest.raises(jsonschema.ValidationError):
            check_answer(document, "POST", f"/v2.0/{many}", 201, {one: {**item, "colour": "red"}})
    for path in ("/", "/v2.0", "/v2.0/extensions"):
        status, answer = await api.call("GET", path)
        check_answer(document, "GET", path, status, answer)
