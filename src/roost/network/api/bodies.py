"""Reads attributes of bodies: ids, numbers, projects. Those that are not served are refused, never dropped."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from roost.network.api.fields import neutral_values
from roost.network.errors import InvalidInput
from roost.platform.errors import BadRequest
from roost.platform.http import canonical_uuid, is_uuid

T = TypeVar("T")

PARTS_MAX = 10_000
"""How many items of one attribute the bodies of one request may have together."""
NEUTRAL_BYTES_MAX = 64
"""A longer value asks for something."""


def value_or_none(value: T | UnsetType) -> T | None:
    """Return the value of a change; None if it is left out."""
    return None if value is UNSET else value


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


def refuse_many(name: str, lists: Iterable[Sequence[object] | None]) -> None:
    """Raise InvalidInput if the lists of all bodies of a request have too many items together."""
    count = sum(len(items) for items in lists if items is not None)
    if count > PARTS_MAX:
        raise InvalidInput(f"{name}: one request makes at most {PARTS_MAX} of them, {count} are too many.")


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
