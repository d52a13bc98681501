"""Attempts that meet others' work: an operation says by its error that it is to be made again from its beginning."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=Exception)
Operation = Callable[P, Coroutine[Any, Any, R]]


def retried(
    error: type[E], *, most: int, between: Callable[[E, Any], Awaitable[object]] | None = None
) -> Callable[[Operation[P, R]], Operation[P, R]]:
    """Return a decorator that repeats an operation at once while it raises this error.

    most: attempts in all; the error of the last one is raised. between: is awaited before another attempt, with the
    error and the operation's first argument.
    """

    def decorate(operation: Operation[P, R]) -> Operation[P, R]:
        @wraps(operation)
        async def attempt(*args: P.args, **kwargs: P.kwargs) -> R:
            for _ in range(most - 1):
                try:
                    return await operation(*args, **kwargs)
                except error as failure:
                    if between is not None:
                        await between(failure, args[0])
            return await operation(*args, **kwargs)

        return attempt

    return decorate
