"""Work that is done again and again beside answering requests: publishing, reconciling."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from roost.platform.errors import RoostError

log = structlog.get_logger()


async def repeat(work: Callable[[], Awaitable[object]], name: str, *, interval_s: float) -> None:
    """Do it until cancelled, over whatever happens, with interval_s between two times; logs say `name`."""
    while True:
        try:
            await work()
        except (RoostError, TimeoutError) as error:
            reason = str(error) or "somebody else takes too long"
            log.warning("periodic work is put off", work=name, again_in_s=interval_s, reason=reason)
        except Exception:
            log.exception("periodic work failed", work=name, again_in_s=interval_s)
        await asyncio.sleep(interval_s)
