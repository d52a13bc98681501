"""Where the programs begin: Ctrl-C while they are still being imported ends them without a traceback."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, as a shell gives it."""

LINKS = {"placement-manage": ("placement",), "placement-status": ("placement", "status")}
"""Which words of `roost-manage` a link to it stands for, by the link's name: those of upstream Placement's programs."""


def run_roost() -> None:
    """Run `roost`."""
    try:
        with _ending_at_once():
            from roost.cli.main import main
        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run_manage() -> None:
    """Run `roost-manage`, also by the name of a link to it."""
    sys.argv[1:1] = LINKS.get(os.path.basename(sys.argv[0]), ())
    try:
        with _ending_at_once():
            from roost.cli.manage import main
        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """Have Ctrl-C end the program on the spot: an interrupt that an import swallows leaves a library half set up."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    yield
    signal.signal(signal.SIGINT, before)
