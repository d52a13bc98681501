"""Many ports or subnets made by one request: all, or none.

Each is claimed for, or published, by itself, so one transaction cannot hold them: when one is refused, those before it
are taken back. A process that dies in between leaves those before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from roost.platform.errors import NotFound, RoostError

Asked = TypeVar("Asked")
Made = TypeVar("Made")

log = structlog.get_logger()


async def create_all(
    wanted: Sequence[Asked],
    create: Callable[[Asked], Awaitable[Made]],
    take_back: Callable[[Made], Awaitable[None]],
    *,
    together: bool = False,
) -> list[Made]:
    """Make them in order, and take back what was made when one cannot be. Raises what `create` raises first.

    together: all at once, since `create` makes sets of what comes at once.
    """
    made: list[Made] = []
    try:
        if together:
            answers = await asyncio.gather(*map(create, wanted), return_exceptions=True)
            made = [answer for answer in answers if not isinstance(answer, BaseException)]
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
            return made
        for item in wanted:
            made.append(await create(item))
    except BaseException:
        for done in reversed(made):
            try:
                await take_back(done)
            except NotFound:
                continue  # somebody was faster
            except RoostError as error:
                log.error("what a refused bulk request had made could not be taken back", error=str(error))
        raise
    return made
