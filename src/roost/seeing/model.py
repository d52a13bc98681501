"""The words of the operator's side: drains and recoveries, their plans and their progress."""

from datetime import datetime
from enum import Enum

from msgspec import Struct

PARALLEL_DEFAULT = 4
PARALLEL_MAX = 200


class DrainKind(Enum):
    """DRAIN: servers leave hosts that are there. RECOVER: they are made again elsewhere, as their hosts are dead."""

    DRAIN = "drain"
    RECOVER = "recover"


class DrainRequest(Struct, frozen=True, kw_only=True):
    """What an operator asks for.

    hosts: by name, in order, each once. segment: that all of them reach, as the operator named it; None: hosts were
    named. parallel: moves under way at once. deadline_s: seconds from now after which no move begins, None for never.
    readdress: servers may get other addresses, where no host that reaches theirs has room.
    """

    kind: DrainKind
    hosts: tuple[str, ...]
    segment: str | None = None
    parallel: int = PARALLEL_DEFAULT
    deadline_s: float | None = None
    readdress: bool = False


class ServerStaying(Struct, frozen=True, kw_only=True):
    """A server that is still on its host. reason: a sentence. final: nothing more is done about it."""

    server_id: str
    name: str
    host: str
    reason: str
    final: bool = True


class DrainProgress(Struct, frozen=True, kw_only=True):
    """How the servers of the hosts stood at the last look.

    ready: how many wait for their turn. moving: how many are under way. staying: the others, each with its reason.
    """

    ready: int = 0
    moving: int = 0
    staying: tuple[ServerStaying, ...] = ()

    @property
    def servers_left(self) -> int:
        """Return how many servers have not left."""
        return self.ready + self.moving + len(self.staying)


DRAINED = "roost drain "
"""How the reasons of hosts begin that drains disabled."""


class Drain(Struct, frozen=True, kw_only=True):
    """A drain or a recovery, as it is kept.

    request_id: of every move that it begins. servers: the most that were on its hosts. overdue: its deadline passed.
    cancelled: it begins no move any more, and opens the hosts that it closed.
    """

    id: int
    kind: DrainKind
    hosts: tuple[str, ...]
    segment: str | None
    parallel: int
    readdress: bool
    project_id: str
    user_id: str
    request_id: str
    servers: int
    progress: DrainProgress
    cancelled: bool
    created_at: datetime
    deadline_at: datetime | None = None
    ended_at: datetime | None = None
    overdue: bool = False

    @property
    def reason(self) -> str:
        """Return why a host is disabled that this drain disabled: by it the host is known again."""
        return f"{DRAINED}{self.id}"

    @property
    def state(self) -> str:
        """Return the state in a word."""
        if self.ended_at is None:
            return "cancelling" if self.cancelled else "running"
        return "cancelled" if self.cancelled else "done"


class DrainPlan(Struct, frozen=True, kw_only=True):
    """What a drain would do, by the capacity that there is for all of its servers together.

    servers: how many are on the hosts. live, cold, evacuated: how many would go, and how. staying: those that cannot.
    """

    servers: int
    live: int = 0
    cold: int = 0
    evacuated: int = 0
    staying: tuple[ServerStaying, ...] = ()
