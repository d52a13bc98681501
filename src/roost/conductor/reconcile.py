"""Returns claims of servers that may hold none: a conductor that was taken for dead can leave one behind.

A server's row is there before its claim, so a claim whose server does not exist, or has come to its end, is nobody's.
"""

from collections import Counter

import structlog

from roost.compute.service import audit
from roost.conductor.context import Conductor
from roost.seams.audit import Drift, Repairs

log = structlog.get_logger()


async def reconcile_once(conductor: Conductor) -> list[str]:
    """Release the INSTANCE claims that nobody may hold; their consumers' UUIDs."""
    released = [one.key for one in await audit.audit_consumers(conductor.compute, repairs=Repairs.ITSELF)]
    if released:
        log.warning("claims of servers that may hold none were returned", servers=released)
    return released


async def audit_once(conductor: Conductor) -> list[Drift]:
    """One pass of the audit over all servers and hosts, which puts right what it may; what drifted."""
    found = await audit.audit(conductor.compute, repairs=Repairs.ITSELF)
    for kind, count in Counter((one.kind, one.repaired) for one in found).items():
        log.warning("the books had drifted", what=kind[0].sentence, count=count, repaired=kind[1])
    return found
