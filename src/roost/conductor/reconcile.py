"""Returns claims of servers that may hold none: a conductor that lost its lease can leave one behind.

A server's row is there before its claim, so a claim whose server does not exist, or has come to its end, is nobody's.
"""

import structlog

from roost.compute.service.audit import CLAIMS_AUDIT
from roost.conductor.context import Conductor
from roost.platform.drift import Repairs

log = structlog.get_logger()


async def reconcile_once(conductor: Conductor) -> list[str]:
    """Release the INSTANCE claims that nobody may hold; returns their consumers' UUIDs."""
    released = [drift.key for drift in await CLAIMS_AUDIT.run(conductor.compute, repairs=Repairs.ITSELF)]
    if released:
        log.warning("released claims of servers that may hold none", servers=released)
    return released
