"""Attributes of bodies: their types, described for the OpenAPI document, and how ids, numbers and projects are read.

A body is decoded by its types, whose refusals name a type. Ids, addresses and what is not served are read later, and
refused in the API's own words: their types only describe them in the document. Conditions on other attributes, or on
what exists, are not in the types.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import fields as struct_fields

from roost.network.errors import InvalidInput
from roost.network.model.networks import described
from roost.network.rules.links import NETWORK_TYPES
from roost.network.rules.tags import TAG_LENGTH_MAX, TAGS_MAX
from roost.platform.errors import BadRequest
from roost.platform.http import canonical_uuid, is_uuid

ITEMS_MAX = 1000
"""How many items any attribute lists: more than one may have, so that its own limit says how many are too many."""
Items = Meta(max_length=ITEMS_MAX)
NEUTRAL_BYTES_MAX = 64
"""A longer value asks for something."""

T = TypeVar("T")
Text = Annotated[str, Meta(max_length=255, pattern="^[^\x00]*$")]
AddressOrCidr = Annotated[Text, described(pattern="^([0-9A-Fa-f:.]{2,45}(/[0-9]{1,3})?)?$")]
MacAddress = Annotated[Text, described(pattern="^([0-9A-Fa-f][02468ACEace]([:-][0-9A-Fa-f]{2}){5})?$")]
NetworkType = Annotated[Text, described(enum=[*NETWORK_TYPES])]
SegmentationId = Annotated[int, Meta(ge=0)] | Annotated[str, Meta(pattern="^[0-9]{1,8}$")]
"""A number, or its digits, as `openstack network create` sends it."""
Tag = Annotated[str, described(minLength=1, maxLength=TAG_LENGTH_MAX, pattern="^[^\x00]+$")]
Tags = Annotated[list[Tag], Meta(max_length=TAGS_MAX), described(uniqueItems=True)]

# Attributes that Roost does not serve: not decoded, with the values that ask for nothing.
NoFlag = Annotated[Raw, described(enum=[False, None])] | UnsetType
NoText = Annotated[Raw, described(enum=["", None])] | UnsetType
NoList = Annotated[Raw, described(enum=[[], None])] | UnsetType
NoObject = Annotated[Raw, described(enum=[None, {}])] | UnsetType
NoMaximum = Annotated[Raw, described(enum=[-1, None])] | UnsetType
Nothing = Annotated[Raw, described(enum=[None])] | UnsetType


@cache
def neutral_values(kind: type[Struct]) -> dict[str, tuple[str, list[Any]]]:
    """Return the attributes that are not served: field -> (its name in the API, the values that ask for nothing)."""
    return {
        item.name: (item.encode_name, part.__metadata__[0].extra_json_schema["allOf"][0]["enum"])
        for item in struct_fields(kind)
        for part in get_args(item.type)
        if get_origin(part) is Annotated and get_args(part)[0] is Raw
    }


@cache
def attributes(kind: type[Struct]) -> Mapping[str, str]:
    """Return the attributes of a kind of document: the names that clients use -> the names of the struct's fields."""
    return {item.encode_name: item.name for item in struct_fields(kind)}


@cache
def booleans(kind: type[Struct]) -> frozenset[str]:
    """Return those attributes that are true or false, by the names that clients use."""
    return frozenset(item.encode_name for item in struct_fields(kind) if item.type is bool)


def parse_uuid(name: str, text: str) -> str:
    """Return the id, canonical; name: of the attribute. Raises InvalidInput."""
    if not is_uuid(text):
        raise InvalidInput(f"{name}: '{text[:64]}' is not a UUID.")
    return canonical_uuid(text)


def whole_number(number: int | str | None) -> int | None:
    """Return the number that clients may write in digits."""
    return None if number is None else int(number)


def parse_project(body: Any, default: T) -> str | T:
    """Return the owner: `project_id`, or `tenant_id`, its old name. Raises BadRequest if they differ."""
    projects = {project for project in (body.project_id, body.tenant_id) if project}
    if len(projects) > 1:
        raise BadRequest("'project_id' and 'tenant_id' do not match")
    return next(iter(projects), default)


def refuse_unserved(body: Struct) -> None:
    """Raise InvalidInput for an attribute that asks for what is not served.

    Clients send these with values that ask for nothing. The error names the first such value.
    """
    for name, (shown, values) in neutral_values(type(body)).items():
        raw = getattr(body, name)
        if raw is not UNSET and not _is_one_of(raw, values):
            neutral_text = msgspec.json.encode(values[0]).decode()
            raise InvalidInput(f"{shown}: Roost does not serve it: leave it out, or give {neutral_text}.")


def _is_one_of(raw: msgspec.Raw, values: Sequence[Any]) -> bool:
    if len(raw) > NEUTRAL_BYTES_MAX:
        return False
    try:
        decoded = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return any(type(decoded) is type(value) and decoded == value for value in values)
