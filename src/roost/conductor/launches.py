"""What becomes of a launch that has not come to its end: wait, another host, or ERROR. `finish.py` carries it out.

Each wait of begin_timeout_s without a beginning uses up an attempt, so that no server stays BUILD for longer than
max_attempts of them. Giving up is safe, however short the wait: an attempt that was given up can no longer begin.
"""

from enum import Enum

from msgspec import Struct

from roost.compute.model import Launch
from roost.conductor.settings import ConductorSettings

HOSTS_SHARE = 0.9
"""Of begin_timeout_s, what a host is given; the rest is for choosing it."""


class Verdict(Enum):
    """What becomes of a launch."""

    WAIT = "wait"
    ANOTHER_HOST = "another host"
    ERROR = "error"


class Judgement(Struct, frozen=True):
    """counts: an attempt is used up. delay_s: of WAIT, until the next look. reason: what the host did not do."""

    verdict: Verdict
    counts: bool = False
    delay_s: float = 0.0
    reason: str = ""


def begin_wait_s(settings: ConductorSettings) -> float:
    """Return how long a host is waited for before its launch is looked at."""
    return settings.begin_timeout_s * HOSTS_SHARE


def judge_launch(launch: Launch | None, *, failures: int, settings: ConductorSettings) -> Judgement:
    """Decide about a launch whose time is over. launch: None where nothing is asked of a host.

    A silent host is left at once. One that was heard of since it was asked is slow, and gets a second wait: another
    host of a slow cloud would be no faster. One that had begun and is down is waited for while attempts are left.
    """
    wait_s = begin_wait_s(settings)
    if launch is not None and launch.begun_s is not None:
        left_s = settings.launch_timeout_s - launch.begun_s
        if left_s <= 0:
            return Judgement(Verdict.ERROR, reason="began to launch the server and did not come to an end")
        if launch.host_down and launch.asked_s >= wait_s * max(settings.max_attempts - failures, 1):
            return Judgement(Verdict.ERROR, reason="began to launch the server and is down")
        return Judgement(Verdict.WAIT, delay_s=min(left_s, wait_s))
    heard = launch is not None and launch.heard_s is not None and launch.heard_s < launch.asked_s
    if heard and launch is not None and launch.asked_s < 2 * wait_s and failures + 1 < settings.max_attempts:
        return Judgement(Verdict.WAIT, counts=True, delay_s=wait_s)
    reason = f"did not begin to launch the server within {settings.begin_timeout_s:g} s"
    how = "though its agent asks for orders" if heard else "and was not heard of meanwhile"
    return Judgement(Verdict.ANOTHER_HOST, counts=True, reason=f"{reason}, {how}")
