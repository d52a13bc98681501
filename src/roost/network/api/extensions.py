"""What clients ask first: versions, collections, extensions."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from starlette.requests import Request

from roost.network.api.resources import answer
from roost.platform.errors import NotFound
from roost.platform.operations import Operation, Operations
from roost.platform.structs import body_type, list_of
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


class Extension(Struct, forbid_unknown_fields=True):
    """One extension, on which clients may rely."""

    alias: str
    name: str
    updated: str
    description: str
    links: list[Any] = []


# Source of names and dates: the upstream extensions of these aliases.
EXTENSIONS = (
    Extension("agent", "agent", "2013-02-03T10:00:00-00:00",
        "The agents of hosts are listed; nobody changes them here."),
    Extension("allowed-address-pairs", "Allowed Address Pairs", "2013-07-23T10:00:00-00:00",
        "A port's guest may use other addresses beside the port's own."),
    Extension("availability_zone", "Availability Zone", "2015-01-01T10:00:00-00:00",
        "The one availability zone is listed."),
    Extension("binding", "Port Binding", "2014-02-03T10:00:00-00:00",
        "Ports are bound to hosts, and say how their guests are plugged in there."),
    Extension("binding-extended", "Port Bindings Extended", "2017-07-17T10:00:00-00:00",
        "A port has several bindings, of which one is active."),
    Extension("empty-string-filtering", "Empty String Filtering Extension", "2018-05-01T10:00:00-00:00",
        "An empty filter finds what has an empty value."),
    Extension("external-net", "Neutron external network", "2013-01-14T10:00:00-00:00",
        "Networks say whether they lead outside."),
    Extension("filter-validation", "Filter parameters validation", "2018-07-04T10:00:00-00:00",
        "Filters by what there is not are refused."),
    Extension("ip-substring-filtering", "IP address substring filtering", "2017-11-28T09:00:00-00:00",
        "Ports are found by a part of their address."),
    Extension("ip_allocation", "IP Allocation", "2016-06-10T23:00:00-00:00",
        "Ports say whether their address is immediate, deferred until they are bound, or none."),
    Extension("l2_adjacency", "L2 Adjacency", "2016-04-12T16:00:00-00:00",
        "Networks say whether all of their ports are on one segment."),
    Extension("multi-provider", "Multi Provider Network", "2013-06-27T10:00:00-00:00",
        "A network is made with several segments."),
    Extension("net-mtu", "Network MTU", "2015-03-25T10:00:00-00:00", "Networks show their MTU."),
    Extension("net-mtu-writable", "Network MTU (writable)", "2017-07-12T00:00:00-00:00",
        "The MTU of a network is set by who makes or changes it."),
    Extension("network-ip-availability", "Network IP Availability", "2015-09-24T00:00:00-00:00",
        "How many addresses networks and their subnets have, and how many are used."),
    Extension("network-ip-availability-details", "Network IP Availability Details Extension",
        "2025-10-31T00:00:00-00:00", "The same, in pools and outside."),
    Extension("pagination", "Pagination support", "2016-06-12T00:00:00-00:00", "Lists come in pages."),
    Extension("port-security", "Port Security", "2012-07-23T10:00:00-00:00",
        "What a guest sends is held to its port's addresses, unless its owner says otherwise."),
    Extension("project-id", "project_id field enabled", "2016-09-09T09:09:09-09:09", "Projects are called project_id."),
    Extension("provider", "Provider Network", "2012-09-07T10:00:00-00:00", "Networks show what carries them."),
    Extension("quota-check-limit", "Quota engine limit check", "2021-09-08T16:00:00-00:00",
        "A quota below what is used can be refused."),
    Extension("quota_details", "Quota details management support", "2017-02-10T10:00:00-00:00",
        "Quotas with what is used of them."),
    Extension("quotas", "Quota management support", "2012-07-29T10:00:00-00:00",
        "How many networks, subnets and ports a project may have."),
    Extension("revision-if-match", "If-Match constraints based on revision_number", "2016-12-11T00:00:00-00:00",
        "Changes and deletes can insist on the revision that was read."),
    Extension("segment", "Segment", "2016-02-24T17:00:00-00:00",
        "Networks have segments, each with its hosts and subnets."),
    Extension("segments-peer-subnet-host-routes", "Segments peer-subnet host routes", "2018-06-12T10:00:00-00:00",
        "Subnets of a routed network have routes to each other."),
    Extension("sorting", "Sorting support", "2016-06-12T00:00:00-00:00", "Lists come in the order that is asked for."),
    Extension("standard-attr-description", "standard-attr-description", "2016-02-10T10:00:00-00:00",
        "Everything has a description."),
    Extension("standard-attr-revisions", "Resource revision numbers", "2016-04-11T10:00:00-00:00",
        "Everything has a number that grows with its changes."),
    Extension("standard-attr-segment", "Standard Attr Extension for Segment", "2017-01-01T00:00:00-00:00",
        "Segments have what everything has."),
    Extension("standard-attr-tag", "Tag support for resources with standard attribute: network, segment, subnet, port",
        "2017-01-01T00:00:00-00:00", "Networks, segments, subnets and ports have tags."),
    Extension("standard-attr-timestamp", "Resource timestamps", "2016-09-12T10:00:00-00:00",
        "Everything says when it was made and changed."),
    Extension("subnet-segmentid-writable", "Subnet SegmentID (writable)", "2019-01-26T00:00:00-00:00",
        "A subnet can be put on a segment later."),
    Extension("subnet-service-types", "Subnet service types", "2016-03-15T18:00:00-00:00",
        "Subnets can be for ports of some owners only."),
    Extension("tag-creation", "Tag creation extension", "2024-07-23T10:00:00-00:00",
        "Several tags are added at once."),
    Extension("tag-ports-during-bulk-creation", "Tag Ports During Bulk Creation", "2019-12-29T19:00:00-00:00",
        "Ports are made with tags."),
)  # fmt: skip


COLLECTION = body_type("CollectionDocument", ("name", str), ("collection", str), SELF_LINKS, doc="One collection.")
COLLECTIONS_ANSWER = body_type("CollectionsAnswer", ("resources", list_of(COLLECTION)), doc="All collections.")


def first_operations() -> Operations:
    """Return the operations that tell what there is."""

    async def list_all(_request: Request) -> dict[str, Sequence[Extension]]:
        return {"extensions": EXTENSIONS}

    async def show(request: Request) -> dict[str, Extension]:
        alias = request.path_params["alias"]
        for extension in EXTENSIONS:
            if extension.alias == alias:
                return {"extension": extension}
        raise NotFound(f"Extension with alias {alias} does not exist")

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
                endpoint=list_all, result=answer("extensions", list[Extension]),
            )
        },
        "/v2.0/extensions/{alias}": {
            "GET": Operation(summary="one of them", endpoint=show, result=answer("extension", Extension))
        },
    }  # fmt: skip


async def _collections(request: Request) -> dict[str, Any]:
    return {
        "resources": [
            {"name": name, "collection": plural, "links": self_links(request, f"/v2.0/{plural}")}
            for plural, name in COLLECTIONS.items()
        ]
    }
