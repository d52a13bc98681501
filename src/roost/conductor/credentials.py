"""Whether this conductor may work with the network service: tried at its start, and again and again.

A service that does not answer says nothing about credentials: what was found last goes on to hold.
"""

from collections.abc import Awaitable, Callable

import structlog
from prometheus_client import Gauge

from roost.compute.model.work import EARLY, LOCAL_CREDENTIALS, Credentials
from roost.compute.service.cells import beat
from roost.conductor.context import Conductor
from roost.conductor.orders import ORDER_NOW
from roost.seams.agent import NetworkAway, NetworkRefused

USABLE = Gauge("roost_network_credentials_usable", "1 while the network service lets this conductor in.")

log = structlog.get_logger()

Probe = Callable[[], Awaitable[None]]
"""Tries the credentials. Raises NetworkRefused, NetworkAway."""


class CredentialsWatch:
    """One conductor's knowledge of its network credentials. probe: None where the network service is its own."""

    def __init__(self, probe: Probe | None = None) -> None:
        self._probe = probe
        self._current = LOCAL_CREDENTIALS if probe is None else Credentials(True, "they are not tried yet")
        self._is_away = False

    def current(self) -> Credentials:
        """Return what was found last."""
        return self._current

    async def look(self) -> Credentials:
        """Try the credentials; say once when they are refused, and when they are taken again.

        Two looks at once are two probes, and one line: what is compared is what was known after the probe.
        """
        if self._probe is None:
            return self._current
        try:
            await self._probe()
        except NetworkAway as error:
            if not self._is_away:
                log.warning("the network service is away; what is known of its credentials holds", reason=str(error))
            self._is_away = True
            return self._current
        except NetworkRefused as error:
            if self._current.usable:
                log.warning("no network credentials: servers are built in the late order", reason=str(error))
            self._current = Credentials(False, str(error))
        else:
            if not self._current.usable:
                log.info("the network service lets the conductor in again")
            self._current = Credentials(True, "the network service lets the conductor in")
        self._is_away = False
        return self._current


class Presence:
    """Says again and again that a conductor is there, which cells it serves, and in which order it builds."""

    def __init__(self, conductor: Conductor, watch: CredentialsWatch) -> None:
        self._conductor = conductor
        self._watch = watch
        self._id = conductor.env.new_uuid()

    async def beat(self) -> None:
        """Say so once."""
        conductor = self._conductor
        credentials = self._watch.current()
        USABLE.set(credentials.usable)
        if conductor.old_agents is None:
            ORDER_NOW.labels(EARLY.name).set(1)
        else:
            await conductor.old_agents.tell_order(conductor, credentials)
        await beat(conductor.compute, self._id, conductor.settings.cells, credentials)
