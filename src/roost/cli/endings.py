"""How a command ends: done, failed with one sentence on standard error and a status, or asked wrongly."""

import sys
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

import typer
import uvloop

from roost.platform.errors import RoostError

Result = TypeVar("Result")


def run(program: str, work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end; an error that Roost foresaw is its sentence and exit status 1."""
    try:
        return uvloop.run(work)
    except RoostError as error:
        fail(program, error)
    except ExceptionGroup as errors:
        foreseen = errors.subgroup(RoostError)
        if foreseen is None:
            raise
        fail(program, _first(foreseen))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _first(errors: ExceptionGroup[RoostError]) -> RoostError:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


def fail(program: str, error: RoostError) -> NoReturn:
    """End with the error's sentence and exit status 1."""
    print(f"{program}: {error}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(1) from None
