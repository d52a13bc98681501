"""Long work on the event loop: when it rests, and when it goes on at once."""

from contextlib import ExitStack

import pytest

from roost.platform import turns
from roost.platform.turns import REST_S, at_work, in_turns


@pytest.fixture
def rests_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every item takes a turn; how long each rest was, which is over at once."""
    taken: list[float] = []

    async def rest(seconds: float) -> None:
        taken.append(seconds)

    monkeypatch.setattr(turns, "TURN_S", 0.0)
    monkeypatch.setattr("roost.platform.turns.asyncio.sleep", rest)
    return taken


@pytest.mark.parametrize(
    ("requests", "rest_s"),
    [
        pytest.param(0, 0, id="of nobody's request"),
        pytest.param(1, 0, id="of the only request"),
        pytest.param(2, REST_S, id="beside a short request"),
    ],
)
async def test_long_work_rests_while_a_short_request_is_at_work(
    rests_s: list[float], requests: int, rest_s: float
) -> None:
    with ExitStack() as stack:
        for _ in range(requests):
            stack.enter_context(at_work())
        assert await in_turns(str, range(3)) == ["0", "1", "2"]
    assert rests_s == [rest_s] * 3


async def test_long_works_do_not_rest_for_each_other(rests_s: list[float]) -> None:
    with at_work(), at_work(), turns._counted(turns._works):
        await in_turns(str, range(2))
    assert rests_s == [0, 0]
