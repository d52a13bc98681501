"""What bodies have in common: texts, tags of segments, ids, and what is refused by name, never silently dropped."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from roost.network.errors import InvalidInput
from roost.network.rules.links import SEGMENTATION_ID_MAX
from roost.platform.errors import BadRequest
from roost.platform.http import canonical_uuid, is_uuid

Text = Annotated[str, Meta(max_length=255, pattern="^[^\x00]*$")]
SegmentationId = Annotated[int, Meta(ge=0)] | Annotated[str, Meta(pattern="^[0-9]{1,8}$")]
"""A number, or its digits, as `openstack network create` sends it."""
T = TypeVar("T")

ITEMS_MAX = 1000
"""How many an attribute lists: more than any may have, so that what there may be of it says how many are too many."""
Items = Meta(max_length=ITEMS_MAX)
BULK_MAX = 500
"""How many of one kind are made by one request."""
PARTS_MAX = 10_000
"""How many of one attribute's items all that are made by one request have together."""

Unserved = msgspec.Raw | UnsetType
"""What Roost has no use for: passed over as it is read, whatever it is made of."""
NEUTRAL_BYTES_MAX = 64
"""What is longer asks for something."""


def said(given: T | UnsetType) -> T | None:
    """What a change says; None for what it leaves out."""
    return None if given is UNSET else given


def parse_uuid(name: str, text: str) -> str:
    """The id, canonical; name: of the attribute. Raises InvalidInput."""
    if not is_uuid(text):
        raise InvalidInput(f"{name}: '{text[:64]}' is not a UUID.")
    return canonical_uuid(text)


def parse_segmentation_id(given: int | str | None) -> int | None:
    """As a number. Raises InvalidInput."""
    if given is None:
        return None
    if int(given) > SEGMENTATION_ID_MAX:
        raise InvalidInput(f"segmentation_id {given}: expected at most {SEGMENTATION_ID_MAX}.")
    return int(given)


def refuse_many(name: str, lists: Iterable[Sequence[object] | None]) -> None:
    """Raise InvalidInput where the lists of all that one request makes have too many items together."""
    count = sum(len(items) for items in lists if items is not None)
    if count > PARTS_MAX:
        raise InvalidInput(f"{name}: one request makes at most {PARTS_MAX} of them, {count} are too many.")


def refuse_unserved(body: Struct, neutral: Mapping[str, Sequence[Any]]) -> None:
    """Raise InvalidInput for an attribute that asks for what is not served.

    neutral: attribute, as the body's struct calls it, Unserved there -> the values that ask for nothing; the first is
    what is said to be served. Clients send these unasked; UNSET, for what they leave out, is one of every attribute.
    """
    for name, values in neutral.items():
        given = getattr(body, name)
        if given is not UNSET and not _is_one_of(given, values):
            shown = next(item.encode_name for item in msgspec.structs.fields(body) if item.name == name)
            neutral_text = msgspec.json.encode(values[0]).decode()
            raise InvalidInput(f"{shown}: Roost does not serve it: leave it out, or give {neutral_text}.")


def _is_one_of(given: msgspec.Raw, values: Sequence[Any]) -> bool:
    if len(given) > NEUTRAL_BYTES_MAX:
        return False
    try:
        asked = msgspec.json.decode(given)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return any(type(asked) is type(value) and asked == value for value in values)


def parse_project(body: Any, default: str) -> str:
    """Whose it is to be: `project_id`, or `tenant_id`, as it was called. Raises BadRequest where they differ."""
    given = {project for project in (body.project_id, body.tenant_id) if project}
    if len(given) > 1:
        raise BadRequest("'project_id' and 'tenant_id' do not match")
    return next(iter(given), default)
