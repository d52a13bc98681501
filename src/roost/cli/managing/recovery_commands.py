"""`roost-manage recovery`: records that went back in time, and what they wait for."""

from typing import Annotated

import typer

from roost.cli.asking.commands import AsJson
from roost.cli.help_text import PlainCommand, PlainGroup
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.managing.manage_options import confirm, on_database, run_manage
from roost.cli.tables import table_console

recovery_app = typer.Typer(
    cls=PlainGroup, help="Records that went back in time, as after a restore.", no_args_is_help=True
)


@recovery_app.command("show", cls=PlainCommand)
@on_database
def _show_recovery(*, target: LedgerTarget, as_json: AsJson = False) -> None:
    """Show whether the records went back in time, and which hosts are waited for.

    Until every host that is alive has listed its guests, nothing is launched, moved or given away.

    Exit status 0: the records did not go back, or follow the hosts again. 3: hosts are waited for.

    Example: `roost-manage recovery show --data-dir /var/lib/roost`
    """
    from roost.cli.managing.recovery import show_recovery

    raise typer.Exit(run_manage(show_recovery(target, table_console(), as_json=as_json)))


@recovery_app.command("end", cls=PlainCommand)
@on_database
def _end_recovery(
    *,
    target: LedgerTarget,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first.")] = False,
) -> None:
    """End the wait for hosts that list nothing. Addresses of their guests may be given to others.

    Example: `roost-manage recovery end --data-dir /var/lib/roost`
    """
    from roost.cli.managing.recovery import end_recovery

    if not yes:
        confirm("Go on without what the hosts that are waited for have?")
    run_manage(end_recovery(target, table_console()))
