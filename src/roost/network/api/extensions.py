"""What clients ask first: versions, collections, extensions."""

import re
from typing import Any

from msgspec import Struct
from starlette.requests import Request

from roost.network.api.resources import answer
from roost.platform.errors import NotFound
from roost.platform.operations import Operation, Operations
from roost.platform.structs import body_type, copy_as, list_of
from roost.platform.versions import SELF_LINKS, self_links, versions_operation

COLLECTIONS = {
    "networks": "network",
    "segments": "segment",
    "subnets": "subnet",
    "ports": "port",
    "network-ip-availabilities": "network-ip-availability",
    "quotas": "quota",
    "agents": "agent",
    "availability_zones": "availability_zone",
}
"""Collection -> what one of it is called."""


class Extension(Struct, frozen=True):
    """Something that clients may rely on. operation: the extension is listed if this one is served; "" for always.

    Source of names and dates: the upstream extensions of these aliases.
    """

    name: str
    updated: str
    description: str
    operation: str = ""


EXTENSIONS: dict[str, Extension] = {
    "agent": Extension("agent", "2013-02-03T10:00:00-00:00",
        "The agents of hosts are listed; nobody changes them here.", "GET /v2.0/agents"),
    "allowed-address-pairs": Extension("Allowed Address Pairs", "2013-07-23T10:00:00-00:00",
        "A port's guest may use other addresses beside the port's own."),
    "availability_zone": Extension("Availability Zone", "2015-01-01T10:00:00-00:00",
        "The one availability zone is listed.", "GET /v2.0/availability_zones"),
    "binding": Extension("Port Binding", "2014-02-03T10:00:00-00:00",
        "Ports are bound to hosts, and say how their guests are plugged in there."),
    "binding-extended": Extension("Port Bindings Extended", "2017-07-17T10:00:00-00:00",
        "A port has several bindings, of which one is active.", "POST /v2.0/ports/{}/bindings"),
    "empty-string-filtering": Extension("Empty String Filtering Extension", "2018-05-01T10:00:00-00:00",
        "An empty filter finds what has an empty value."),
    "external-net": Extension("Neutron external network", "2013-01-14T10:00:00-00:00",
        "Networks say whether they lead outside."),
    "filter-validation": Extension("Filter parameters validation", "2018-07-04T10:00:00-00:00",
        "Filters by what there is not are refused."),
    "ip-substring-filtering": Extension("IP address substring filtering", "2017-11-28T09:00:00-00:00",
        "Ports are found by a part of their address."),
    "ip_allocation": Extension("IP Allocation", "2016-06-10T23:00:00-00:00",
        "Ports say whether their address is immediate, deferred until they are bound, or none."),
    "l2_adjacency": Extension("L2 Adjacency", "2016-04-12T16:00:00-00:00",
        "Networks say whether all of their ports are on one segment."),
    "multi-provider": Extension("Multi Provider Network", "2013-06-27T10:00:00-00:00",
        "A network is made with several segments."),
    "net-mtu": Extension("Network MTU", "2015-03-25T10:00:00-00:00", "Networks show their MTU."),
    "net-mtu-writable": Extension("Network MTU (writable)", "2017-07-12T00:00:00-00:00",
        "The MTU of a network is set by who makes or changes it."),
    "network-ip-availability": Extension("Network IP Availability", "2015-09-24T00:00:00-00:00",
        "How many addresses networks and their subnets have, and how many are used.",
        "GET /v2.0/network-ip-availabilities"),
    "network-ip-availability-details": Extension("Network IP Availability Details Extension",
        "2025-10-31T00:00:00-00:00", "The same, in pools and outside.", "GET /v2.0/network-ip-availabilities"),
    "pagination": Extension("Pagination support", "2016-06-12T00:00:00-00:00", "Lists come in pages."),
    "port-security": Extension("Port Security", "2012-07-23T10:00:00-00:00",
        "What a guest sends is held to its port's addresses, unless its owner says otherwise."),
    "project-id": Extension("project_id field enabled", "2016-09-09T09:09:09-09:09", "Projects are called project_id."),
    "provider": Extension("Provider Network", "2012-09-07T10:00:00-00:00", "Networks show what carries them."),
    "quota-check-limit": Extension("Quota engine limit check", "2021-09-08T16:00:00-00:00",
        "A quota below what is used can be refused.", "PUT /v2.0/quotas/{}"),
    "quota_details": Extension("Quota details management support", "2017-02-10T10:00:00-00:00",
        "Quotas with what is used of them.", "GET /v2.0/quotas/{}"),
    "quotas": Extension("Quota management support", "2012-07-29T10:00:00-00:00",
        "How many networks, subnets and ports a project may have.", "GET /v2.0/quotas"),
    "revision-if-match": Extension("If-Match constraints based on revision_number", "2016-12-11T00:00:00-00:00",
        "Changes and deletes can insist on the revision that was read."),
    "segment": Extension("Segment", "2016-02-24T17:00:00-00:00",
        "Networks have segments, each with its hosts and subnets.", "GET /v2.0/segments"),
    "segments-peer-subnet-host-routes": Extension("Segments peer-subnet host routes", "2018-06-12T10:00:00-00:00",
        "Subnets of a routed network have routes to each other."),
    "sorting": Extension("Sorting support", "2016-06-12T00:00:00-00:00", "Lists come in the order that is asked for."),
    "standard-attr-description": Extension("standard-attr-description", "2016-02-10T10:00:00-00:00",
        "Everything has a description."),
    "standard-attr-revisions": Extension("Resource revision numbers", "2016-04-11T10:00:00-00:00",
        "Everything has a number that grows with its changes."),
    "standard-attr-segment": Extension("Standard Attr Extension for Segment", "2017-01-01T00:00:00-00:00",
        "Segments have what everything has."),
    "standard-attr-tag": Extension("Tag support for resources with standard attribute: network, segment, subnet, port",
        "2017-01-01T00:00:00-00:00", "Networks, segments, subnets and ports have tags.", "PUT /v2.0/ports/{}/tags"),
    "standard-attr-timestamp": Extension("Resource timestamps", "2016-09-12T10:00:00-00:00",
        "Everything says when it was made and changed."),
    "subnet-segmentid-writable": Extension("Subnet SegmentID (writable)", "2019-01-26T00:00:00-00:00",
        "A subnet can be put on a segment later.", "PUT /v2.0/subnets/{}"),
    "subnet-service-types": Extension("Subnet service types", "2016-03-15T18:00:00-00:00",
        "Subnets can be for ports of some owners only."),
    "tag-creation": Extension("Tag creation extension", "2024-07-23T10:00:00-00:00",
        "Several tags are added at once.", "POST /v2.0/ports/{}/tags"),
    "tag-ports-during-bulk-creation": Extension("Tag Ports During Bulk Creation", "2019-12-29T19:00:00-00:00",
        "Ports are made with tags."),
}  # fmt: skip
"""By alias; those that are served are listed."""


COLLECTION = body_type("CollectionDocument", ("name", str), ("collection", str), SELF_LINKS, doc="One collection.")
COLLECTIONS_ANSWER = body_type("CollectionsAnswer", ("resources", list_of(COLLECTION)), doc="All collections.")


class ExtensionDocument(Struct, forbid_unknown_fields=True):
    """One extension."""

    alias: str
    name: str
    description: str
    updated: str
    links: list[Any] = []


def first_operations(described: Operations) -> Operations:
    """Return the operations that tell what there is. described: the others, by which extensions are served."""
    documents = {
        alias: copy_as(ExtensionDocument, item, alias=alias)
        for alias, item in sorted(served_extensions(described).items())
    }

    async def list_all(_request: Request) -> dict[str, list[ExtensionDocument]]:
        return {"extensions": list(documents.values())}

    async def show(request: Request) -> dict[str, ExtensionDocument]:
        alias = request.path_params["alias"]
        if alias not in documents:
            raise NotFound(f"Extension with alias {alias} does not exist")
        return {"extension": documents[alias]}

    collections = Operation(
        summary="the collections", endpoint=_collections, result=COLLECTIONS_ANSWER, needs_token=False
    )
    return {
        "/": {"GET": versions_operation("v2.0", "/v2.0/")},
        "/v2.0": {"GET": collections},
        "/v2.0/": {"GET": collections},
        "/v2.0/extensions": {
            "GET": Operation(
                summary="the extensions that clients may rely on",
                endpoint=list_all, result=answer("extensions", list[ExtensionDocument]),
            )
        },
        "/v2.0/extensions/{alias}": {
            "GET": Operation(summary="one of them", endpoint=show, result=answer("extension", ExtensionDocument))
        },
    }  # fmt: skip


async def _collections(request: Request) -> dict[str, Any]:
    return {
        "resources": [
            {"name": name, "collection": plural, "links": self_links(request, f"/v2.0/{plural}")}
            for plural, name in COLLECTIONS.items()
        ]
    }


def served_extensions(described: Operations) -> dict[str, Extension]:
    """Return alias -> extension, of the extensions that the described operations serve."""
    served = {f"{method} {re.sub('{[^}]*}', '{}', path)}" for path, methods in described.items() for method in methods}
    return {alias: item for alias, item in EXTENSIONS.items() if not item.operation or item.operation in served}
