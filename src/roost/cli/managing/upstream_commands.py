"""`roost-manage placement db` and `placement status`: what deployment tools ask of upstream Placement's programs.

Called by the names of these, `placement-manage` and `placement-status`, roost-manage does the same (entry.py).
Exit status of `status upgrade check`: 0 all is well, 1 a warning, 2 a failure, 255 it could not be found out.
Source: upstream Placement, placement-manage(8), placement-status(8); oslo.upgradecheck for the table.
"""

import asyncio
import textwrap

import typer
from msgspec import Struct

from roost.cli import endings
from roost.cli.help_text import PlainCommand, PlainGroup
from roost.cli.managing.ledger_target import LedgerTarget, open_ledger
from roost.cli.managing.manage_options import on_database
from roost.cli.serving.roles import SCHEMAS
from roost.platform.database import Database
from roost.platform.logs import configure_logging
from roost.platform.migrate import SchemaTooNew, SchemaTooOld, list_missing, list_outdated, upgrade
from roost.platform.release import head

SUCCESS, WARNING, FAILURE = 0, 1, 2
WORDS = {SUCCESS: "Success", WARNING: "Warning", FAILURE: "Failure"}
LINE_WIDTH = 60

db_app = typer.Typer(cls=PlainGroup, help="The schema of the ledger.", no_args_is_help=True)
status_app = typer.Typer(cls=PlainGroup, help="Whether the ledger can be used.", no_args_is_help=True)
upgrade_app = typer.Typer(cls=endings.CheckGroup, help="Before and after an upgrade.", no_args_is_help=True)
status_app.add_typer(upgrade_app, name="upgrade")


class Check(Struct, frozen=True):
    """What one check found. code: SUCCESS, WARNING or FAILURE."""

    name: str
    code: int
    details: str = ""


@db_app.command("sync", cls=PlainCommand)
@on_database
def _sync(target: LedgerTarget) -> None:
    """Bring the schemas that there are up to date, the ledger's at least; twice does no harm.

    `roost serve` does so itself when it starts.

    Example: `ROOST_DATABASE=postgresql://roost:PASSWORD@db.example/roost roost-manage placement db sync`
    """
    configure_logging("manage")
    endings.run(sync(target), program="roost-manage")


@db_app.command("version", cls=PlainCommand)
@on_database
def _version(target: LedgerTarget) -> None:
    """Print the last migration of the ledger that this Roost knows, or that the database is not there yet.

    Example: `roost-manage placement db version --data-dir /var/lib/roost`
    """
    configure_logging("manage")
    check = endings.run(check_schemas(target), program="roost-manage")
    typer.echo(head("placement") if check.code == SUCCESS else check.details)


@db_app.command("online_data_migrations", cls=PlainCommand)
def _migrate_data() -> None:
    """Accept the call without effect: Roost's migrations bring the data along.

    Example: `roost-manage placement db online_data_migrations`
    """


@upgrade_app.command("check", cls=PlainCommand)
@on_database
def _check(target: LedgerTarget) -> None:
    """Say whether this Roost and its database fit together. Exit status 0: yes; 1: a warning; 2: no; 255: not known.

    Example: `roost-manage placement status upgrade check --database postgresql://roost@db.example/roost`
    """
    configure_logging("manage")
    check = endings.run(check_schemas(target), program="roost-manage", failed=endings.FAILED)
    for line in table([check]):
        typer.echo(line)
    raise typer.Exit(check.code)


async def sync(target: LedgerTarget) -> None:
    """Upgrade what the database has.

    Raises TargetRefused, PostgresError, DatabaseUnavailable, SchemaTooNew, SchemaTooOld, SchemaNotMade.
    """
    async with open_ledger(target, create=True) as database:
        assert database is not None
        await asyncio.to_thread(upgrade, database.dsn, await _outdated(database))


async def check_schemas(target: LedgerTarget) -> Check:
    """Return whether the schemas are those of this Roost."""
    name = "Schemas"
    async with open_ledger(target, create=False) as database:
        if database is None:
            return Check(name, FAILURE, "There is no database yet: `roost-manage placement db sync` makes it.")
        try:
            outdated = await _outdated(database)
        except (SchemaTooNew, SchemaTooOld) as error:
            return Check(name, FAILURE, str(error))
    if outdated:
        text = f"Not of this version: {', '.join(outdated)}. `roost-manage placement db sync` brings them up to date."
        return Check(name, FAILURE, text)
    return Check(name, SUCCESS)


async def _outdated(database: Database) -> list[str]:
    """Return the schemas to upgrade: the ledger's, and those that are there besides.

    Raises SchemaTooNew, SchemaTooOld.
    """
    missing = await list_missing(database, SCHEMAS)
    return await list_outdated(database, [name for name in SCHEMAS if name == "placement" or name not in missing])


def table(checks: list[Check]) -> list[str]:
    """Return the lines of the answer, as oslo.upgradecheck prints them."""
    rows = [["Upgrade Check Results"]]
    for check in checks:
        wrapped = textwrap.fill(check.details or "None", LINE_WIDTH, subsequent_indent="  ")
        rows.append([f"Check: {check.name}", f"Result: {WORDS[check.code]}", f"Details: {wrapped}"])
    cells = [[part for cell in row for part in cell.splitlines()] for row in rows]
    width = max(len(line) for row in cells for line in row)
    border = f"+{'-' * (width + 2)}+"
    body = [[f"| {line.ljust(width)} |" for line in row] for row in cells]
    return [border, *(line for row in body for line in (*row, border))]
