"""Long work on the event loop: when it rests, and when it goes on at once."""

from collections import deque
from contextlib import ExitStack

import pytest

from roost.platform import turns
from roost.platform.turns import LATELY_S, REST_S, at_work, in_turns


@pytest.fixture
def rests_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every item takes a turn; how long each rest was, which is over at once."""
    taken: list[float] = []

    async def rest(seconds: float) -> None:
        taken.append(seconds)

    monkeypatch.setattr(turns, "TURN_S", 0.0)
    monkeypatch.setattr(turns, "_short_ends_s", deque([float("-inf")], maxlen=1))
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


@pytest.mark.parametrize(
    ("works", "ended_before_s", "rest_s"),
    [
        pytest.param(2, None, 0, id="several, and no short request came"),
        pytest.param(2, LATELY_S / 2, REST_S, id="several, lately after a short request"),
        pytest.param(2, LATELY_S * 2, 0, id="several, long after a short request"),
        pytest.param(1, LATELY_S / 2, 0, id="one, lately after a short request"),
    ],
)
async def test_several_long_works_rest_after_a_short_request_too(
    rests_s: list[float], monkeypatch: pytest.MonkeyPatch, works: int, ended_before_s: float | None, rest_s: float
) -> None:
    if ended_before_s is not None:
        with at_work():
            pass
        ended_at_s = turns._short_ends_s[-1]
        monkeypatch.setattr("roost.platform.turns.time.perf_counter", lambda: ended_at_s + ended_before_s)
    monkeypatch.setattr(turns, "_long_works", set(range(works - 1)))
    await in_turns(str, range(2))
    assert rests_s == [rest_s] * 2
