"""A server's metadata and tags. Source: Compute API, "Server metadata", "Server tags"."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.access import access_of
from roost.compute.api.answers import MetadataAnswer, MetadataItemAnswer, TagsAnswer
from roost.compute.api.policies import MEMBER, READER
from roost.compute.api.requests import links, path_text, read_body
from roost.compute.api.server_bodies import METADATA, Key, Tags, Text
from roost.compute.errors import MetadataNotFound, TagNotFound
from roost.compute.model.server import Requester, Server
from roost.compute.service import Compute
from roost.compute.service import server_changes as service
from roost.platform.auth import Policy
from roost.platform.errors import BadRequest
from roost.platform.http import json_response
from roost.platform.operations import Operation, Operations, Rule

METADATA_RULE, TAGS_RULE = "os_compute_api:server-metadata:", "os_compute_api:os-server-tags:"
TAGS_FROM = (2, 26)


class MetadataBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Items of metadata."""

    metadata: METADATA


class MetadataItemBody(Struct, frozen=True, forbid_unknown_fields=True):
    """One item, which the path names too."""

    meta: Annotated[dict[Key, Text], Meta(min_length=1, max_length=1)]


class TagsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """All tags that a server is to have."""

    tags: Tags


class ServerAttributes:
    """The operations of metadata and tags."""

    def __init__(self, compute: Compute, policy: Policy) -> None:
        self.compute = compute
        self.policy = policy

    def operations(self) -> Operations:
        """Return them by path below /v2.1."""
        return {**self._metadata_operations(), **self._tag_operations()}

    def _metadata_operations(self) -> Operations:
        return {
            "/servers/{server_id}/metadata": {
                "GET": Operation(
                    summary="the server's metadata",
                    endpoint=_list_metadata,
                    rule=Rule(f"{METADATA_RULE}index", READER),
                    result=MetadataAnswer,
                ),
                "POST": Operation(
                    summary="add or replace some items",
                    endpoint=self._add_metadata,
                    rule=Rule(f"{METADATA_RULE}create", MEMBER),
                    body=MetadataBody,
                    result=MetadataAnswer,
                    errors=(403, 409),
                ),
                "PUT": Operation(
                    summary="replace all items",
                    endpoint=self._replace_metadata,
                    rule=Rule(f"{METADATA_RULE}update_all", MEMBER),
                    body=MetadataBody,
                    result=MetadataAnswer,
                    errors=(403, 409),
                ),
            },
            "/servers/{server_id}/metadata/{key}": {
                "GET": Operation(
                    summary="one item",
                    endpoint=_show_metadata,
                    rule=Rule(f"{METADATA_RULE}show", READER),
                    result=MetadataItemAnswer,
                ),
                "PUT": Operation(
                    summary="add or replace it",
                    endpoint=self._set_metadata,
                    rule=Rule(f"{METADATA_RULE}update", MEMBER),
                    body=MetadataItemBody,
                    result=MetadataItemAnswer,
                    errors=(403, 409),
                ),
                "DELETE": Operation(
                    summary="delete it",
                    endpoint=self._delete_metadata,
                    rule=Rule(f"{METADATA_RULE}delete", MEMBER),
                    status=204,
                    errors=(409,),
                ),
            },
        }

    def _tag_operations(self) -> Operations:
        return {
            "/servers/{server_id}/tags": {
                "GET": Operation(
                    summary="the server's tags",
                    endpoint=_list_tags,
                    rule=Rule(f"{TAGS_RULE}index", READER),
                    since=TAGS_FROM,
                    result=TagsAnswer,
                ),
                "PUT": Operation(
                    summary="replace all tags",
                    endpoint=self._replace_tags,
                    rule=Rule(f"{TAGS_RULE}update_all", MEMBER),
                    since=TAGS_FROM,
                    body=TagsBody,
                    result=TagsAnswer,
                    errors=(409,),
                ),
                "DELETE": Operation(
                    summary="delete all tags",
                    endpoint=self._delete_tags,
                    rule=Rule(f"{TAGS_RULE}delete_all", MEMBER),
                    since=TAGS_FROM,
                    status=204,
                    errors=(409,),
                ),
            },
            "/servers/{server_id}/tags/{tag}": {
                "GET": Operation(
                    summary="whether the server has the tag",
                    endpoint=_show_tag,
                    rule=Rule(f"{TAGS_RULE}show", READER),
                    since=TAGS_FROM,
                    status=204,
                ),
                "PUT": Operation(
                    summary="add the tag",
                    endpoint=self._add_tag,
                    rule=Rule(f"{TAGS_RULE}update", MEMBER),
                    since=TAGS_FROM,
                    status=201,
                    other_statuses=(204,),
                    errors=(409,),
                ),
                "DELETE": Operation(
                    summary="delete the tag",
                    endpoint=self._delete_tag,
                    rule=Rule(f"{TAGS_RULE}delete", MEMBER),
                    since=TAGS_FROM,
                    status=204,
                    errors=(409,),
                ),
            },
        }

    def _by(self, request: Request) -> Requester:
        return access_of(self.compute, self.policy, request).requester

    async def _add_metadata(self, request: Request) -> dict[str, Any]:
        return await self._write_metadata(request, replace=False)

    async def _replace_metadata(self, request: Request) -> dict[str, Any]:
        return await self._write_metadata(request, replace=True)

    async def _write_metadata(self, request: Request, *, replace: bool) -> dict[str, Any]:
        body, by = await read_body(request, MetadataBody), self._by(request)
        metadata = await service.set_metadata(
            self.compute,
            _server(request).id,
            body.metadata,
            replace=replace,
            may_be_locked=by.is_admin,
            by=by,
        )
        return {"metadata": metadata}

    async def _set_metadata(self, request: Request) -> dict[str, Any]:
        body = await read_body(request, MetadataItemBody)
        if path_text(request, "key") not in body.meta:
            raise BadRequest("Request body and URI mismatch")
        by = self._by(request)
        await service.set_metadata(
            self.compute,
            _server(request).id,
            body.meta,
            replace=False,
            may_be_locked=by.is_admin,
            by=by,
        )
        return {"meta": body.meta}

    async def _delete_metadata(self, request: Request) -> None:
        by = self._by(request)
        await service.delete_metadata(
            self.compute,
            _server(request).id,
            path_text(request, "key"),
            may_be_locked=by.is_admin,
            by=by,
        )

    async def _replace_tags(self, request: Request) -> dict[str, Any]:
        body = await read_body(request, TagsBody)
        tags = await service.set_tags(self.compute, _server(request).id, body.tags, self._by(request))
        return {"tags": tags}

    async def _delete_tags(self, request: Request) -> None:
        await service.set_tags(self.compute, _server(request).id, (), self._by(request))

    async def _add_tag(self, request: Request) -> Response:
        server, tag = _server(request), path_text(request, "tag")
        if not await service.add_tag(self.compute, server.id, tag, self._by(request)):
            return json_response(None, 204)
        where = links(request, "servers", server.id)[0]["href"]
        return json_response(None, 201, {"Location": f"{where}/tags/{tag}"})

    async def _delete_tag(self, request: Request) -> None:
        tag = path_text(request, "tag")
        await service.delete_tag(self.compute, _server(request).id, tag, self._by(request))


def _server(request: Request) -> Server:
    server: Server = request.state.server
    return server


async def _list_metadata(request: Request) -> dict[str, Any]:
    return {"metadata": _server(request).metadata}


async def _show_metadata(request: Request) -> dict[str, Any]:
    key, metadata = path_text(request, "key"), _server(request).metadata
    if key not in metadata:
        raise MetadataNotFound
    return {"meta": {key: metadata[key]}}


async def _list_tags(request: Request) -> dict[str, Any]:
    return {"tags": _server(request).tags}


async def _show_tag(request: Request) -> None:
    server, tag = _server(request), path_text(request, "tag")
    if tag not in server.tags:
        raise TagNotFound(f"Server {server.id} has no tag '{tag}'")
