"""Tags of networks, segments, subnets and ports over HTTP. Source: extensions standard-attr-tag and tag-creation."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api.fields import Tags
from roost.network.api.networks import NETWORK
from roost.network.api.ports import PORT
from roost.network.api.protocol import path_id
from roost.network.api.resources import Resource
from roost.network.api.segments import SEGMENT
from roost.network.api.subnets import SUBNET
from roost.network.errors import TagNotFound, TagResourceNotFound
from roost.network.rules import tags as rules
from roost.network.service import Networks
from roost.network.service import tags as service
from roost.platform.bodies import read_json
from roost.platform.http import json_response
from roost.platform.operations import Operation, Operations, Rule


class TagsEnvelope(Struct, forbid_unknown_fields=True):
    """Tags, as they are read and answered."""

    tags: Tags


def tag_operations(context: Networks) -> Operations:
    """Return the operations of all tags and of one, of every kind."""
    served: dict[str, dict[str, Operation]] = {}
    for resource in (NETWORK, SEGMENT, SUBNET, PORT):
        served[f"/v2.0/{resource.plural}/{{id}}/tags"] = _of_all(context, resource)
        served[f"/v2.0/{resource.plural}/{{id}}/tags/{{tag}}"] = _of_one(context, resource)
    return served


def _rule(verb: str, resource: Resource[Any]) -> Rule:
    """Return the rule of a resource's tags: who sees it sees them, who changes it changes them.

    Source: Neutron 29, which has not renamed that of segments'.
    """
    name = f"{verb}_segments_tags" if resource is SEGMENT else f"{verb}_{resource.name}:tags"
    return Rule(name, resource.defaults["get" if verb == "get" else "update"])


def _of_all(context: Networks, resource: Resource[Any]) -> dict[str, Operation]:
    async def show(request: Request) -> Response:
        return json_response({"tags": await _change(context, resource, request, tuple)})

    async def add(request: Request) -> Response:
        new = rules.replaced((await read_json(request, TagsEnvelope)).tags)
        tags = await _change(context, resource, request, lambda has: rules.added(has, new))
        return json_response({"tags": tags}, 201)

    async def replace(request: Request) -> Response:
        tags = rules.replaced((await read_json(request, TagsEnvelope)).tags)
        await _change(context, resource, request, lambda _has: tags)
        return json_response({"tags": tags})

    async def clear(request: Request) -> Response:
        await _change(context, resource, request, lambda _has: ())
        return Response(status_code=204)

    return {
        "GET": Operation(
            summary=f"the tags of the {resource.name}", endpoint=show, rule=_rule("get", resource), result=TagsEnvelope
        ),
        "POST": Operation(
            summary="add tags", endpoint=add, rule=_rule("create", resource), body=TagsEnvelope, status=201,
            result=TagsEnvelope,
        ),
        "PUT": Operation(
            summary="have these tags and no others", endpoint=replace, rule=_rule("update", resource),
            body=TagsEnvelope, result=TagsEnvelope,
        ),
        "DELETE": Operation(summary="have no tags", endpoint=clear, rule=_rule("delete", resource), status=204),
    }  # fmt: skip


def _of_one(context: Networks, resource: Resource[Any]) -> dict[str, Operation]:
    async def check(request: Request) -> Response:
        if request.path_params["tag"] not in await _change(context, resource, request, tuple):
            raise TagNotFound(f"Tag {request.path_params['tag']} could not be found.")
        return Response(status_code=204)

    async def add(request: Request) -> Response:
        new = rules.replaced([request.path_params["tag"]])
        await _change(context, resource, request, lambda has: rules.added(has, new))
        return Response(status_code=201)

    async def remove(request: Request) -> Response:
        tag = request.path_params["tag"]
        await _change(context, resource, request, lambda has: rules.removed(has, tag))
        return Response(status_code=204)

    return {
        "GET": Operation(summary="whether it has the tag", endpoint=check, rule=_rule("get", resource), status=204),
        "PUT": Operation(summary="have the tag", endpoint=add, rule=_rule("update", resource), status=201),
        "DELETE": Operation(summary="drop the tag", endpoint=remove, rule=_rule("delete", resource), status=204),
    }


async def _change(
    context: Networks, resource: Resource[Any], request: Request, decide: Callable[[service.Tags], Sequence[str]]
) -> service.Tags:
    return await service.change_tags(context, resource.name, _id(request, resource), decide)


def _id(request: Request, resource: Resource[Any]) -> str:
    return path_id(request, f"Resource {resource.plural}", TagResourceNotFound)
