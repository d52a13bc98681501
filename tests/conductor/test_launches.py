"""What becomes of a launch that takes long: the rule as a table."""

import pytest

from roost.compute.model.work import Launch
from roost.conductor.launches import Verdict, begin_wait_s, judge_launch
from roost.conductor.settings import ConductorSettings

SETTINGS = ConductorSettings(max_attempts=3, begin_timeout_s=20, launch_timeout_s=900)
WAIT, ANOTHER, ERROR = Verdict.WAIT, Verdict.ANOTHER_HOST, Verdict.ERROR


@pytest.mark.parametrize(
    ("launch", "failures", "verdict", "counts", "delay_s"),
    [
        # Nobody began: a silent host is left, one that was heard of since is waited for once more, then left too.
        (None, 0, ANOTHER, True, 0),
        (Launch(asked_s=18), 0, ANOTHER, True, 0),
        (Launch(asked_s=18, heard_s=18.1), 0, ANOTHER, True, 0),
        (Launch(asked_s=18, heard_s=18.1, host_down=True), 0, ANOTHER, True, 0),
        (Launch(asked_s=18, heard_s=17.9), 0, WAIT, True, 18),
        (Launch(asked_s=18, heard_s=17.9), 1, WAIT, True, 18),
        (Launch(asked_s=18, heard_s=17.9), 2, ANOTHER, True, 0),
        (Launch(asked_s=36, heard_s=0.1), 1, ANOTHER, True, 0),
        (Launch(asked_s=3600, heard_s=0.1), 0, ANOTHER, True, 0),
        # It began: the launch may take its time, unless its host went down and no attempt is left to wait for.
        (Launch(asked_s=18, begun_s=1, heard_s=1), 0, WAIT, False, 18),
        (Launch(asked_s=895, begun_s=890, heard_s=1), 0, WAIT, False, 10),
        (Launch(asked_s=905, begun_s=900, heard_s=1), 0, ERROR, False, 0),
        (Launch(asked_s=36, begun_s=35, heard_s=35, host_down=True), 0, WAIT, False, 18),
        (Launch(asked_s=54, begun_s=53, heard_s=53, host_down=True), 0, ERROR, False, 0),
        (Launch(asked_s=18, begun_s=17, heard_s=17, host_down=True), 2, ERROR, False, 0),
        (Launch(asked_s=18, begun_s=17, heard_s=17, host_down=True), 5, ERROR, False, 0),
    ],
)
def test_a_launch_is_judged_by_whether_it_began_and_whether_its_host_was_heard_of(
    launch: Launch | None, failures: int, verdict: Verdict, counts: bool, delay_s: float
) -> None:
    judgement = judge_launch(launch, failures=failures, settings=SETTINGS)
    assert (judgement.verdict, judgement.counts, judgement.delay_s) == (verdict, counts, delay_s)
    assert bool(judgement.reason) is (verdict is not WAIT)


def test_a_launch_that_no_host_may_begin_says_which_guest_is_in_its_way() -> None:
    judgement = judge_launch(Launch(asked_s=36, heard_s=0.1, unknown_on="h7"), failures=1, settings=SETTINGS)
    assert judgement.verdict is ANOTHER
    assert (
        "host h7 has a guest of it, or with an address of it, that the records do not know: roost-" in judgement.reason
    )


@pytest.mark.parametrize("heard_s", [None, 0.1])
@pytest.mark.parametrize("max_attempts", [1, 2, 3, 5])
def test_waiting_for_hosts_that_never_begin_comes_to_an_end(max_attempts: int, heard_s: float | None) -> None:
    settings = ConductorSettings(max_attempts=max_attempts, begin_timeout_s=20)
    waited_s, asked_s, failures = 0.0, 0.0, 0
    while failures < max_attempts:
        waited_s, asked_s = waited_s + begin_wait_s(settings), asked_s + begin_wait_s(settings)
        judgement = judge_launch(Launch(asked_s=asked_s, heard_s=heard_s), failures=failures, settings=settings)
        failures += judgement.counts
        if judgement.verdict is ANOTHER:
            asked_s = 0.0
    assert judgement.verdict is ANOTHER, "the end is left to `retry`, which says what failed"
    assert waited_s < max_attempts * settings.begin_timeout_s
