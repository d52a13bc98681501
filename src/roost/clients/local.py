"""A neighbour in the same process: its methods are functions of the other service, on that service."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

Service = TypeVar("Service")
P = ParamSpec("P")
R = TypeVar("R")
Answer = Coroutine[Any, Any, R]


class Local(Generic[Service]):
    """A client of a service next door. What the methods promise is in the seam that it implements."""

    def __init__(self, service: Service) -> None:
        self.service = service


def method(
    function: Callable[Concatenate[Service, P], Answer[R]],
) -> Callable[Concatenate[Local[Service], P], Answer[R]]:
    """Return the method that calls the function on the client's service."""

    @wraps(function)
    async def call(client: Local[Service], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await function(client.service, *args, **kwargs)

    return call
