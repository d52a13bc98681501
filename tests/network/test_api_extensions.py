"""An extension is listed when what it promises is served."""

from typing import Any

import pytest
from tests.network.cloud import Cloud
from tests.network.test_api import Api

from roost.network.api import operations
from roost.network.api.extensions import EXTENSIONS, served_extensions
from roost.network.api.fields import attributes
from roost.network.rules.documents import NetworkDocument, PortDocument, SegmentDocument, SubnetDocument
from roost.platform.operations import Operation

ATTRIBUTES: dict[str, tuple[type[Any], str]] = {
    "allowed-address-pairs": (PortDocument, "allowed_address_pairs"),
    "binding": (PortDocument, "binding:host_id"),
    "external-net": (NetworkDocument, "router:external"),
    "ip_allocation": (PortDocument, "ip_allocation"),
    "l2_adjacency": (NetworkDocument, "l2_adjacency"),
    "multi-provider": (NetworkDocument, "segments"),
    "net-mtu": (NetworkDocument, "mtu"),
    "net-mtu-writable": (NetworkDocument, "mtu"),
    "port-security": (PortDocument, "port_security_enabled"),
    "project-id": (PortDocument, "project_id"),
    "provider": (NetworkDocument, "provider:network_type"),
    "segments-peer-subnet-host-routes": (SubnetDocument, "host_routes"),
    "standard-attr-description": (SegmentDocument, "description"),
    "standard-attr-revisions": (SegmentDocument, "revision_number"),
    "standard-attr-segment": (SegmentDocument, "created_at"),
    "standard-attr-timestamp": (PortDocument, "updated_at"),
    "subnet-service-types": (SubnetDocument, "service_types"),
    "tag-ports-during-bulk-creation": (PortDocument, "tags"),
}
ELSEWHERE = {
    "empty-string-filtering", "filter-validation", "ip-substring-filtering", "pagination", "revision-if-match",
    "sorting",
}  # fmt: skip
"""Those that tests of lists and changes are about."""


@pytest.mark.parametrize("alias", sorted(EXTENSIONS))
def test_each_extension_is_about_something_that_is_served(alias: str) -> None:
    if alias in ATTRIBUTES:
        kind, attribute = ATTRIBUTES[alias]
        assert attribute in attributes(kind)
    else:
        assert EXTENSIONS[alias].operation or alias in ELSEWHERE


async def test_an_extension_goes_with_its_operation(cloud: Cloud) -> None:
    async def nothing(_request: Any) -> Any:
        raise AssertionError

    operation = Operation(summary="", endpoint=nothing)
    binding = {"/v2.0/ports/{port_id}/bindings": {"POST": operation}}
    assert "binding-extended" in served_extensions(binding)
    assert "binding-extended" not in served_extensions({"/v2.0/ports/{port_id}/bindings": {"GET": operation}})
    served = served_extensions(operations(cloud.networks))
    assert {"segment", "standard-attr-tag", "network-ip-availability", "quotas", "pagination"} <= set(served)
    _, answer = await Api(cloud).call("GET", "/v2.0/extensions")
    assert [item["alias"] for item in answer["extensions"]] == sorted(served)
    for item in answer["extensions"]:
        assert (await Api(cloud).call("GET", f"/v2.0/extensions/{item['alias']}"))[1] == {"extension": item}
