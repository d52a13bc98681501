"""An operation is made again while its error says so, at most so often, and the last error is its answer."""

import pytest

from roost.platform.errors import Conflict
from roost.platform.retries import retried

MOST = 3


class Overtaken(Conflict):
    """Somebody else was faster."""


@pytest.mark.parametrize(
    ("failures", "attempts", "raises"),
    [
        pytest.param([], 1, None, id="at once"),
        pytest.param([Overtaken("1")], 2, None, id="the second time"),
        pytest.param([Overtaken("1"), Overtaken("2")], 3, None, id="the last time"),
        pytest.param([Overtaken("1"), Overtaken("2"), Overtaken("3")], 3, "3", id="never: the last error is told"),
        pytest.param([Conflict("no")], 1, "no", id="another error is none to try again for"),
        pytest.param([Overtaken("1"), Conflict("no")], 2, "no", id="nor is it later"),
    ],
)
async def test_an_operation_is_repeated_while_its_error_says_so(
    failures: list[Conflict], attempts: int, raises: str | None
) -> None:
    made: list[tuple[int, str]] = []

    @retried(Overtaken, most=MOST)
    async def operation(number: int, *, word: str) -> str:
        """Do it."""
        made.append((number, word))
        if len(made) <= len(failures):
            raise failures[len(made) - 1]
        return "done"

    assert operation.__doc__ == "Do it."
    if raises is None:
        assert await operation(7, word="w") == "done"
    else:
        with pytest.raises(Conflict, match=f"^{raises}$"):
            await operation(7, word="w")
    assert made == [(7, "w")] * attempts


async def test_what_is_done_between_two_attempts_knows_the_error_and_whose_operation_it_is() -> None:
    seen: list[tuple[str, str]] = []

    async def make_way(error: Overtaken, who: str) -> None:
        seen.append((str(error), who))

    @retried(Overtaken, most=MOST, between=make_way)
    async def operation(who: str) -> None:
        raise Overtaken(f"{len(seen)} before")

    with pytest.raises(Overtaken, match=r"^2 before$"):
        await operation("a port's")
    assert seen == [("0 before", "a port's"), ("1 before", "a port's")]
