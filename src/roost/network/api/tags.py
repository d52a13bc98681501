"""Tags of networks, segments, subnets and ports over HTTP. Source: extensions standard-attr-tag and tag-creation."""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from starlette.requests import Request

from roost.network.api.fields import Tags
from roost.network.api.networks import NETWORK
from roost.network.api.ports import PORT
from roost.network.api.resources import AnyResource
from roost.network.api.segments import SEGMENT
from roost.network.api.subnets import SUBNET
from roost.network.errors import TagResourceNotFound
from roost.network.rules import tags as rules
from roost.network.service import Networks
from roost.network.service import tags as service
from roost.platform.bodies import read_json
from roost.platform.operations import Operation, Operations, Rule


class TagsEnvelope(Struct, forbid_unknown_fields=True):
    """Tags, as they are read and answered."""

    tags: Tags


class TagMethod(Struct, frozen=True):
    """What one method does to all tags of a resource, or to one.

    verb: of its policy rule. decide: (the present tags, those that the request names) -> the tags from now on.
    adds: the tags that the request names are checked before the resource is looked for.
    """

    summary: str
    verb: str
    decide: Callable[[service.Tags, service.Tags], Sequence[str]]
    status: int = 200
    adds: bool = False


METHODS = {
    "tags": {
        "GET": TagMethod("the tags of the {}", "get", lambda has, _: has),
        "POST": TagMethod("add tags", "create", rules.added, status=201, adds=True),
        "PUT": TagMethod("have these tags and no others", "update", lambda _, new: new, adds=True),
        "DELETE": TagMethod("have no tags", "delete", lambda _has, _named: (), status=204),
    },
    "tags/{tag}": {
        "GET": TagMethod("whether it has the tag", "get", lambda has, named: _check(has, *named), status=204),
        "PUT": TagMethod("have the tag", "update", rules.added, status=201, adds=True),
        "DELETE": TagMethod("drop the tag", "delete", lambda has, named: rules.removed(has, *named), status=204),
    },
}
"""Path below a resource -> method -> what it does."""


def tag_operations(context: Networks) -> Operations:
    """Return the operations of tags, all and single ones, of networks, segments, subnets and ports."""
    return {
        f"/v2.0/{resource.plural}/{{id}}/{path}": {
            method: _operation(context, resource, does, of_all=path == "tags") for method, does in methods.items()
        }
        for resource in (NETWORK, SEGMENT, SUBNET, PORT)
        for path, methods in METHODS.items()
    }


def _operation(context: Networks, resource: AnyResource, does: TagMethod, *, of_all: bool) -> Operation:
    reads, shows = of_all and does.adds, of_all and does.status != 204

    async def serve(request: Request) -> dict[str, service.Tags] | None:
        named: tuple[str, ...] = () if of_all else (request.path_params["tag"],)
        if reads:
            named = tuple((await read_json(request, TagsEnvelope)).tags)
        if does.adds:
            named = rules.replaced(named)
        resource_id = resource.id_of(request, partial(TagResourceNotFound, resource.plural))
        tags = await service.change_tags(context, resource.name, resource_id, lambda has: does.decide(has, named))
        return {"tags": tags} if shows else None

    return Operation(
        summary=does.summary.format(resource.name), endpoint=serve, rule=_rule(does.verb, resource),
        body=TagsEnvelope if reads else None, status=does.status, result=TagsEnvelope if shows else None,
    )  # fmt: skip


def _rule(verb: str, resource: AnyResource) -> Rule:
    """Return the rule of a resource's tags: who sees it sees them, who changes it changes them.

    Source: Neutron 29, which has not renamed that of segments'.
    """
    name = f"{verb}_segments_tags" if resource is SEGMENT else f"{verb}_{resource.name}:tags"
    return Rule(name, resource.defaults["get" if verb == "get" else "update"])


def _check(has: service.Tags, tag: str) -> service.Tags:
    """Return the tags as they are. Raises TagNotFound when `tag` is none of them."""
    rules.removed(has, tag)
    return has
