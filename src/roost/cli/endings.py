"""How a command ends: done, failed with one sentence on standard error and a status, or wrong usage."""

import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

import typer
import uvloop

from roost.cli.help_text import PlainGroup
from roost.platform.errors import RoostError

Result = TypeVar("Result")
CHECK_FAILED = 255
"""The exit status of a command that checks something when the check itself fails: 1 and 2 are what it found."""


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
    """Commands whose exit status is what they found: wrong usage and bugs end with CHECK_FAILED, as errors do."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the group's own options."""
        return _as_check(lambda: super(CheckGroup, self).make_context(*arguments, **options))

    def invoke(self, ctx: Any) -> Any:
        """Read the command's options and run it."""
        return _as_check(lambda: super(CheckGroup, self).invoke(ctx))


def _as_check(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if hasattr(error, "exit_code"):  # wrong usage, which is shown by who catches it
            error.exit_code = CHECK_FAILED
            raise
        traceback.print_exc()
        raise typer.Exit(CHECK_FAILED) from error
