"""Work that is done again and again beside answering requests: publishing, reconciling."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from itertools import islice
from typing import Any, TypeVar

import structlog

from roost.platform.errors import DatabaseUnavailable, RoostError
from roost.platform.logs import EachMinute

KEYS_LOGGED_MAX = 20

Context = TypeVar("Context")
Keys = TypeVar("Keys", bound=Collection[str] | None)

log = structlog.get_logger()


async def repeat(
    work: Callable[[], Awaitable[object]],
    name: str,
    *,
    interval_s: float,
    pause: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Repeat the work until cancelled, over whatever happens, with interval_s between two times; logs say `name`.

    pause: waits instead, at most interval_s.
    """
    task = asyncio.current_task()
    assert task is not None
    each_minute = EachMinute()
    while True:
        try:
            await asyncio.ensure_future(work())  # Python 3.11: a group that fails leaves its task marked as cancelled
        except DatabaseUnavailable as error:
            if not error.is_logged and each_minute.is_due(name):
                event = f"periodic work waits for {error.service}"
                log.warning(event, work=name, again_in_s=interval_s, reason=str(error))
        except (RoostError, TimeoutError) as error:
            reason = str(error) or "another transaction takes too long"
            log.warning("periodic work was put off; it is retried", work=name, again_in_s=interval_s, reason=reason)
        except Exception:
            log.exception("periodic work failed", work=name, again_in_s=interval_s)
        if task.cancelling():
            raise asyncio.CancelledError  # which a failure of what was being cancelled has taken the place of
        await (asyncio.sleep(interval_s) if pause is None else pause())


def at_once(
    work: Callable[[Context, Keys], Awaitable[object]], name: str
) -> Callable[[Context, Keys], Coroutine[Any, Any, None]]:
    """Return a function that does the work for keys of which it was just committed that it is due, if there are any.

    A failure is logged, with the name and some of the keys: the next round does the work.
    """

    async def attempt(context: Context, keys: Keys) -> None:
        names: Collection[str] | None = keys
        if not names:
            return
        try:
            await work(context, keys)
        except (RoostError, TimeoutError) as error:
            some = list(islice(names, KEYS_LOGGED_MAX))
            log.warning(f"{name} failed; the next round retries", of=some, count=len(names), reason=str(error))

    return attempt
