"""Where the programs begin: Ctrl-C while they are still being imported ends them without a traceback."""

import sys

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, as a shell gives it."""


def run_roost() -> None:
    """Run `roost`."""
    try:
        from roost.cli.main import main

        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run_manage() -> None:
    """Run `roost-manage`."""
    try:
        from roost.cli.manage import main

        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run_placement_manage() -> None:
    """Run `placement-manage`."""
    try:
        from roost.cli.managing.upstream_commands import manage

        manage()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run_placement_status() -> None:
    """Run `placement-status`."""
    try:
        from roost.cli.managing.upstream_commands import status

        status()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
