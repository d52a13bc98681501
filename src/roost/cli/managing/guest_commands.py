"""`roost-manage guests`: its commands, and `destroy-guest`, which is older."""

from typing import Annotated

import typer

from roost.cli.asking.commands import AsJson
from roost.cli.help_text import PlainCommand, PlainGroup
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.managing.manage_options import confirm, on_database, run_manage
from roost.cli.serving.option_checks import UUID
from roost.cli.tables import table_console

guests_app = typer.Typer(
    cls=PlainGroup, help="Guests that hosts have and this database does not know.", no_args_is_help=True
)

ServerId = Annotated[str, typer.Argument(metavar="SERVER", help="The id of the guest's server.")]
HostName = Annotated[str | None, typer.Option("--host", help="The host that has the guest; without it, the only one.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask first.")]


@guests_app.command("list", cls=PlainCommand)
@on_database
def _list_guests(*, target: LedgerTarget, as_json: AsJson = False) -> None:
    """List the guests that agents list and nobody asked for, and what of their addresses is held.

    Exit status 0: there are none. 3: there are some.

    Example: `roost-manage guests list --data-dir /var/lib/roost`
    """
    from roost.cli.managing.guests import list_guests

    raise typer.Exit(run_manage(list_guests(target, table_console(), as_json=as_json)))


@guests_app.command("adopt", cls=PlainCommand)
@on_database
def _adopt_guest(server: ServerId, host: HostName = None, *, target: LedgerTarget) -> None:
    """Make an unknown guest its server's: of a known server its attempt, else a new server of what its host lists.

    The server's size and addresses are claimed in one step. Where that cannot be, nothing changes, and the reason is
    said. It can be repeated.

    Example: `roost-manage guests adopt 5b5c0e4e-… --data-dir /var/lib/roost`
    """
    from roost.cli.managing.guests import adopt

    check_server(server)
    raise typer.Exit(run_manage(adopt(target, table_console(), server, host)))


@guests_app.command("destroy", cls=PlainCommand)
@on_database
def _destroy_guest(server: ServerId, host: HostName = None, *, target: LedgerTarget, yes: Yes = False) -> None:
    """Order a host to destroy a guest that this database does not know: an audit's `guest-unknown`.

    Its addresses are held until its host says that it is gone.

    Example: `roost-manage guests destroy 5b5c0e4e-… --host r1-h1 --data-dir /var/lib/roost`
    """
    from roost.cli.managing.guests import destroy_guest

    check_server(server)
    where = f" on host {host}" if host else ""
    if not yes:
        confirm(f"Destroy the guest of server {server}{where}?")
    raise typer.Exit(run_manage(destroy_guest(target, server, host)))


def check_server(server: str) -> None:
    """Raise BadParameter unless it is the id of a server."""
    if not UUID.fullmatch(server):
        raise typer.BadParameter(f"{server}: expected the id of a server")
