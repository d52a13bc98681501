"""What two structs share is copied where the types allow it."""

from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Meta, Struct, UnsetType

from roost.platform.structs import copy_as, with_changes

Text = Annotated[str, Meta(max_length=255)]
Uuid = Annotated[str, Meta(extra_json_schema={"format": "uuid"})]


class Model(Struct, kw_only=True):
    name: str | None = None
    size: int = 7
    tags: tuple[str, ...] = ()


class Body(Struct, kw_only=True):
    name: Text | UnsetType | None = UNSET
    size: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    other: str = "is nobody else's"


@pytest.mark.parametrize(
    ("body", "computed", "copied"),
    [
        (Body(), {}, Model()),
        (Body(name=None), {}, Model(name=None)),
        (Body(name="a", size=3), {}, Model(name="a", size=3)),
        (Body(name="a", size=3), {"name": "b", "tags": ("c",)}, Model(name="b", size=3, tags=("c",))),
    ],
)
def test_what_two_structs_share_is_copied_unless_it_is_left_out_or_computed(
    body: Body, computed: dict[str, Any], copied: Model
) -> None:
    assert copy_as(Model, body, **computed) == copied


@pytest.mark.parametrize(
    ("wanted", "source", "allowed"),
    [
        (str, str, True),
        (str, Uuid, True),
        (str | None, Text | UnsetType, True),
        (Literal[4, 6], int, True),
        (Literal["a"] | None, str | None, True),
        (tuple[str, ...], tuple[Uuid, ...], True),
        (str, str | None, False),
        (str, int, False),
        (tuple[str, ...], list[str], False),
        (Literal[4, 6], str, False),
    ],
)
def test_a_shared_field_has_one_type_in_both(wanted: Any, source: Any, allowed: bool) -> None:
    kind: Any = type("Kind", (Struct,), {"__annotations__": {"value": wanted}})
    given: Any = type("Source", (Struct,), {"__annotations__": {"value": source}})
    if allowed:
        assert copy_as(kind, given(1)) == kind(1)
    else:
        with pytest.raises(AssertionError, match=r"Kind\.value is"):
            copy_as(kind, given(1))


class Changes(Struct, kw_only=True):
    name: str | None = None
    size: int | None = None
    other: str | None = None


def test_what_changes_name_is_changed_and_none_stays() -> None:
    item = Model(name="a", size=3, tags=("c",))
    assert with_changes(item, Changes(size=0, other="is nobody else's")) == Model(name="a", size=0, tags=("c",))
    odd: Any = type("Odd", (Struct,), {"__annotations__": {"size": str | None}})
    with pytest.raises(AssertionError, match=r"Model\.size is"):
        with_changes(item, odd(None))
