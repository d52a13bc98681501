"""What two structs share is copied where the types allow it; what is not served has values that ask for nothing."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.network.api.bodies import refuse_unserved
from roost.network.api.fields import NoFlag, NoList, Nothing, Text, Uuid, copy_as, neutral_values
from roost.network.api.networks import NetworkBody
from roost.network.api.ports import PortBody
from roost.network.api.subnets import SubnetBody
from roost.network.errors import InvalidInput


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


class Unserved(Struct, kw_only=True, forbid_unknown_fields=True):
    flag: NoFlag = UNSET
    items: NoList = UNSET
    thing: Nothing = field(default=UNSET, name="a:thing")


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        ("{}", None),
        ('{"flag": false, "items": [], "a:thing": null}', None),
        ('{"flag": null, "items": null}', None),
        ('{"flag": true}', "flag: Roost does not serve it: leave it out, or give false."),
        ('{"flag": 0}', "flag: Roost does not serve it: leave it out, or give false."),
        ('{"items": [1]}', "items: Roost does not serve it: leave it out, or give []."),
        ('{"a:thing": ""}', "a:thing: Roost does not serve it: leave it out, or give null."),
        (f'{{"items": [{" " * 99}]}}', "items: Roost does not serve it: leave it out, or give []."),
    ],
)
def test_what_is_not_served_is_refused_unless_it_asks_for_nothing(content: str, refusal: str | None) -> None:
    body = msgspec.json.decode(content, type=Unserved)
    if refusal is None:
        refuse_unserved(body)
    else:
        with pytest.raises(InvalidInput) as error:
            refuse_unserved(body)
        assert str(error.value) == refusal


@pytest.mark.parametrize(("kind", "count"), [(NetworkBody, 9), (SubnetBody, 4), (PortBody, 14)])
def test_bodies_know_what_of_them_is_not_served(kind: type[Struct], count: int) -> None:
    assert len(neutral_values(kind)) == count
