"""Between rows and structs: a row has a struct's fields as columns, and as JSON those that are structs themselves.

A column that is an array becomes a tuple.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin

import msgspec

T = TypeVar("T")


def read_row(kind: type[T], row: Mapping[str, Any], /, *encoded: str, **others: Any) -> T:
    """Return the row as a struct. encoded: its columns of JSON. others: fields that are not as their columns."""
    fields = dict(row)
    for name in _arrays(cast(Any, kind)):
        if isinstance(fields.get(name), list):
            fields[name] = tuple(fields[name])
    for name in encoded:
        if fields[name] is not None:
            fields[name] = _decoder(cast(Any, kind), name).decode(fields[name])
    fields.update(others)
    return kind(**fields)


def encode(value: object) -> str:
    """Return the value as a column of JSON keeps it."""
    return msgspec.json.encode(value).decode()


def encode_or_null(value: object | None) -> str | None:
    """Return the value as a column of JSON keeps it, which may have none."""
    return None if value is None else encode(value)


def columns_of(rows: Iterable[Sequence[Any]], count: int = 0) -> list[list[Any]]:
    """Return the columns of some rows, as unnest takes them. count: how many there are, where there may be no row."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(count)]


@cache
def in_schema(template: str, schema: str) -> str:
    """Return a statement for the tables of one service. template: it, with {schema} in the place of their schema."""
    return template.replace("{schema}", schema)


@cache
def _arrays(kind: type) -> list[str]:
    """Return the fields that are tuples, or may be; looked at instead of every value of every row."""
    types = {field.name: (field.type, *get_args(field.type)) for field in msgspec.structs.fields(kind)}
    return [name for name, parts in types.items() if any(get_origin(part) is tuple for part in parts)]


@cache
def _decoder(kind: type, name: str) -> msgspec.json.Decoder[Any]:
    (field_type,) = (field.type for field in msgspec.structs.fields(kind) if field.name == name)
    return msgspec.json.Decoder(field_type)
