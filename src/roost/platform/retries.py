"""Attempts that meet others' work: an operation says by its error that it is to be made again from its beginning."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Operation = Callable[P, Coroutine[Any, Any, R]]


def retried(error: type[Exception], *, most: int) -> Callable[[Operation[P, R]], Operation[P, R]]:
    """Return a decorator that repeats an operation at once while it raises this error.

    most: attempts in all; the error of the last one is raised.
    """

    def decorate(operation: Operation[P, R]) -> Operation[P, R]:
        @wraps(operation)
        async def attempt(*args: P.args, **kwargs: P.kwargs) -> R:
            for _ in range(most - 1):
                with suppress(error):
                    return await operation(*args, **kwargs)
            return await operation(*args, **kwargs)

        return attempt

    return decorate
