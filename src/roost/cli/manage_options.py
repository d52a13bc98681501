"""The options that commands of `roost-manage` share, and how they run."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from roost.cli import endings
from roost.cli.endings import Result
from roost.platform.logs import configure_logging

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
ConfigFile = Annotated[Path | None, typer.Option(help="The roost.toml that the services have.")]


def run_manage(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end; an expected error is printed as its sentence, with exit status 1."""
    configure_logging("manage")
    return endings.run(work, program="roost-manage")
