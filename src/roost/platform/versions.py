"""The version document of an API, which clients read first."""

from typing import Any

from starlette.requests import Request

from roost.platform.http import root_url
from roost.platform.operations import Operation
from roost.platform.structs import body_type, list_of

SELF_LINK = body_type("SelfLink", ("rel", str), ("href", str), doc="Where something is.")
SELF_LINKS = ("links", list_of(SELF_LINK))
VERSION = body_type("ApiVersion", ("id", str), ("status", str), SELF_LINKS, doc="One version of the API.")
VERSIONS = body_type("ApiVersions", ("versions", list_of(VERSION)), doc="What clients read first.")


def self_links(request: Request, path: str) -> list[dict[str, str]]:
    """Return the links of what is at a path below the API's root."""
    return [{"rel": "self", "href": root_url(request) + path}]


def versions_operation(version: str, path: str) -> Operation:
    """Return GET of the version document of an API with one version, which is at the path below the root."""

    async def show(request: Request) -> dict[str, Any]:
        return {"versions": [{"id": version, "status": "CURRENT", "links": self_links(request, path)}]}

    return Operation(summary="the version document", endpoint=show, result=VERSIONS, needs_token=False)
