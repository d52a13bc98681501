"""What msgspec refuses, in plain words: a table of cases."""

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from roost.platform.mismatch import explain_mismatch, find_mismatch


class Inner(msgspec.Struct):
    """What stands below."""

    word: str = ""


class Whole(msgspec.Struct):
    """One field for each kind of mismatch."""

    count: Annotated[int, Meta(ge=1, le=9)] = 1
    share: Annotated[float, Meta(gt=0)] = 1.0
    name: Annotated[str, Meta(min_length=1, max_length=3)] = "a"
    flag: bool = False
    names: tuple[str, ...] = ()
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("value", "place", "text"),
    [
        ({"count": "one"}, "count", "expected a whole number, got text (in quotes, if it is a number)"),
        ({"count": 0}, "count", "expected a whole number from 1 on"),
        ({"count": 10}, "count", "expected a whole number up to 9"),
        ({"share": 0}, "share", "expected a number above 0"),
        ({"share": "much"}, "share", "expected a number, got text (in quotes, if it is a number)"),
        ({"name": ""}, "name", "expected a text that is not empty"),
        ({"name": "long"}, "name", "expected a text of at most 3 characters"),
        ({"flag": 1}, "flag", "expected true or false, got a whole number"),
        ({"names": "a"}, "names", "expected a list, got text (in quotes, if it is a number)"),
        ({"names": ["a", 1]}, "names[1]", "expected text (in quotes, if it is a number), got a whole number"),
        ({"inner": {"word": None}}, "inner.word", "expected text (in quotes, if it is a number), got nothing"),
        ([], "", "expected keys with values, got a list"),
    ],
)
def test_a_mismatch_is_told_with_its_place(value: Any, place: str, text: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refusal:
        msgspec.convert(value, Whole)
    assert (find_mismatch(refusal.value), explain_mismatch(refusal.value)) == (place, text)
