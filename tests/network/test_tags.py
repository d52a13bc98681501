"""Which tags a resource has after each request."""

from collections.abc import Callable, Sequence

import pytest

from roost.network.errors import InvalidInput, TagNotFound
from roost.network.rules import tags

FIFTY = tuple(f"tag{number:02}" for number in range(50))


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        (lambda has: tags.replaced(["b", "a"]), ("red",), ("a", "b")),
        (lambda has: tags.replaced([]), ("red",), ()),
        (lambda has: tags.replaced(FIFTY), (), FIFTY),
        (lambda has: tags.replaced(["x" * 255]), (), ("x" * 255,)),
        (lambda has: tags.added(has, ["green", "red"]), ("red",), ("green", "red")),
        (lambda has: tags.added(has, []), ("red",), ("red",)),
        (lambda has: tags.added(has, FIFTY[:1]), FIFTY, FIFTY),
        (lambda has: tags.removed(has, "red"), ("blue", "red"), ("blue",)),
    ],
)
def test_tags_after_a_request(
    change: Callable[[Sequence[str]], tuple[str, ...]], before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    assert change(before) == after


@pytest.mark.parametrize("wrong", [["a", "a"], [""], ["x" * 256], ["a\x00"], [*FIFTY, "more"]])
def test_tags_that_cannot_be_are_refused(wrong: list[str]) -> None:
    with pytest.raises(InvalidInput):
        tags.replaced(wrong)
    with pytest.raises(InvalidInput):
        tags.added([], wrong)


def test_a_resource_with_fifty_tags_gets_no_more() -> None:
    with pytest.raises(InvalidInput, match="At most 50 tags"):
        tags.added(FIFTY, ["more"])


def test_a_tag_that_a_resource_has_not_is_not_found() -> None:
    with pytest.raises(TagNotFound, match="Tag red could not be found"):
        tags.removed(["blue"], "red")
