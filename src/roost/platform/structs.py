"""Copies between structs that share fields, such as a body and its request, or a model and its document.

And the types of bodies that nobody writes code against.
"""

from functools import cache
from types import GenericAlias, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

S = TypeVar("S", bound=Struct)


def copy_as(kind: type[S], item: Struct, /, **computed: Any) -> S:
    """Return a struct of a kind: the fields of `item` with the same names, but for UNSET, and the computed ones.

    A field that is copied must have one type in both.
    """
    names = _shared(kind, type(item), frozenset(computed))
    copied = {name: value for name in names if (value := getattr(item, name)) is not UNSET}
    return kind(**copied, **computed)


@cache
def body_type(name: str, *fields: Any, doc: str | None = None) -> type[Any]:
    """Return the type of a body that nobody writes code against. fields: as msgspec.defstruct takes them."""
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True, namespace={"__doc__": doc})


def list_of(kind: Any) -> Any:
    """Return the type of a list of a kind that is only known at run time."""
    return GenericAlias(list, (kind,))


def with_changes(item: S, changes: Struct) -> S:
    """Return `item` with the fields of `changes` that it has too, but for those that are None: these stay.

    A field that is changed must have one type in both, beside None.
    """
    names = _shared(type(item), type(changes), none_stays=True)
    return replace(item, **{name: value for name in names if (value := getattr(changes, name)) is not None})


@cache
def _shared(
    kind: type[Struct], source: type[Struct], computed: frozenset[str] = frozenset(), *, none_stays: bool = False
) -> tuple[str, ...]:
    types, source_types = get_type_hints(kind), get_type_hints(source)
    names = tuple(name for name in source_types if name in types and name not in computed)
    for name in names:
        allowed, possible = _alternatives(types[name]), _alternatives(source_types[name])
        possible -= {NoneType} if none_stays else set()
        assert possible <= allowed, f"{kind.__name__}.{name} is {types[name]}, {source.__name__}'s {source_types[name]}"
    return names


def _alternatives(kind: Any) -> set[Any]:
    """Return the types that a union allows, without UnsetType; of a literal those of its values."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    literals = {type(value) for part in parts if get_origin(part) is Literal for value in get_args(part)}
    return {part for part in parts if get_origin(part) is not Literal} - {UnsetType} | literals
