"""Returns claims of servers that may hold none: a conductor that was taken for dead can leave one behind.

A server's row is there before its claim, so a claim whose server does not exist, or has come to its end, is nobody's.
"""

import structlog

from roost.compute.service.work import list_claiming
from roost.conductor.context import Conductor
from roost.platform.crash import crash_point
from roost.seams.placement import ConsumerType

PAGE = 1000

log = structlog.get_logger()


async def reconcile_once(conductor: Conductor) -> list[str]:
    """Release the INSTANCE claims that nobody may hold; their consumers' UUIDs."""
    released: list[str] = []
    after = ""
    while page := await conductor.placement.list_consumers(ConsumerType.INSTANCE.value, after=after, limit=PAGE):
        claiming = await list_claiming(conductor.compute, page)
        suspects = [uuid for uuid in page if uuid not in claiming]
        if suspects:
            # Their generation first, then a second look: who claims in between changes the one or is seen by the other.
            held = await conductor.placement.get_consumers(suspects)
            claiming = await list_claiming(conductor.compute, suspects)
            stray = {uuid: state.generation for uuid, state in held.items() if uuid not in claiming}
            crash_point("reconcile.before-release")
            await conductor.placement.release(list(stray), generations=stray)
            crash_point("reconcile.after-release")
            released += stray
        after = page[-1]
    if released:
        log.warning("claims of servers that may hold none were returned", servers=released)
    return released
