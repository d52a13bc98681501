"""When the NICs of an agent's guests go down by themselves: so long after its leases ended, as it promised.

The server lets another host have a server once the promise is kept. So NICs that went down come up again only after
those of what was evacuated meanwhile are down until it is destroyed.
"""

import structlog

from roost.agent.drivers import Driver
from roost.agent.lease import Lease, now_s
from roost.platform.errors import RoostError, reason_of

STEP = 0.05
"""Of the time that is promised, by how much later the end must be to be written anew. Too early does no harm."""

log = structlog.get_logger()


class PromiseUnwritten(RoostError):
    """Until when NICs may be up cannot be written, so that nothing can be promised; the text is a sentence."""


class Fence:
    """The promise of one agent. after_s: None where it promises nothing."""

    def __init__(self, driver: Driver, lease: Lease, after_s: float | None) -> None:
        self._driver = driver
        self._lease = lease
        self._after_s = after_s

    def begin(self) -> None:
        """Have NICs go down in time, before the server is told of it: it counts on that from the first call on.

        Raises PromiseUnwritten: an agent after this one would not know of the promise, and would break it.
        """
        if self._after_s is None:
            return
        try:
            self._driver.limit_nics(now_s() + self._after_s)
        except OSError as error:
            raise PromiseUnwritten(f"--fence-after cannot be promised: {reason_of(error)}") from error

    @property
    def is_down(self) -> bool:
        """Return whether NICs went down on hosts that are this agent's."""
        end_s = self._driver.nics_end_s(but_on=self._lease.hosts_elsewhere)
        return end_s is not None and end_s <= now_s()

    def put_off(self) -> None:
        """Have NICs stay up for as long after the leases as is promised, on the hosts that are this agent's."""
        hosts_elsewhere = self._lease.hosts_elsewhere
        end_s = self._driver.nics_end_s(but_on=hosts_elsewhere)
        if self._after_s is None:
            if end_s is not None:
                self._end_nics(None)
            return
        later_s = self._lease.until_s + self._after_s
        if end_s is None or later_s - end_s > self._after_s * STEP:
            self._end_nics(later_s)

    def _end_nics(self, at_s: float | None) -> None:
        """Have NICs go down then. Where that cannot be written, the next agent finds an earlier time, which is safe."""
        try:
            self._driver.end_nics(at_s, but_on=self._lease.hosts_elsewhere)
        except OSError as error:
            log.error("until when NICs are up is not written", error=reason_of(error))
