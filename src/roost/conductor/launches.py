"""What becomes of a launch that has not come to its end: wait, another host, or ERROR.

Each wait of begin_timeout_s without a beginning uses up an attempt, so that no server stays BUILD for longer than
max_attempts of them. Giving up is safe, however short the wait: an attempt that was given up can no longer begin.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from roost.compute.model.work import Failure, Launch, Stage, StageChange, Work
from roost.compute.service.idle_hosts import note_unbegun
from roost.compute.service.work import withdraw_unbegun_guests
from roost.conductor.context import Build, Lease, end_of, staged
from roost.conductor.settings import ConductorSettings

HOSTS_SHARE = 0.9
"""Of begin_timeout_s, what a host is given; the rest is for choosing it."""


class Verdict(Enum):
    """What becomes of a launch."""

    WAIT = "wait"
    ANOTHER_HOST = "another host"
    ERROR = "error"


class Judgement(Struct, frozen=True):
    """counts: an attempt is used up. delay_s: of WAIT, until the next look. reason: what the host did not do.

    unbegun: that it did not begin counts against the host.
    """

    verdict: Verdict
    counts: bool = False
    delay_s: float = 0.0
    reason: str = ""
    unbegun: bool = False


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
    if launch is not None and launch.unknown_on is not None:
        how = (
            f"since host {launch.unknown_on} has a guest of it, or with an address of it, that the records do not "
            "know: roost-manage guests list"
        )
    unbegun = heard and launch is not None and launch.unknown_on is None
    return Judgement(Verdict.ANOTHER_HOST, counts=True, reason=f"{reason}, {how}", unbegun=unbegun)


async def judge_launches(lease: Lease, builds: Sequence[Build], launches: Mapping[str, Launch]) -> list[StageChange]:
    """Return where servers go whose launches, by server id, take long. A host that is left can no longer begin."""
    settings = lease.conductor.settings
    judgements = {
        build.work.server_id: judge_launch(
            launches.get(build.work.server_id), failures=build.work.failures, settings=settings
        )
        for build in builds
    }
    leaving = [server_id for server_id, judgement in judgements.items() if judgement.verdict is Verdict.ANOTHER_HOST]
    # A host that has begun meanwhile goes on.
    if leaving:
        begun = await withdraw_unbegun_guests(lease.conductor.compute, leaving, owner=lease.owner)
        waiting = Judgement(Verdict.WAIT, delay_s=begin_wait_s(settings))
        judgements |= dict.fromkeys(begun, waiting)
    # Of several that end together the one that was asked for last: their waits overlap.
    asked_s_by_host: dict[str, float] = {}
    for launch in (launches[server_id] for server_id, judgement in judgements.items() if judgement.unbegun):
        asked_s_by_host[launch.host] = min(launch.asked_s, asked_s_by_host.get(launch.host, launch.asked_s))
    if asked_s_by_host:
        await note_unbegun(lease.conductor.compute, asked_s_by_host)
    return [_judged(build.work, judgements[build.work.server_id]) for build in builds]


def _judged(work: Work, judgement: Judgement) -> StageChange:
    failures = work.failures + judgement.counts
    if judgement.verdict is Verdict.WAIT:
        return staged(work, work.stage, failures=failures, delay_s=judgement.delay_s)
    host = work.placed.host if work.placed else ""
    failure = Failure(message=f"{host} {judgement.reason}", host=host)
    if judgement.verdict is Verdict.ERROR:
        return staged(work, end_of(work), failures=failures, failure=failure, keep=True)
    excluded = (*work.excluded_hosts, host) if host else work.excluded_hosts
    return staged(work, Stage.RETRY, failures=failures, excluded_hosts=excluded, failure=failure, keep=True)
