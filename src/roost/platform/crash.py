"""Named crash points: both sides of every effect on the world outside, for the tests that kill Roost there.

`ROOST_CRASH_AT=<stage>.<before|after>-<effect>` ends the process with SIGKILL when it comes by; `:N` behind the
name lets it pass N-1 times first. `CRASH_POINTS` lists them all, and `docs/reference/crash-points.md` explains them.
"""

import os
import signal

CRASH_POINTS: tuple[str, ...] = (
    "create_ports.before-ensure",
    "create_ports.after-ensure",
    "place.before-claim",
    "place.after-claim",
    "allocate.before-assign",
    "allocate.after-assign",
    "bind.before-bind",
    "bind.after-bind",
    "launch.before-desire",
    "launch.after-desire",
    "retry.before-unbind",
    "retry.after-unbind",
    "fail.before-release-ports",
    "fail.after-release-ports",
    "fail.before-release-claim",
    "fail.after-release-claim",
    "delete.before-release-ports",
    "delete.after-release-ports",
    "delete.before-release-claim",
    "delete.after-release-claim",
    "port.before-claim",
    "port.after-claim",
    "port.after-assign",
    "port.after-unassign",
    "port.before-tell",
    "port.after-tell",
    "publish.before-inventory",
    "publish.after-inventory",
    "subnet.after-begin",
    "subnet.before-reshape",
    "subnet.after-reshape",
    "subnet.before-finish",
    "subnet.after-finish",
    "reconcile.before-release",
    "reconcile.after-release",
    "agent.after-begin",
    "agent.before-report",
    "agent.after-report",
)

_armed, _, _passes = os.environ.get("ROOST_CRASH_AT", "").partition(":")
_passes_left = int(_passes or 1)
if _armed and _armed not in CRASH_POINTS:
    raise SystemExit(f"ROOST_CRASH_AT: no crash point {_armed!r}; there are: {', '.join(CRASH_POINTS)}")


def crash_point(name: str) -> None:
    """End this process with SIGKILL if the environment asks for it here; otherwise do nothing."""
    global _passes_left
    assert name in CRASH_POINTS, name
    if name == _armed:
        _passes_left -= 1
        if _passes_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
