"""The `roost-manage` command: what operators do to a Roost's database, beside the services.

Exit status 0: done, nothing is left to do; 1: it failed; 2: wrong usage; 3 and up: as each command says.
"""

import os
import re
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from roost.cli import agent_tokens, endings
from roost.cli.adopt import adopt
from roost.cli.asking import AsJson
from roost.cli.audit import audit, destroy_guest
from roost.cli.endings import Result
from roost.cli.help_text import PlainCommand, PlainGroup, new_program
from roost.cli.import_report import exit_status, print_report, report_json
from roost.cli.keystone import credentials_of
from roost.cli.ledger_target import LedgerTarget, open_ledger
from roost.cli.placement_source import Source, read_placement
from roost.cli.story_output import Bars
from roost.cli.tables import table_console
from roost.placement.service.imports import compare_ledger, import_ledger
from roost.placement.service.ledger import Ledger
from roost.platform.logs import configure_logging

UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

app = new_program("roost-manage", "What operators do to a Roost's database.")
agent_token_app = typer.Typer(
    cls=PlainGroup, help="The tokens by which agents authenticate, where --auth is not none.", no_args_is_help=True
)
app.add_typer(agent_token_app, name="agent-token")

DataDir = Annotated[Path | None, typer.Option(help="Where Roost's private PostgreSQL lives.", show_default="./roost")]
DatabaseUrl = Annotated[
    str | None, typer.Option("--database", help="Roost's PostgreSQL instead: postgresql://user:password@host/name.")
]
PgBin = Annotated[Path | None, typer.Option(help="The bin directory of another PostgreSQL, 15 or later.")]
ConfigFile = Annotated[Path | None, typer.Option(help="The roost.toml that the services have.")]


def main() -> None:
    """Run the command line."""
    app()


@app.command("import-placement", cls=PlainCommand)
def _import_placement(
    source_url: Annotated[str, typer.Option("--from", metavar="URL", help="The Placement API to read.")],
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    pg_bin: PgBin = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what differs; write nothing.")] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove what only Roost has: providers, consumers, custom names.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Undo what was written to Roost since it was imported.")
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(envvar="OS_TOKEN", help="For the source; without it, OS_AUTH_URL and the like are used."),
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(envvar="OS_CACERT", help="Certificates to trust, for an https source and Keystone.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every difference as one JSON object.")] = False,
) -> None:
    """Make Roost's ledger the same as another Placement's, read over its API.

    It may be repeated: only what differs is written, all of it at once or nothing.

    Exit status 3: differences were found on --dry-run. 4: something stays different, and the report says what.

    Example: `roost-manage import-placement --from http://placement.example/placement --dry-run`
    """
    target = LedgerTarget.choose(data_dir, database, pg_bin)
    if not source_url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"--from {source_url}: expected a URL such as http://placement.example/placement")
    work = import_placement(
        source_url,
        target,
        token=token,
        ca_file=ca_file,
        dry_run=dry_run,
        delete=delete,
        overwrite=overwrite,
        as_json=as_json,
    )
    raise typer.Exit(_run(work))


@app.command("audit", cls=PlainCommand)
def _audit(
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    pg_bin: PgBin = None,
    config: ConfigFile = None,
    repair: Annotated[bool, typer.Option("--repair", help="Put it right, after showing what.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --repair: do not ask first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every drift as one JSON object; never asks.")] = False,
) -> None:
    """Say what differs between addresses, ports, claims, inventories, servers and hosts, beside a live Roost or alone.

    Exit status 0: nothing has drifted. 3: something has, or is left after --repair. 4: all of it was repaired.

    Example: `roost-manage audit --data-dir /var/lib/roost --repair`
    """
    target = LedgerTarget.choose(data_dir, database, pg_bin)
    asks = repair and not yes and not as_json and sys.stdin.isatty()
    confirm = (lambda: typer.confirm("Repair what can be?")) if asks else None
    work = audit(target, table_console(), config=config, repair=repair, as_json=as_json, confirm=confirm)
    raise typer.Exit(_run(work))


@app.command("adopt", cls=PlainCommand)
def _adopt(
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    pg_bin: PgBin = None,
    config: ConfigFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what differs; write nothing.")] = False,
    give_back_all: Annotated[
        bool, typer.Option("--give-back-all", help="Believe Neutron also where it lists no port for most claims.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every difference as one JSON object.")] = False,
) -> None:
    """Make the ledger count the addresses that a running Neutron's ports have, as `roost serve --with-neutron` does.

    Which Neutron says the section [neutron] of the roost.toml, or ROOST_NEUTRON_URL. It may be repeated.

    Exit status 0: all that differed is written. 3: differences were found on --dry-run. 4: there was nothing to do.
    5: Neutron cannot be asked. 6: something could not be written, and the report says what.

    Example: `ROOST_NEUTRON_URL=http://neutron.example:9696 roost-manage adopt --data-dir /var/lib/roost --dry-run`
    """
    target = LedgerTarget.choose(data_dir, database, pg_bin)
    console = table_console()
    work = adopt(target, console, config=config, dry_run=dry_run, as_json=as_json, give_back_all=give_back_all)
    raise typer.Exit(_run(work))


@app.command("destroy-guest", cls=PlainCommand)
def _destroy_guest(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The id of the guest's server.")],
    host: Annotated[str, typer.Option(help="The host that has the guest.")],
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    pg_bin: PgBin = None,
    config: ConfigFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first.")] = False,
) -> None:
    """Have a host destroy a guest that this database does not know: an audit's `guest-unknown`.

    Such a guest is left by the restore of an older database. It runs, and has addresses that Roost may believe free.

    Example: `roost-manage destroy-guest 5b5c0e4e-… --host r1-h1 --data-dir /var/lib/roost`
    """
    target = LedgerTarget.choose(data_dir, database, pg_bin)
    if not UUID.fullmatch(server):
        raise typer.BadParameter(f"{server}: expected the id of a server")
    if not yes and not typer.confirm(f"Destroy the guest of server {server} on host {host}?"):
        raise typer.Exit(1)
    raise typer.Exit(_run(destroy_guest(target, server, host, config=config)))


@agent_token_app.command("create", cls=PlainCommand)
def _create_agent_token(
    host: Annotated[
        list[str],
        typer.Option(metavar="NAME|PATTERN", help="A host, or a pattern: rack1-*, * for all; may be repeated."),
    ],
    name: Annotated[str, typer.Option(help="What you call it: where it is, or who has it.")] = "",
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    pg_bin: PgBin = None,
    as_json: AsJson = False,
) -> None:
    """Make a token that lets an agent serve these hosts and do nothing else, and print it this once.

    Only its hash is kept. Quote patterns, or the shell takes them for files.

    Example: `(umask 077; roost-manage agent-token create --host 'rack1-*' --name rack1 > rack1.token)`
    """
    target = LedgerTarget.choose(data_dir, database, pg_bin)
    _run(agent_tokens.create(target, hosts=host, name=name, as_json=as_json))


@agent_token_app.command("list", cls=PlainCommand)
def _list_agent_tokens(
    data_dir: DataDir = None, database: DatabaseUrl = None, pg_bin: PgBin = None, as_json: AsJson = False
) -> None:
    """List the tokens with their hosts, when they were made, last used and revoked; never a token itself.

    Example: `roost-manage agent-token list --data-dir /var/lib/roost`
    """
    target = LedgerTarget.choose(data_dir, database, pg_bin)
    _run(agent_tokens.list_tokens(target, table_console(), as_json=as_json))


@agent_token_app.command("revoke", cls=PlainCommand)
def _revoke_agent_token(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As list shows it.")],
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    pg_bin: PgBin = None,
    as_json: AsJson = False,
) -> None:
    """Have a token refused everywhere within 5 seconds. Its agents' guests run on.

    Example: `roost-manage agent-token revoke 1b4e28ba-2fa1-11d2-883f-0016d3cca427`
    """
    target = LedgerTarget.choose(data_dir, database, pg_bin)
    _run(agent_tokens.revoke(target, token_id, as_json=as_json))


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    configure_logging("manage")
    return endings.run(work, program="roost-manage")


async def import_placement(
    source_url: str,
    target: LedgerTarget,
    *,
    token: str | None = None,
    ca_file: str | None = None,
    dry_run: bool = False,
    delete: bool = False,
    overwrite: bool = False,
    as_json: bool = False,
) -> int:
    """Read, compare, write, report; returns the exit status. token: None for what the environment says.

    The source is asked first, so that no database is made for one that does not answer.
    """
    credentials = None if token else credentials_of(os.environ)
    async with (
        Source.connect(source_url, token=token, credentials=credentials, ca_file=ca_file) as source,
        open_ledger(target, create=not dry_run) as database,
    ):
        ledger = None if database is None else Ledger(database)
        with Bars() as bars:
            read = await read_placement(source, bars.progress)
        if dry_run or ledger is None:
            imported = await compare_ledger(ledger, read.state, delete=delete, overwrite=overwrite)
        else:
            imported = await import_ledger(ledger, read.state, delete=delete, overwrite=overwrite)
    if as_json:
        print(report_json(source_url, read, imported, dry_run=dry_run).decode(), flush=True)  # noqa: T201
    else:
        print_report(table_console(), read, imported, dry_run=dry_run)
    return exit_status(read, imported, dry_run=dry_run)


if __name__ == "__main__":
    main()
