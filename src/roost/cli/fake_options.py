"""Options of `roost agent` that say what the fake driver does slowly or wrong."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.platform.errors import BadRequest

if TYPE_CHECKING:
    from roost.agent.drivers.fake import Faults

STATES = ("running", "stopped", "paused", "suspended", "incoming")

FakeDelay = Annotated[float, typer.Option(metavar="S", min=0, help="Seconds that a fake launch takes.")]
FakePreCopy = Annotated[float, typer.Option(metavar="S", min=0, help="Seconds that a live migration copies memory.")]
FakeFail = Annotated[
    str | None,
    typer.Option(metavar="N|always|vanish", help="Let the first N launches fail, or all, or have them never end."),
]
FakeRefuse = Annotated[
    list[str] | None,
    typer.Option(metavar="STATE", help=f"Let no guest come into this state: {', '.join(STATES)}; may be repeated."),
]
FakeDie = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where lines say what guests do by themselves, as `crashed all`; it is deleted once it is read.",
    ),
]
FakeDisks = Annotated[bool, typer.Option("--fake-disks", help="Say that guests have disks, which are on their hosts.")]


def read_faults(
    delay_s: float,
    pre_copy_s: float,
    fail: str | None,
    states_refused: list[str] | None,
    die_file: Path | None,
    keeps_disks: bool,
) -> "Faults":
    """Return what the options say. Raises BadRequest."""
    from roost.agent.drivers.fake import ALWAYS, Faults

    for state in states_refused or ():
        if state not in STATES:
            raise BadRequest(f"--fake-refuse {state}: expected {', '.join(STATES)}")
    faults = Faults(
        delay_s=delay_s,
        pre_copy_s=pre_copy_s,
        states_refused=frozenset(states_refused or ()),
        die_file=die_file,
        keeps_disks=keeps_disks,
    )
    if fail == "vanish":
        return replace(faults, vanish_first=ALWAYS)
    if fail == "always":
        return replace(faults, fail_first=ALWAYS)
    if fail is not None and not re.fullmatch(r"[0-9]{1,6}", fail):
        raise BadRequest(f"--fake-fail {fail}: expected a number of launches, always or vanish")
    return replace(faults, fail_first=int(fail or 0))
