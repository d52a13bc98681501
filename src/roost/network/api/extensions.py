"""What clients ask first: versions, collections, extensions."""

from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api.protocol import Operation, Operations
from roost.platform.errors import NotFound
from roost.platform.http import json_response, root_url

COLLECTIONS = {
    "networks": "network",
    "segments": "segment",
    "subnets": "subnet",
    "ports": "port",
    "network-ip-availabilities": "network-ip-availability",
    "quotas": "quota",
}
"""Collection -> what one of it is called."""

EXTENSIONS: dict[str, str] = {
    "binding": "Port Binding",
    "ip_allocation": "IP Allocation",
    "l2_adjacency": "L2 Adjacency",
    "multi-provider": "Multi Provider Network",
    "network-ip-availability": "Network IP Availability",
    "network-ip-availability-details": "Network IP Availability Details Extension",
    "pagination": "Pagination support",
    "project-id": "project_id field enabled",
    "provider": "Provider Network",
    "quota-check-limit": "Quota engine limit check",
    "quota_details": "Quota details management support",
    "quotas": "Quota management support",
    "revision-if-match": "If-Match constraints based on revision_number",
    "segment": "Segment",
    "sorting": "Sorting support",
    "standard-attr-description": "standard-attr-description",
    "standard-attr-revisions": "Resource revision numbers",
    "standard-attr-segment": "Standard Attr Extension for Segment",
    "standard-attr-timestamp": "Resource timestamps",
}
"""Alias -> name, of what is served."""


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


def first_operations() -> Operations:
    """Those that tell what there is."""
    collections = Operation(summary="the collections", endpoint=_collections, result=CollectionsAnswer)
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
                summary="the extensions that clients may rely on", endpoint=_extensions, result=ExtensionsAnswer
            )
        },
        "/v2.0/extensions/{alias}": {
            "GET": Operation(summary="one of them", endpoint=_extension, result=ExtensionAnswer)
        },
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


async def _extensions(_request: Request) -> Response:
    return json_response(ExtensionsAnswer([_shown(alias) for alias in sorted(EXTENSIONS)]))


async def _extension(request: Request) -> Response:
    alias = request.path_params["alias"]
    if alias not in EXTENSIONS:
        raise NotFound(f"Extension with alias {alias} does not exist")
    return json_response(ExtensionAnswer(_shown(alias)))


def _shown(alias: str) -> ExtensionDocument:
    name = EXTENSIONS[alias]
    return ExtensionDocument(alias=alias, name=name, description=name, updated="2026-01-01T00:00:00-00:00")
