"""What every operation of the compute service works with: its database, its neighbours, its settings."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from roost.compute.service.events import EVENTS
from roost.compute.settings import ComputeSettings
from roost.platform.database import Connection, Database
from roost.platform.env import Env
from roost.platform.noted_events import NotedEvents
from roost.platform.outbox import Outbox
from roost.platform.settings import StateChanges
from roost.platform.wakeup import Wakeups
from roost.seams.agent import GuestOrder
from roost.seams.audit import AuditedNetwork, AuditedPlacement
from roost.seams.image import ImageClient

DEFAULT_PROJECT = "00000000-0000-0000-0000-00000000c10d"
DEFAULT_USER = "00000000-0000-0000-0000-0000000000ad"

PortsTeller = Callable[[Connection, Sequence[GuestOrder]], Coroutine[Any, Any, list[GuestOrder]]]


@dataclass
class Compute:
    """The compute service.

    network: set once by whoever wires the services, for compute and network know each other. wakeups: None where
    nobody waits, as in tests. images: None where there is no image service, so that images are not looked at.
    default_project, default_user: who every caller is without authentication. outbox: None where nobody is notified.
    state_changes: which changes of servers' states are notified of. with_ports_going: of `old_agents`, which are told
    the ports of servers that are deleted; None where there are none. refusals: of its API.
    """

    database: Database
    env: Env
    placement: AuditedPlacement
    network: AuditedNetwork = field(default=cast(AuditedNetwork, None))
    wakeups: Wakeups | None = None
    images: ImageClient | None = None
    settings: ComputeSettings = field(default_factory=ComputeSettings)
    default_project: str = DEFAULT_PROJECT
    default_user: str = DEFAULT_USER
    outbox: Outbox | None = None
    state_changes: StateChanges = ""
    with_ports_going: PortsTeller | None = None
    refusals: NotedEvents = field(init=False)

    def __post_init__(self) -> None:
        """Begin with no refusals."""
        self.refusals = NotedEvents(self.database, EVENTS)

    def wake(self, channel: str) -> None:
        """Wake who waits for the channel; call it after the commit."""
        if self.wakeups is not None:
            self.wakeups.send(channel)
