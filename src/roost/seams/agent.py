"""The words between the agents and the compute service: what a host is asked for, what its agent reports.

They are the bodies of the agent API. An agent may be older or newer than the Roost that it serves: a field that the
reader does not know is ignored, and one that came later has a default. The bounds are those of the API, which alone
checks them: it decodes, an agent only encodes.

No other project's service could take the API's place: Nova speaks to its agents over a message queue.
"""

from enum import Enum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from roost.platform.errors import Retry, RoostError
from roost.seams.compute import ServerPort
from roost.seams.guests import DiskKept, GuestImage, MemorySource, NicNetwork

HOSTS_MAX = 20_000
"""Hosts in one body; who has more of them makes several calls."""
ORDERS_BUSY_MAX = 20_000
REPORTS_MAX = 2_000
GUESTS_MAX = 20_000

Uuid = Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]+$")]
NameOrNone = Annotated[str, Meta(max_length=255, pattern=r"^[^\x00]*$")]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Sequence = Annotated[int, Meta(ge=0, le=2**63 - 1)]

FENCE_AFTER_MAX_S = 86400.0
SECRET_CHARS_MAX = 128
MARK_CHARS_MAX = 128
NICS_MAX = 64
SERVICE_VERSION = 6
"""Of this release's agents."""
SERVICE_VERSION_UNSAID = 4
"""Of an agent that does not say it."""

CELL_DEFAULT = "cell1"
"""Of hosts of which nobody says a cell."""

GuestPort = ServerPort
"""One NIC of a guest, as its agent is told of it."""

Desired = Literal["running", "stopped", "paused", "suspended", "incoming", "absent"]
"""What a guest is to be. stopped, suspended: its NICs are down. incoming: with its NICs down it takes over the memory
of the guest on the server's source. absent: nothing is left of it."""
NICS_UP = ("running", "paused")
"""What a guest has its NICs up in."""
PowerState = Literal["running", "paused", "shutdown", "crashed", "suspended"]
"""What a guest does, whatever was asked of it. crashed: it ended by an error. Source: Nova's power states."""
GuestState = Literal["begun", "running", "stopped", "paused", "suspended", "incoming", "unchanged", "failed", "absent"]

GuestKey = tuple[str, str]
"""(server_id, host): one place where a server's guest can be."""


class AgentIdentity(Struct, frozen=True, kw_only=True):
    """An agent instance: its id stays with its guests over restarts; label: what people know it by.

    service_version: whose contract it speaks. 1: it makes, binds and deletes ports itself; 2: it binds those that it is
    given; 3 and later: they are bound for it; 5 and later: it says what its guests are; 6 and later: it is told what is
    around them. fence_after_s: its guests have their NICs down so long after its last lease ended, also if it is dead
    by then; None: it promises nothing. boot_id: drawn at each of its starts. secret: its own, which proves that it is
    the one that had the id before; "": none. mark: the last that it was told. keeps_disks: its guests have root
    disks, which are on their hosts; None: it does not say, and its hosts have what they had.
    """

    id: Uuid
    label: NameOrNone = ""
    service_version: Count = SERVICE_VERSION_UNSAID
    fence_after_s: Annotated[float, Meta(gt=0, le=FENCE_AFTER_MAX_S)] | None = None
    boot_id: Uuid | None = None
    secret: Annotated[str, Meta(max_length=SECRET_CHARS_MAX)] = ""
    mark: Annotated[str, Meta(max_length=MARK_CHARS_MAX)] = ""
    described: bool = False
    keeps_disks: bool | None = None


class HostReport(Struct, frozen=True, kw_only=True):
    """What an agent, or a cloud file, says of a host: what it has, which physical networks it reaches, and its cell."""

    name: str
    vcpus: Count
    ram_mb: Count
    disk_gb: Count
    physical_networks: tuple[Name, ...] = ()
    cell: Name = CELL_DEFAULT
    service_version: Count = SERVICE_VERSION_UNSAID


class GuestAttempt(Struct, frozen=True, kw_only=True):
    """A guest on a host, as this attempt made it, or is to."""

    server_id: Uuid
    host: str
    attempt: Count

    @property
    def key(self) -> GuestKey:
        """Return where it is, or is to be."""
        return (self.server_id, self.host)


class GuestNic(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A NIC as a guest has it. up: it sends and receives. port_id, network_id: as the order had them."""

    mac_address: Annotated[str, Meta(pattern="^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]
    addresses: Annotated[tuple[Annotated[str, Meta(max_length=45)], ...], Meta(max_length=NICS_MAX)] = ()
    up: bool = True
    port_id: Uuid | None = None
    network_id: Uuid | None = None


class ListedGuest(GuestAttempt, frozen=True, kw_only=True, omit_defaults=True):
    """A guest as its host has it. state: in an order's words; None: its agent is of a version that does not say.

    sequence: of the driver's, higher with each change of any of the host's guests. resume: its host's restart stopped
    it, and it is to run again. name, project_id, sizes: as they were ordered. nics_version: of the order whose NICs it
    has; None: its agent does not say.
    """

    state: Desired | None = None
    power_state: PowerState | None = None
    sequence: Sequence = 0
    resume: bool = False
    nics: Annotated[tuple[GuestNic, ...], Meta(max_length=NICS_MAX)] = ()
    name: NameOrNone = ""
    project_id: NameOrNone = ""
    vcpus: Count = 0
    ram_mb: Count = 0
    disk_gb: Count = 0
    nics_version: Count | None = None


class OrderId(GuestAttempt, frozen=True, kw_only=True):
    """What tells an order from all others. hurry: memory is to be taken over now, at the price of a longer pause."""

    desired: Desired
    hurry: bool = False


class GuestOrder(OrderId, frozen=True, kw_only=True):
    """What a host is to do: have this guest in a state, or have it gone. ports: the server's NICs as they are bound.

    Of a guest that is to be gone there are none, but for old agents: where its server is deleted and no other host has
    a guest of it. networks: what is around the ports' NICs. hostname: as the guest is to call itself. image: None
    for a guest without one. disk: that a guest which is made goes on with; None where it begins anew. soft: a guest
    that is to stop, or is made anew, is asked to shut down first. meeting: where it sends its memory; one that is to
    stop, and sends none, its disk. nics_version: another one than the guest has says that its NICs, or what is
    around them, have changed: it is to have exactly these. request_id, global_request_id: of the
    last action on the server, or else of its creation, for logs.
    """

    name: str = ""
    project_id: str = ""
    vcpus: int = 0
    ram_mb: int = 0
    disk_gb: int = 0
    ports: tuple[ServerPort, ...] = ()
    networks: tuple[NicNetwork, ...] = ()
    hostname: str = ""
    image: GuestImage | None = None
    disk: DiskKept | None = None
    soft: bool = False
    meeting: MemorySource | None = None
    request_id: str = ""
    global_request_id: str = ""
    nics_version: int = 0

    @property
    def id(self) -> OrderId:
        """Return what tells it from all others."""
        return OrderId(
            server_id=self.server_id, host=self.host, attempt=self.attempt, desired=self.desired, hurry=self.hurry
        )

    @property
    def keeps_disk(self) -> bool:
        """Return whether the guest goes on with the disk that is on its host."""
        return self.disk is not None and self.disk.host == self.host


class GuestReport(GuestAttempt, frozen=True, kw_only=True):
    """What became of a guest. state: begun is before it runs; failed leaves nothing of it.

    unchanged: it is as it was, since the host could not do what was desired. message: why not. by_itself: it is what
    power_state says, and nobody asked for that. Its state is unchanged, which tells a Roost without own states nothing.
    sequence: as in a list. meeting: where a guest that begins awaits its memory, or its disk; of a source, the one that
    its order named. nics_version: of the order, whose NICs the guest has now; None: its agent does not say.
    """

    state: GuestState
    message: str = ""
    desired: Desired | None = None
    by_itself: bool = False
    power_state: PowerState | None = None
    sequence: Sequence = 0
    meeting: MemorySource | None = None
    nics_version: Count | None = None


class Refusal(Enum):
    """What a refused report means for the guest. Unknown: nothing, it stays as it is, and a person decides.

    SUPERSEDED: the server is elsewhere, or has been made anew; the guest must go. NO_LEASE: another agent serves the
    host; the report may be made again once this one does.
    """

    UNKNOWN = "unknown"
    SUPERSEDED = "superseded"
    NO_LEASE = "no-lease"

    @classmethod
    def _missing_(cls, _value: object) -> "Refusal":
        """Leave the guest alone where a later Roost gives a reason that this one does not know."""
        return cls.UNKNOWN


class ReportAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What becomes of one report. Refused: nothing changed; reason: a sentence, refusal: what it means."""

    server_id: str
    host: str
    accepted: bool
    reason: str = ""
    refusal: Refusal | None = None


class HeldElsewhere(Struct, frozen=True, kw_only=True):
    """A host that another agent serves. since: ISO 8601. ends_in_s: seconds until its lease ends, unless renewed."""

    host: str
    holder: str = ""
    since: str = ""
    ends_in_s: float | None = None

    def sentence(self) -> str:
        """Return it in words."""
        sentence = f"host {self.host} is served by agent {self.holder} since {self.since}"
        if self.ends_in_s is None:
            return sentence
        return f"{sentence}, whose lease ends in {self.ends_in_s:.0f} s unless it is renewed"


# The bodies, and the answers to them.


class HostsBody(Struct, frozen=True, kw_only=True):
    """PUT /hosts: the hosts that the agent serves."""

    agent: AgentIdentity
    hosts: Annotated[tuple[HostReport, ...], Meta(max_length=HOSTS_MAX)]


class PollBody(Struct, frozen=True, kw_only=True):
    """POST /poll. hosts: None for every host that a cloud file declared. busy: the orders that are worked on."""

    agent: AgentIdentity
    hosts: Annotated[tuple[str, ...], Meta(max_length=HOSTS_MAX)] | None
    wait_s: Annotated[float, Meta(ge=0)] = 0.0
    busy: Annotated[tuple[OrderId, ...], Meta(max_length=ORDERS_BUSY_MAX)] = ()


class Polled(Struct, frozen=True, kw_only=True):
    """The answer to a poll. elsewhere: hosts that other agents serve, of which there are no orders.

    lease_s: for how long the agent may trust its leases from when it asked, plus held_s, for which the poll was held.
    as_of: the database's time, in seconds since 1970, at which the agent held them; its next list of guests names it.
    mark: to be kept, and said in every later call; "": none. list_wanted: all guests are to be listed now.
    """

    orders: tuple[GuestOrder, ...]
    elsewhere: tuple[HeldElsewhere, ...] = ()
    lease_s: float
    held_s: float
    as_of: float
    mark: str = ""
    list_wanted: bool = False


class ReportsBody(Struct, frozen=True, kw_only=True):
    """POST /reports."""

    agent: AgentIdentity
    reports: Annotated[tuple[GuestReport, ...], Meta(max_length=REPORTS_MAX)]


class ReportsAnswered(Struct, frozen=True):
    """The answer to reports: one for each, in order. mark: as in the answer to a poll."""

    reports: tuple[ReportAnswer, ...]
    mark: str = ""


class GuestsBody(Struct, frozen=True, kw_only=True):
    """POST /guests: all guests that the agent has on hosts above `after` and up to `until`; None: on all that follow.

    as_of: of the answer to the agent's last poll before it looked which guests it has.
    """

    agent: AgentIdentity
    guests: Annotated[tuple[ListedGuest, ...], Meta(max_length=GUESTS_MAX)]
    as_of: Annotated[float, Meta(ge=0)]
    after: NameOrNone = ""
    until: Name | None = None


class GuestsCompared(Struct, frozen=True):
    """The answer to a list of guests: those that the agent must destroy."""

    superseded: tuple[GuestAttempt, ...]


class ReleaseBody(Struct, frozen=True, kw_only=True):
    """POST /release: other agents may have the hosts."""

    agent: AgentIdentity


# The network service, as who works with it over its API meets it.


class NetworkRefused(RoostError):
    """The network service refuses what the agent, or the conductor, asks of it.

    status: of its answer. repeat: the same may do at once.
    """

    def __init__(self, detail: str, *, status: int, repeat: bool = False) -> None:
        super().__init__(detail)
        self.status = status
        self.repeat = repeat

    @property
    def is_credentials(self) -> bool:
        """Return whether the credentials are what is wrong."""
        return self.status in (401, 403)


class NetworkAway(RoostError):
    """The network service does not answer now."""

    retry = Retry.NOW
    is_confidential = True
