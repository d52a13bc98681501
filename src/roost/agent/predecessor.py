"""How long an agent that starts waits for the one that served its hosts before: until that one's lease has run out."""

import asyncio

import structlog

from roost.agent.connection import Refused
from roost.agent.lease import now_s
from roost.platform.errors import RoostError

LOOK_S = 1.0
SLACK_S = 3.0
"""How long after its end a lease may still be seen: the server notes silent hosts from time to time."""
STOP_IT = "stop that agent first, or serve other hosts"

log = structlog.get_logger()


class ServedElsewhere(RoostError):
    """Another agent serves the hosts, or this one is not to."""


class Predecessor:
    """The agent whose lease stands in the way of one that starts. waits: whether it is waited for at all."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits
        self._until_s: float | None = None

    async def wait(self, refusal: Refused) -> None:
        """Return when it is time to ask again.

        Raises ServedElsewhere when the lease that was first seen should have ended: its agent is alive, and renews it;
        at once where nothing is to be waited for.
        """
        ends_in_s = refusal.retry_after_s
        if self._until_s is None and self._waits and ends_in_s is not None:
            self._until_s = now_s() + ends_in_s + SLACK_S
            log.warning("waiting for the lease of another agent to end", reason=refusal.detail, seconds=ends_in_s)
        if self._until_s is None or now_s() >= self._until_s:
            raise ServedElsewhere(
                f"{refusal.detail}: {STOP_IT}" if ends_in_s is not None else refusal.detail
            ) from refusal
        await asyncio.sleep(LOOK_S)
