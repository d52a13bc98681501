"""What clients ask first: versions, collections, extensions."""

import re
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.platform.errors import NotFound
from roost.platform.http import json_response, root_url
from roost.platform.operations import Operation, Operations

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


class Extension(Struct, frozen=True, kw_only=True):
    """Something that clients may rely on. operation: the one without which it is not listed; "" where all are about it.

    Source of names and dates: the upstream extensions of these aliases.
    """

    name: str
    description: str
    updated: str
    operation: str = ""


EXTENSIONS: dict[str, Extension] = {
    "agent": Extension(
        name="agent",
        description="The agents of hosts are listed; nobody changes them here.",
        updated="2013-02-03T10:00:00-00:00",
        operation="GET /v2.0/agents",
    ),
    "availability_zone": Extension(
        name="Availability Zone",
        description="The one availability zone is listed.",
        updated="2015-01-01T10:00:00-00:00",
        operation="GET /v2.0/availability_zones",
    ),
    "binding": Extension(
        name="Port Binding",
        description="Ports are bound to hosts, and say how their guests are plugged in there.",
        updated="2014-02-03T10:00:00-00:00",
    ),
    "binding-extended": Extension(
        name="Port Bindings Extended",
        description="A port has several bindings, of which one is active.",
        updated="2017-07-17T10:00:00-00:00",
        operation="POST /v2.0/ports/{}/bindings",
    ),
    "empty-string-filtering": Extension(
        name="Empty String Filtering Extension",
        description="An empty filter finds what has an empty value.",
        updated="2018-05-01T10:00:00-00:00",
    ),
    "external-net": Extension(
        name="Neutron external network",
        description="Networks say whether they lead outside.",
        updated="2013-01-14T10:00:00-00:00",
    ),
    "filter-validation": Extension(
        name="Filter parameters validation",
        description="Filters by what there is not are refused.",
        updated="2018-07-04T10:00:00-00:00",
    ),
    "ip-substring-filtering": Extension(
        name="IP address substring filtering",
        description="Ports are found by a part of their address.",
        updated="2017-11-28T09:00:00-00:00",
    ),
    "ip_allocation": Extension(
        name="IP Allocation",
        description="Ports say whether their address is immediate, deferred until they are bound, or none.",
        updated="2016-06-10T23:00:00-00:00",
    ),
    "l2_adjacency": Extension(
        name="L2 Adjacency",
        description="Networks say whether all of their ports are on one segment.",
        updated="2016-04-12T16:00:00-00:00",
    ),
    "multi-provider": Extension(
        name="Multi Provider Network",
        description="A network is made with several segments.",
        updated="2013-06-27T10:00:00-00:00",
    ),
    "net-mtu": Extension(
        name="Network MTU",
        description="Networks show their MTU.",
        updated="2015-03-25T10:00:00-00:00",
    ),
    "net-mtu-writable": Extension(
        name="Network MTU (writable)",
        description="The MTU of a network is set by who makes or changes it.",
        updated="2017-07-12T00:00:00-00:00",
    ),
    "network-ip-availability": Extension(
        name="Network IP Availability",
        description="How many addresses networks and their subnets have, and how many are used.",
        updated="2015-09-24T00:00:00-00:00",
        operation="GET /v2.0/network-ip-availabilities",
    ),
    "network-ip-availability-details": Extension(
        name="Network IP Availability Details Extension",
        description="The same, in pools and outside.",
        updated="2025-10-31T00:00:00-00:00",
        operation="GET /v2.0/network-ip-availabilities",
    ),
    "pagination": Extension(
        name="Pagination support",
        description="Lists come in pages.",
        updated="2016-06-12T00:00:00-00:00",
    ),
    "project-id": Extension(
        name="project_id field enabled",
        description="Projects are called project_id.",
        updated="2016-09-09T09:09:09-09:09",
    ),
    "provider": Extension(
        name="Provider Network",
        description="Networks show what carries them.",
        updated="2012-09-07T10:00:00-00:00",
    ),
    "quota-check-limit": Extension(
        name="Quota engine limit check",
        description="A quota below what is used can be refused.",
        updated="2021-09-08T16:00:00-00:00",
        operation="PUT /v2.0/quotas/{}",
    ),
    "quota_details": Extension(
        name="Quota details management support",
        description="Quotas with what is used of them.",
        updated="2017-02-10T10:00:00-00:00",
        operation="GET /v2.0/quotas/{}",
    ),
    "quotas": Extension(
        name="Quota management support",
        description="How many networks, subnets and ports a project may have.",
        updated="2012-07-29T10:00:00-00:00",
        operation="GET /v2.0/quotas",
    ),
    "revision-if-match": Extension(
        name="If-Match constraints based on revision_number",
        description="Changes and deletes can insist on the revision that was read.",
        updated="2016-12-11T00:00:00-00:00",
    ),
    "segment": Extension(
        name="Segment",
        description="Networks have segments, each with its hosts and subnets.",
        updated="2016-02-24T17:00:00-00:00",
        operation="GET /v2.0/segments",
    ),
    "segments-peer-subnet-host-routes": Extension(
        name="Segments peer-subnet host routes",
        description="Subnets of a routed network have routes to each other.",
        updated="2018-06-12T10:00:00-00:00",
    ),
    "sorting": Extension(
        name="Sorting support",
        description="Lists come in the order that is asked for.",
        updated="2016-06-12T00:00:00-00:00",
    ),
    "standard-attr-description": Extension(
        name="standard-attr-description",
        description="Everything has a description.",
        updated="2016-02-10T10:00:00-00:00",
    ),
    "standard-attr-revisions": Extension(
        name="Resource revision numbers",
        description="Everything has a number that grows with its changes.",
        updated="2016-04-11T10:00:00-00:00",
    ),
    "standard-attr-segment": Extension(
        name="Standard Attr Extension for Segment",
        description="Segments have what everything has.",
        updated="2017-01-01T00:00:00-00:00",
    ),
    "standard-attr-tag": Extension(
        name="Tag support for resources with standard attribute: network, segment, subnet, port",
        description="Networks, segments, subnets and ports have tags.",
        updated="2017-01-01T00:00:00-00:00",
        operation="PUT /v2.0/ports/{}/tags",
    ),
    "standard-attr-timestamp": Extension(
        name="Resource timestamps",
        description="Everything says when it was made and changed.",
        updated="2016-09-12T10:00:00-00:00",
    ),
    "subnet-segmentid-writable": Extension(
        name="Subnet SegmentID (writable)",
        description="A subnet can be put on a segment later.",
        updated="2019-01-26T00:00:00-00:00",
        operation="PUT /v2.0/subnets/{}",
    ),
    "subnet-service-types": Extension(
        name="Subnet service types",
        description="Subnets can be for ports of some owners only.",
        updated="2016-03-15T18:00:00-00:00",
    ),
    "tag-creation": Extension(
        name="Tag creation extension",
        description="Several tags are added at once.",
        updated="2024-07-23T10:00:00-00:00",
        operation="POST /v2.0/ports/{}/tags",
    ),
    "tag-ports-during-bulk-creation": Extension(
        name="Tag Ports During Bulk Creation",
        description="Ports are made with tags.",
        updated="2019-12-29T19:00:00-00:00",
    ),
}
"""By alias; those that are served are listed."""


class SelfLink(Struct, forbid_unknown_fields=True):
    """Where something is."""

    rel: str
    href: str


class VersionDocument(Struct, forbid_unknown_fields=True):
    """One version of the API."""

    id: str
    status: str
    links: list[SelfLink]


class VersionsAnswer(Struct, forbid_unknown_fields=True):
    """All versions."""

    versions: list[VersionDocument]


class CollectionDocument(Struct, forbid_unknown_fields=True):
    """One collection."""

    name: str
    collection: str
    links: list[SelfLink]


class CollectionsAnswer(Struct, forbid_unknown_fields=True):
    """All collections."""

    resources: list[CollectionDocument]


class ExtensionDocument(Struct, forbid_unknown_fields=True):
    """One extension."""

    alias: str
    name: str
    description: str
    updated: str
    links: list[Any] = []


class ExtensionAnswer(Struct, forbid_unknown_fields=True):
    """One extension."""

    extension: ExtensionDocument


class ExtensionsAnswer(Struct, forbid_unknown_fields=True):
    """All extensions."""

    extensions: list[ExtensionDocument]


def first_operations(described: Operations) -> Operations:
    """Those that tell what there is. described: the others, by which extensions are known to be served."""
    served = served_extensions(described)

    async def list_all(_request: Request) -> Response:
        return json_response(ExtensionsAnswer([_shown(alias, served[alias]) for alias in sorted(served)]))

    async def show(request: Request) -> Response:
        alias = request.path_params["alias"]
        if alias not in served:
            raise NotFound(f"Extension with alias {alias} does not exist")
        return json_response(ExtensionAnswer(_shown(alias, served[alias])))

    collections = Operation(
        summary="the collections", endpoint=_collections, result=CollectionsAnswer, needs_token=False
    )
    return {
        "/": {
            "GET": Operation(
                summary="the version document", endpoint=_versions, result=VersionsAnswer, needs_token=False
            )
        },
        "/v2.0": {"GET": collections},
        "/v2.0/": {"GET": collections},
        "/v2.0/extensions": {
            "GET": Operation(
                summary="the extensions that clients may rely on", endpoint=list_all, result=ExtensionsAnswer
            )
        },
        "/v2.0/extensions/{alias}": {"GET": Operation(summary="one of them", endpoint=show, result=ExtensionAnswer)},
    }


async def _versions(request: Request) -> Response:
    links = [SelfLink(rel="self", href=f"{root_url(request)}/v2.0/")]
    return json_response(VersionsAnswer([VersionDocument(id="v2.0", status="CURRENT", links=links)]))


async def _collections(request: Request) -> Response:
    root = f"{root_url(request)}/v2.0"
    shown = [
        CollectionDocument(name=name, collection=many, links=[SelfLink(rel="self", href=f"{root}/{many}")])
        for many, name in COLLECTIONS.items()
    ]
    return json_response(CollectionsAnswer(shown))


def served_extensions(described: Operations) -> dict[str, Extension]:
    """Those extensions whose operation is among the described, by alias."""
    served = {f"{method} {re.sub('{[^}]*}', '{}', path)}" for path, methods in described.items() for method in methods}
    return {alias: item for alias, item in EXTENSIONS.items() if not item.operation or item.operation in served}


def _shown(alias: str, item: Extension) -> ExtensionDocument:
    return ExtensionDocument(alias=alias, name=item.name, description=item.description, updated=item.updated)
