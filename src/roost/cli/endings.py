"""How a command ends: done, failed with one sentence on standard error and a status, or wrong usage."""

import sys
import traceback
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import typer
import uvloop

from roost.cli.help_text import PlainCommand, PlainGroup
from roost.platform.errors import RoostError

Result = TypeVar("Result")
BAD_INPUT, FAILED = 127, 255
"""Exit statuses of commands whose own begin at 0, as nova-manage has them: automation repeats what ends with 1."""


def run(work: Coroutine[Any, Any, Result], *, program: str = "roost", failed: int = 1) -> Result:
    """Run to the end; an expected error is printed as its sentence, with the exit status `failed`."""
    try:
        return uvloop.run(work)
    except RoostError as error:
        fail(error, program=program, status=failed)
    except ExceptionGroup as errors:
        expected = errors.subgroup(RoostError)
        if expected is None:
            raise
        fail(_first(expected), program=program, status=failed)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _first(errors: ExceptionGroup[RoostError]) -> RoostError:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


def fail(error: RoostError, *, program: str = "roost", status: int = 1) -> NoReturn:
    """End with the error's sentence."""
    print(f"{program}: {error}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(status) from None


class CheckGroup(PlainGroup):
    """Commands whose exit status is what they found, 1 and 2 too: all that keeps them from finding ends with FAILED."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the group's own options."""
        with _every_end_has_a_status(usage=FAILED):
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Read the command's options and run it."""
        with _every_end_has_a_status(usage=FAILED):
            return super().invoke(ctx)


class StatusCommand(PlainCommand):
    """A command with statuses of its own: wrong usage ends with BAD_INPUT, whatever is unexpected with FAILED."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the command line."""
        with _every_end_has_a_status(usage=BAD_INPUT):
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, which reads its options more closely."""
        with _every_end_has_a_status(usage=BAD_INPUT):
            return super().invoke(ctx)


@contextmanager
def _every_end_has_a_status(*, usage: int) -> Iterator[None]:
    """End wrong usage, which Click shows, with the status `usage`, and an unexpected error with FAILED."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if hasattr(error, "exit_code"):
            error.exit_code = usage
            raise
        traceback.print_exc()
        raise typer.Exit(FAILED) from error
