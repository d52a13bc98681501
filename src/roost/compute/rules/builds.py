"""Decides what a server whose work is not done waits for, in words for operators; the pipeline itself waits by time."""

from roost.compute.model.work import Build, Stage


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
