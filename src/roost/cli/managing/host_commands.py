"""`roost-manage host`: which hosts there are and which of them wait, and that an operator accepts those."""

from typing import Annotated

import typer

from roost.cli.asking.commands import AsJson
from roost.cli.help_text import PlainCommand, PlainGroup
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.managing.manage_options import on_database, run_manage
from roost.cli.tables import table_console

host_app = typer.Typer(
    cls=PlainGroup, help="Hosts, and those that wait until an operator accepts them.", no_args_is_help=True
)


@host_app.command("list", cls=PlainCommand)
@on_database
def _list_hosts(
    waiting: Annotated[bool, typer.Option("--waiting", help="Only hosts that wait to be accepted.")] = False,
    *,
    target: LedgerTarget,
    as_json: AsJson = False,
) -> None:
    """List the hosts: what they have and reach, and whether they get servers.

    Example: `roost-manage host list --waiting --data-dir /var/lib/roost`
    """
    from roost.cli.managing.hosts import list_hosts

    run_manage(list_hosts(target, table_console(), waiting=waiting, as_json=as_json))


@host_app.command("accept", cls=PlainCommand)
@on_database
def _accept_hosts(
    hosts: Annotated[
        list[str],
        typer.Argument(metavar="NAME|PATTERN", help="A waiting host, or a pattern of them: rack1-*, * for all."),
    ],
    *,
    target: LedgerTarget,
) -> None:
    """Accept hosts that an agent registered and nobody declared, so that they get servers.

    Only hosts that wait now: one that comes later waits. Quote patterns, or the shell takes them for files.

    Example: `roost-manage host accept 'rack1-*' --data-dir /var/lib/roost`
    """
    from roost.cli.managing.hosts import accept

    run_manage(accept(target, table_console(), hosts))
