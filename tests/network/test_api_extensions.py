"""An extension is listed when what it promises is served."""

import re
from typing import Any

import pytest
from tests.network.cloud import Cloud
from tests.network.test_api import Api

from roost.network.api import operations
from roost.network.api.extensions import EXTENSIONS
from roost.network.api.fields import attributes
from roost.network.rules.documents import NetworkDocument, PortDocument, SegmentDocument, SubnetDocument

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
OPERATIONS = {
    "agent": "GET /v2.0/agents",
    "availability_zone": "GET /v2.0/availability_zones",
    "binding-extended": "POST /v2.0/ports/{}/bindings",
    "network-ip-availability": "GET /v2.0/network-ip-availabilities",
    "network-ip-availability-details": "GET /v2.0/network-ip-availabilities",
    "quota-check-limit": "PUT /v2.0/quotas/{}",
    "quota_details": "GET /v2.0/quotas/{}",
    "quotas": "GET /v2.0/quotas",
    "segment": "GET /v2.0/segments",
    "standard-attr-tag": "PUT /v2.0/ports/{}/tags",
    "subnet-segmentid-writable": "PUT /v2.0/subnets/{}",
    "tag-creation": "POST /v2.0/ports/{}/tags",
}
ELSEWHERE = {
    "empty-string-filtering", "filter-validation", "ip-substring-filtering", "pagination", "revision-if-match",
    "sorting",
}  # fmt: skip
"""Those that tests of lists and changes are about."""


NOTHING: Any = None
SERVED = {
    f"{method} {re.sub('{[^}]*}', '{}', path)}" for path, methods in operations(NOTHING).items() for method in methods
}


@pytest.mark.parametrize("alias", [item.alias for item in EXTENSIONS])
def test_each_extension_is_about_something_that_is_served(alias: str) -> None:
    if alias in ATTRIBUTES:
        kind, attribute = ATTRIBUTES[alias]
        assert attribute in attributes(kind)
    else:
        assert OPERATIONS.get(alias) in SERVED or alias in ELSEWHERE


async def test_extensions_are_listed_and_shown(cloud: Cloud) -> None:
    _, answer = await Api(cloud).call("GET", "/v2.0/extensions")
    aliases = [item["alias"] for item in answer["extensions"]]
    assert aliases == sorted({*ATTRIBUTES, *OPERATIONS, *ELSEWHERE})
    for item in answer["extensions"]:
        assert (await Api(cloud).call("GET", f"/v2.0/extensions/{item['alias']}"))[1] == {"extension": item}
    assert (await Api(cloud).call("GET", "/v2.0/extensions/none"))[0] == 404
