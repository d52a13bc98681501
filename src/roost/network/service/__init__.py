"""The operations of the network service: each function is one operation, on the `Networks` that it is given."""

import asyncio
from dataclasses import dataclass, field

from roost.platform.database import Database
from roost.platform.env import Env
from roost.platform.wakeup import Wakeups
from roost.seams.compute import ComputeClient
from roost.seams.placement import PlacementClient

DEFAULT_PROJECT = "00000000-0000-0000-0000-00000000c10d"


@dataclass
class Networks:
    """What every operation of the network service works with.

    compute is set by whoever wires the services: the two know each other. releasing: one at a time gives claims back,
    since it holds a connection of the pool while the ledger uses another. default_project: whose everything is
    without authentication. intent_s: how long a claim that is being made for a port is left alone.
    """

    database: Database
    env: Env
    placement: PlacementClient
    compute: ComputeClient
    wakeups: Wakeups | None = None
    default_project: str = DEFAULT_PROJECT
    intent_s: float = 60.0
    releasing: asyncio.Lock = field(default_factory=asyncio.Lock)
