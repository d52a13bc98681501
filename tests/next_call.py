"""What happens at the next call of a method: between two steps of whoever calls it."""

from typing import Any


def before(owner: Any, name: str, then: Any) -> None:
    """The next call of a method comes after `then`: its caller has read what it says."""

    async def first(real: Any, *arguments: Any, **more: Any) -> Any:
        await then()
        return await real(*arguments, **more)

    instead(owner, name, first)


def after(owner: Any, name: str, then: Any) -> None:
    """The next call of a method is followed by `then`, before its caller goes on."""

    async def first(real: Any, *arguments: Any, **more: Any) -> Any:
        answer = await real(*arguments, **more)
        await then()
        return answer

    instead(owner, name, first)


def instead(owner: Any, name: str, first: Any) -> None:
    """The next call of a method is `first(real method, arguments)`; those after it are as ever."""
    real = getattr(owner, name)

    async def once(*arguments: Any, **more: Any) -> Any:
        setattr(owner, name, real)
        return await first(real, *arguments, **more)

    setattr(owner, name, once)
