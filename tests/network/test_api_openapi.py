"""The OpenAPI document describes what is served: every operation, and answers that are as it says."""

import jsonschema
import pytest
from tests.network.cloud import Cloud
from tests.network.described import check_described
from tests.network.test_api import Api, routed

from roost.network.api import operations


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


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


async def test_an_answer_that_is_not_described_is_noticed(api: Api, cloud: Cloud) -> None:
    """Every test over HTTP looks at every answer in this way."""
    network, _, _ = await routed(api, cloud)
    check_described("POST", "/v2.0/networks", 201, {"network": network})
    for status, answer in (
        (201, {"network": {**network, "colour": "red"}}),
        (201, {"network": {**network, "mtu": "1500"}}),
        (201, {"net": network}),
        (201, {}),
        (201, None),
        (202, {"network": network}),
        (404, {"error": "none"}),
    ):
        with pytest.raises((jsonschema.ValidationError, AssertionError)):
            check_described("POST", "/v2.0/networks", status, answer)
