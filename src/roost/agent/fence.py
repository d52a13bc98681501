"""When the NICs of an agent's guests go down by themselves: so long after its leases ended, as it promised.

The server lets another host have a server once the promise is kept. So NICs that went down come up again only after
the agent has destroyed what was evacuated meanwhile.
"""

from roost.agent.drivers import Driver
from roost.agent.lease import Lease, now_s

STEP = 0.05
"""Of the time that is promised, by how much later the end must be to be written anew. Too early does no harm."""


class Fence:
    """The promise of one agent. after_s: None where it promises nothing."""

    def __init__(self, driver: Driver, lease: Lease, after_s: float | None) -> None:
        self._driver = driver
        self._lease = lease
        self._after_s = after_s

    def begin(self) -> None:
        """Have NICs go down in time, before the server is told of it: it counts on that from the first call on."""
        if self._after_s is not None:
            self._driver.limit_nics(now_s() + self._after_s)

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
                self._driver.end_nics(None, but_on=hosts_elsewhere)
            return
        later_s = self._lease.until_s + self._after_s
        if end_s is None or later_s - end_s > self._after_s * STEP:
            self._driver.end_nics(later_s, but_on=hosts_elsewhere)
