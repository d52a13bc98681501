"""Options of `roost agent`: which hosts it serves, what it promises, and whether it waits."""

from typing import Annotated

import typer

from roost.cli.serving.option_checks import misused

FENCE_AFTER_MIN_S = 120
FENCE_AFTER_MAX_S = 86400

Fleet = Annotated[
    str | None, typer.Option(metavar="all|N", help="Every host that a cloud file declared, or N made-up ones.")
]
PhysicalNetworks = Annotated[
    list[str] | None, typer.Option(help="A physical network that the hosts reach; may be repeated.")
]
FenceAfter = Annotated[
    int | None,
    typer.Option(
        metavar="SECONDS",
        min=FENCE_AFTER_MIN_S,
        max=FENCE_AFTER_MAX_S,
        help="Promise that the guests have their NICs down so long after Roost was last heard of, so that they can be "
        "evacuated without force-down.",
        show_default="nothing is promised",
    ),
]
ResumeGuests = Annotated[
    bool,
    typer.Option("--resume-guests", help="Start guests again that ran when their host was started anew."),
]
NoWait = Annotated[
    bool,
    typer.Option(
        "--no-wait", help="End at once where another agent has a host, instead of waiting for its lease to end."
    ),
]


DRIVERS = ("fake", "qemu")
DriverName = Annotated[
    str, typer.Option(metavar="|".join(DRIVERS), help="fake: guests are lines in a file; qemu: they run, as root.")
]


def check_driver(name: str) -> None:
    """End the command when there is no such driver."""
    if name not in DRIVERS:
        misused(f"--driver {name}: expected {' or '.join(DRIVERS)}")
