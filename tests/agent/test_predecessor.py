"""How long an agent that starts waits for the lease of the one before."""

import pytest

from roost.agent import predecessor as module
from roost.agent.connection import Refused
from roost.agent.predecessor import Predecessor, ServedElsewhere

HELD = "host h1 is served by agent a, whose lease ends in 20 s unless it is renewed"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that goes on only when somebody sleeps."""
    now = [0.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(module, "now_s", lambda: now[0])
    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    return now


async def test_it_asks_again_until_the_lease_that_it_saw_has_ended(clock: list[float]) -> None:
    predecessor = Predecessor(waits=True)
    for left_s in range(20, 0, -1):
        await predecessor.wait(Refused(409, HELD, retry_after_s=left_s))
    assert clock[0] == 20 * module.LOOK_S


async def test_a_lease_that_is_renewed_meanwhile_is_a_live_agents(clock: list[float]) -> None:
    predecessor = Predecessor(waits=True)

    async def wait_for_ever() -> None:
        while True:
            await predecessor.wait(Refused(409, HELD, retry_after_s=20))

    with pytest.raises(ServedElsewhere, match="stop that agent first"):
        await wait_for_ever()
    assert clock[0] == pytest.approx(20 + module.SLACK_S, abs=module.LOOK_S)


@pytest.mark.parametrize(("waits", "retry_after_s"), [(False, 20.0), (True, None)])
async def test_it_ends_at_once_where_it_is_not_to_wait_or_does_not_know_how_long(
    clock: list[float], waits: bool, retry_after_s: float | None
) -> None:
    with pytest.raises(ServedElsewhere):
        await Predecessor(waits=waits).wait(Refused(409, HELD, retry_after_s=retry_after_s))
    assert clock[0] == 0
