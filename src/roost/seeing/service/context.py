"""What every operation of the operator's side works with: the services, and how the conductor schedules."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from roost.compute.service import Compute
from roost.network.service import Networks
from roost.placement.service.ledger import Ledger
from roost.platform.env import Env
from roost.scheduling.settings import SchedulingSettings
from roost.seeing.service.events import EventSource


@dataclass(frozen=True)
class Seeing:
    """The operator's side. scheduling: the conductor's settings, so that answers are those that a boot would get.

    ledger: None where it is another service's, so that what fits cannot be tried here. sources: the services' events.
    """

    compute: Compute
    networks: Networks
    env: Env
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    ledger: Ledger | None = None
    sources: tuple[EventSource, ...] = ()

    @property
    def placing(self) -> SchedulingSettings:
        """Return the settings by which servers end up somewhere: one that is sent to a full segment does not stay."""
        return replace(self.scheduling, ip_aware=True)
