"""Tags of networks, segments, subnets and ports over HTTP. Source: extensions standard-attr-tag and tag-creation."""

from collections.abc import Mapping

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api.fields import Tags
from roost.network.api.policies import ADMIN, OWN, OWN_OR_NETWORK, SEEN_NETWORK, SEEN_PORT, SEEN_SUBNET
from roost.network.api.protocol import path_id
from roost.network.errors import TagNotFound, TagResourceNotFound
from roost.network.model.networks import Kind
from roost.network.rules import tags as rules
from roost.network.service import Networks
from roost.network.service import tags as service
from roost.platform.bodies import read_json
from roost.platform.http import json_response
from roost.platform.operations import Operation, Operations, Rule

DEFAULTS: Mapping[Kind, tuple[str, str]] = {
    "network": (SEEN_NETWORK, OWN),
    "segment": (ADMIN, ADMIN),
    "subnet": (SEEN_SUBNET, OWN_OR_NETWORK),
    "port": (SEEN_PORT, OWN),
}
"""By kind, the defaults of the rules that are asked to see its tags and to change them."""


class TagsEnvelope(Struct, forbid_unknown_fields=True):
    """Tags, as they are read and answered."""

    tags: Tags


def tag_operations(context: Networks) -> Operations:
    """Return the operations of all tags and of one, of every kind."""
    served: dict[str, dict[str, Operation]] = {}
    for kind in DEFAULTS:
        served[f"/v2.0/{kind}s/{{id}}/tags"] = _of_all(context, kind)
        served[f"/v2.0/{kind}s/{{id}}/tags/{{tag}}"] = _of_one(context, kind)
    return served


def _rule(verb: str, kind: Kind) -> Rule:
    """Return the rule of a kind's tags. Source: Neutron 29, which has not renamed that of segments'."""
    seen_by, changed_by = DEFAULTS[kind]
    name = f"{verb}_segments_tags" if kind == "segment" else f"{verb}_{kind}:tags"
    return Rule(name, seen_by if verb == "get" else changed_by)


def _of_all(context: Networks, kind: Kind) -> dict[str, Operation]:
    async def show(request: Request) -> Response:
        return json_response({"tags": await service.get_tags(context, kind, _id(request, kind))})

    async def add(request: Request) -> Response:
        body = await read_json(request, TagsEnvelope)
        new = rules.replaced(body.tags)
        has = await service.change_tags(context, kind, _id(request, kind), lambda has: rules.added(has, new))
        return json_response({"tags": has}, 201)

    async def replace(request: Request) -> Response:
        body = await read_json(request, TagsEnvelope)
        tags = rules.replaced(body.tags)
        await service.change_tags(context, kind, _id(request, kind), lambda _has: tags)
        return json_response({"tags": tags})

    async def clear(request: Request) -> Response:
        await service.change_tags(context, kind, _id(request, kind), lambda _has: ())
        return Response(status_code=204)

    return {
        "GET": Operation(
            summary=f"the tags of the {kind}", endpoint=show, rule=_rule("get", kind), result=TagsEnvelope
        ),
        "POST": Operation(
            summary="add tags", endpoint=add, rule=_rule("create", kind), body=TagsEnvelope, status=201,
            result=TagsEnvelope,
        ),
        "PUT": Operation(
            summary="have these tags and no others", endpoint=replace, rule=_rule("update", kind), body=TagsEnvelope,
            result=TagsEnvelope,
        ),
        "DELETE": Operation(summary="have no tags", endpoint=clear, rule=_rule("delete", kind), status=204),
    }  # fmt: skip


def _of_one(context: Networks, kind: Kind) -> dict[str, Operation]:
    async def check(request: Request) -> Response:
        if request.path_params["tag"] not in await service.get_tags(context, kind, _id(request, kind)):
            raise TagNotFound(f"Tag {request.path_params['tag']} could not be found.")
        return Response(status_code=204)

    async def add(request: Request) -> Response:
        new = rules.replaced([request.path_params["tag"]])
        await service.change_tags(context, kind, _id(request, kind), lambda has: rules.added(has, new))
        return Response(status_code=201)

    async def remove(request: Request) -> Response:
        tag = request.path_params["tag"]
        await service.change_tags(context, kind, _id(request, kind), lambda has: rules.removed(has, tag))
        return Response(status_code=204)

    return {
        "GET": Operation(summary="whether it has the tag", endpoint=check, rule=_rule("get", kind), status=204),
        "PUT": Operation(summary="have the tag", endpoint=add, rule=_rule("update", kind), status=201),
        "DELETE": Operation(summary="drop the tag", endpoint=remove, rule=_rule("delete", kind), status=204),
    }


def _id(request: Request, kind: Kind) -> str:
    return path_id(request, f"Resource {kind}s", TagResourceNotFound)
