"""Decides what a server whose work is not done waits for, in words for operators; the pipeline itself waits by time."""

from datetime import datetime

from msgspec import Struct

from roost.compute.model.work import Stage


class Build(Struct, frozen=True, kw_only=True):
    """A server's work as it stands, at the moment it was read.

    leased: a conductor is at work on it. due_s: seconds until the next look, below zero when one is overdue.
    host: where it was placed, or where a guest of it may still be; host_down, cell: of that host.
    guest: None where no host was asked for one; begun: an agent has begun to make it.
    """

    server_id: str
    name: str
    project_id: str
    stage: Stage
    attempt: int
    failures: int
    since: datetime
    leased: bool
    due_s: float
    host: str | None = None
    host_down: bool = False
    cell: str | None = None
    guest: bool = False
    begun: bool = False


def find_wait(build: Build) -> str:
    """Return whom or what the build waits for."""
    host = f"host {build.host}{', which is down,' if build.host_down else ''}"
    if build.leased:
        return "the conductor that is at work on it"
    if build.stage is Stage.LAUNCH and build.guest:
        return f"{host} to {'finish' if build.begun else 'begin'} the launch"
    if build.stage in (Stage.FAIL, Stage.DELETE, Stage.RETRY) and build.guest:
        return f"{host} to give up its guest"
    if build.due_s > 0:
        return f"its next try, in {build.due_s:.0f} s"
    return "a conductor" if build.cell is None else f"a conductor of {build.cell}"
