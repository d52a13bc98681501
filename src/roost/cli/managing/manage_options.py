"""The options that commands of `roost-manage` share, and how they run."""

import signal
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from roost.cli import endings
from roost.cli.endings import BAD_INPUT, FAILED, Result
from roost.cli.managing.ledger_target import LedgerTarget
from roost.platform.errors import BadRequest, RoostError
from roost.platform.logs import configure_logging


class NobodyAnswers(RoostError):
    """A command that asks first was run without a terminal."""


DataDir = Annotated[Path | None, typer.Option(help="Where Roost's private PostgreSQL lives.", show_default="./roost")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="ROOST_DATABASE",
        help="Roost's PostgreSQL instead: postgresql://user:password@host/name.",
    ),
]
PgBin = Annotated[Path | None, typer.Option(help="The bin directory of another PostgreSQL, 15 or later.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what differs; write nothing.")]
DifferencesAsJson = Annotated[bool, typer.Option("--json", help="Print every difference as one JSON object.")]
ConfigFile = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        help="A roost.toml of the services, or a folder of such; a later one wins.",
        show_default="/etc/roost/roost.toml",
    ),
]


_DATABASE_OPTIONS = {"data_dir": DataDir, "database": DatabaseUrl, "pg_bin": PgBin, "config": ConfigFile}


def on_database(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with options, in the place of its parameter `target`, that name the database it works on."""

    @wraps(command)
    def run(*, data_dir: Any, database: Any, pg_bin: Any, config: Any, **others: Any) -> None:
        command(target=LedgerTarget.choose(data_dir, database, pg_bin, config), **others)

    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name == "target":
            for name, kind in _DATABASE_OPTIONS.items():
                parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind))
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
    vars(run)["__signature__"] = Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def confirm(question: str) -> None:
    """Ask; end the command with status 1 unless the answer is yes."""
    try:
        is_agreed = typer.confirm(question)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        typer.echo(err=True)
        endings.fail(NobodyAnswers("nobody answers here: --yes does it without the question"), program="roost-manage")
    if not is_agreed:
        raise typer.Exit(1)


def ask_at_work(question: str) -> bool:
    """Return the answer to a question within the event loop, whose own handler would take the first Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return typer.confirm(question)
    finally:
        signal.signal(signal.SIGINT, before)


def run_manage(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end; an expected error is printed as its sentence, with exit status 1."""
    configure_logging("manage")
    return endings.run(work, program="roost-manage")


def run_with_status(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run to the end, and end with the status that it returns; BAD_INPUT and FAILED mean the same for all commands."""
    configure_logging("manage")
    raise typer.Exit(endings.run(_refusing_bad_input(work), program="roost-manage", failed=FAILED))


async def _refusing_bad_input(work: Coroutine[Any, Any, int]) -> int:
    try:
        return await work
    except BadRequest as error:
        endings.fail(error, program="roost-manage", status=BAD_INPUT)
