"""Named crash points: both sides of every effect on the world outside, for the tests that kill Roost there.

`ROOST_CRASH_AT=<stage>.<before|after>-<effect>` ends the process with SIGKILL at that point; with `:N` behind the name,
at the N-th time. `roost.cli.serving.crash_points` lists them all.
"""

import os
import signal
from collections.abc import Collection

_armed, _, _passes = os.environ.get("ROOST_CRASH_AT", "").partition(":")
_passes_left = int(_passes or 1)


def check_crash_point(names: Collection[str]) -> None:
    """Raise SystemExit if the environment asks for a crash point that is none of these."""
    if _armed and _armed not in names:
        raise SystemExit(f"ROOST_CRASH_AT: no crash point {_armed!r}; there are: {', '.join(names)}")


def disarm_crash_point() -> None:
    """Forget what the environment asks for: a process that is started again does not die again."""
    global _armed
    _armed = ""


def crash_point(name: str) -> None:
    """End this process with SIGKILL if the environment asks for it here; otherwise do nothing."""
    global _passes_left
    if name == _armed:
        _passes_left -= 1
        if _passes_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
