"""`roost-manage agent-token`: the tokens by which agents authenticate."""

from typing import Annotated

import typer

from roost.cli.asking.commands import AsJson
from roost.cli.help_text import PlainCommand, PlainGroup
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.managing.manage_options import on_database, run_manage
from roost.cli.tables import table_console

agent_token_app = typer.Typer(
    cls=PlainGroup, help="The tokens by which agents authenticate, where --auth is not none.", no_args_is_help=True
)


@agent_token_app.command("create", cls=PlainCommand)
@on_database
def _create_agent_token(
    host: Annotated[
        list[str],
        typer.Option(metavar="NAME|PATTERN", help="A host, or a pattern: rack1-*, * for all; may be repeated."),
    ],
    name: Annotated[str, typer.Option(help="What you call it: where it is, or who has it.")] = "",
    *,
    target: LedgerTarget,
    as_json: AsJson = False,
) -> None:
    """Make a token that lets an agent serve these hosts and do nothing else, and print it this once.

    Only its hash is kept. Quote patterns, or the shell takes them for files.

    Example: `(umask 077; roost-manage agent-token create --host 'rack1-*' --name rack1 > rack1.token)`
    """
    from roost.cli.managing import agent_tokens

    run_manage(agent_tokens.create(target, hosts=host, name=name, as_json=as_json))


@agent_token_app.command("list", cls=PlainCommand)
@on_database
def _list_agent_tokens(*, target: LedgerTarget, as_json: AsJson = False) -> None:
    """List the tokens with their hosts, when they were made, last used and revoked; never a token itself.

    Example: `roost-manage agent-token list --data-dir /var/lib/roost`
    """
    from roost.cli.managing import agent_tokens

    run_manage(agent_tokens.list_tokens(target, table_console(), as_json=as_json))


@agent_token_app.command("revoke", cls=PlainCommand)
@on_database
def _revoke_agent_token(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As list shows it.")],
    *,
    target: LedgerTarget,
    as_json: AsJson = False,
) -> None:
    """Revoke a token, which is refused everywhere within 5 seconds. Its agents' guests run on.

    Example: `roost-manage agent-token revoke 1b4e28ba-2fa1-11d2-883f-0016d3cca427`
    """
    from roost.cli.managing import agent_tokens

    run_manage(agent_tokens.revoke(target, token_id, as_json=as_json))
