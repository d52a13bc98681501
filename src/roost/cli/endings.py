"""How a command ends: done, failed with one sentence on standard error and a status, or wrong usage."""

import sys
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

import typer
import uvloop

from roost.platform.errors import RoostError

Result = TypeVar("Result")


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
