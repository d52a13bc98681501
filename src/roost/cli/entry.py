"""Where the programs begin: Ctrl-C while they are still being imported ends them without a traceback."""

import os.path
import sys

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, as a shell gives it."""

LINKS = {"placement-manage": ("placement",), "placement-status": ("placement", "status")}
"""Which words of `roost-manage` a link to it stands for, by the link's name: those of upstream Placement's programs."""


def run_roost() -> None:
    """Run `roost`."""
    try:
        from roost.cli.main import main

        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run_manage() -> None:
    """Run `roost-manage`, also by the name of a link to it."""
    sys.argv[1:1] = LINKS.get(os.path.basename(sys.argv[0]), ())
    try:
        from roost.cli.manage import main

        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
