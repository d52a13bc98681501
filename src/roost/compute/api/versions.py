"""The version documents, by which clients learn the range of microversions."""

from typing import Any

from starlette.requests import Request

from roost.compute.api.answers import VersionAnswer, VersionsAnswer
from roost.compute.api.errors import MICROVERSIONS
from roost.platform.http import root_url, show
from roost.platform.operations import Operation, Operations

UPDATED = "2013-07-23T11:33:21Z"
"""Source: Nova's document for v2.1; clients only pass it on."""


def _document(request: Request) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": show(MICROVERSIONS.highest),
        "min_version": show(MICROVERSIONS.lowest),
        "updated": UPDATED,
        "links": [{"rel": "self", "href": f"{root_url(request)}/v2.1/"}],
    }


async def list_versions(request: Request) -> dict[str, Any]:
    """GET /"""
    return {"versions": [_document(request)]}


async def show_version(request: Request) -> dict[str, Any]:
    """GET /v2.1"""
    media_types = [{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}]
    return {"version": _document(request) | {"media-types": media_types}}


_VERSION = Operation(
    summary="the range of microversions", endpoint=show_version, result=VersionAnswer, needs_token=False
)
OPERATIONS: Operations = {
    "/": {
        "GET": Operation(
            summary="the version document", endpoint=list_versions, result=VersionsAnswer, needs_token=False
        )
    },
    "/v2.1": {"GET": _VERSION},
    "/v2.1/": {"GET": _VERSION},
}
