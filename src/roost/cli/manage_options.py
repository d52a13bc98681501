"""The options that commands of `roost-manage` share, and how they run."""

import traceback
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer

from roost.cli import endings
from roost.cli.endings import Result
from roost.cli.help_text import PlainCommand
from roost.platform.errors import BadRequest
from roost.platform.logs import configure_logging

BAD_INPUT, FAILED = 127, 255
"""Exit statuses of commands whose own begin at 0, as nova-manage has them: automation repeats what ends with 1."""

USAGE_ERROR = cast(type[Exception], typer.BadParameter.__base__)
"""Click's, or that of the click which Typer has within."""

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


class StatusCommand(PlainCommand):
    """A command with statuses of its own: wrong usage is BAD_INPUT."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        """Read the command line."""
        with _usage_is_bad_input():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, which reads its options more closely."""
        with _usage_is_bad_input():
            return super().invoke(ctx)


@contextmanager
def _usage_is_bad_input() -> Iterator[None]:
    try:
        yield
    except USAGE_ERROR as error:
        error.exit_code = BAD_INPUT  # type: ignore[attr-defined]
        raise


def run_with_status(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run to the end, and end with the status that it returns; BAD_INPUT and FAILED mean the same for all commands."""
    configure_logging("manage")
    try:
        status = endings.run(_refusing_bad_input(work), program="roost-manage", failed=FAILED)
    except typer.Exit:
        raise
    except Exception:
        traceback.print_exc()
        raise typer.Exit(FAILED) from None
    raise typer.Exit(status)


async def _refusing_bad_input(work: Coroutine[Any, Any, int]) -> int:
    try:
        return await work
    except BadRequest as error:
        endings.fail(error, program="roost-manage", status=BAD_INPUT)
