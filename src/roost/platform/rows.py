"""Between rows and structs: a row has a struct's fields as columns, and as JSON those that are structs themselves.

A column that is an array becomes a tuple.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")


def read_row(kind: type[T], row: Mapping[str, Any], /, *encoded: str, **others: Any) -> T:
    """Return the row as a struct. encoded: its columns of JSON. others: fields that are not as their columns."""
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    fields |= {name: _decoder(cast(Any, kind), name).decode(row[name]) for name in encoded if row[name] is not None}
    return kind(**fields | others)


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
def _decoder(kind: type, name: str) -> msgspec.json.Decoder[Any]:
    (field_type,) = (field.type for field in msgspec.structs.fields(kind) if field.name == name)
    return msgspec.json.Decoder(field_type)
