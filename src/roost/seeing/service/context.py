"""What every operation of the operator's side works with: the services, and how the conductor schedules."""

from dataclasses import dataclass, field

from roost.compute.service import Compute
from roost.network.service import Networks
from roost.platform.env import Env
from roost.scheduling.settings import SchedulingSettings
from roost.seeing.service.events import EventSource


@dataclass(frozen=True)
class Seeing:
    """The operator's side. scheduling: the conductor's settings, so that answers are those that a boot would get.

    sources: the services' events.
    """

    compute: Compute
    networks: Networks
    env: Env
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    sources: tuple[EventSource, ...] = ()
