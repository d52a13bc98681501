"""The words of the pipeline: stages, their order, moves, and what is kept of a server at work."""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from msgspec import Struct

from roost.compute.model.cloud import Flavor
from roost.seams.compute import RequestSpec, ServerPort
from roost.seams.guests import MemorySource

WORK_CHANNEL = "roost_work"
"""Wakes conductors: a server has a stage to do."""
GUEST_CHANNEL = "roost_guest"
"""Wakes agents that poll: a host has an order."""
CHANNELS = (WORK_CHANNEL, GUEST_CHANNEL)


class Stage(Enum):
    """Where a server's work stands; docs/design.md section 6.

    ALLOCATE: it gets its addresses on flat networks; without any it goes from PLACE on. ASK: its host is asked for the
    guest with the ports as they are, which the host's agent then makes and binds (BuildOrder).
    LAUNCH waits for the agent; a conductor leases it once its time is over. SETTLE: it is ACTIVE, its reservations of
    ports end. RETRY and FAIL follow a failure; FAIL and DELETE wait until no host has a guest of the server any more.
    Of moves alone: HOLD notes what the server has, COPY waits for a guest that takes over the memory of the one that
    runs, STOP until the source's NICs are down, RESTORE until the server is again what it was, CONFIRM and OFFLOAD
    until a guest that is no longer wanted is gone.
    """

    CREATE_PORTS = "create_ports"
    PLACE = "place"
    ALLOCATE = "allocate"
    BIND = "bind"
    ASK = "ask"
    LAUNCH = "launch"
    SETTLE = "settle"
    RETRY = "retry"
    FAIL = "fail"
    DELETE = "delete"
    HOLD = "hold"
    COPY = "copy"
    STOP = "stop"
    RESTORE = "restore"
    CONFIRM = "confirm"
    OFFLOAD = "offload"


class BuildOrder(Struct, frozen=True, kw_only=True):
    """The stages that a server's build goes through, chosen once, at its beginning; `conductor/orders.py`.

    reason: why this order, in words for operators.
    """

    name: str
    stages: tuple[Stage, ...]
    reason: str = ""
    chosen_at: datetime | None = None

    @property
    def makes_ports(self) -> bool:
        """Return whether the ports are made before a host is chosen."""
        return Stage.CREATE_PORTS in self.stages

    @property
    def port_maker(self) -> str:
        """Return who makes the ports of the server's NICs, in the words of its network info."""
        return "conductor" if self.makes_ports else "agent"

    def after(self, stage: Stage) -> Stage:
        """Return the stage that follows."""
        return self.stages[self.stages.index(stage) + 1]

    def sentence(self) -> str:
        """Return the order in words; who asks the host for the guest is no matter of operators."""
        shown = " -> ".join(stage.value for stage in self.stages if stage is not Stage.ASK)
        return f"{self.name}: {shown}, since {self.reason}"


EARLY = BuildOrder(
    name="early",
    stages=(Stage.CREATE_PORTS, Stage.PLACE, Stage.BIND, Stage.LAUNCH),
    reason="every live agent understands it and the conductor has network credentials",
)
"""Also the order of servers that are older than the choice."""


class Credentials(Struct, frozen=True):
    """Whether a conductor may work with the network service. reason: why not, or what they are."""

    usable: bool
    reason: str = ""


LOCAL_CREDENTIALS = Credentials(True, "the network service is of the same Roost")


class MoveKind(Enum):
    """What a server is on its way to; the first four as os-migrations calls them, the others are in no such list."""

    MIGRATE = "migration"
    RESIZE = "resize"
    LIVE = "live-migration"
    EVACUATE = "evacuation"
    SHELVE = "shelve"
    UNSHELVE = "unshelve"


class Placed(Struct, frozen=True, kw_only=True):
    """What `place` claimed. providers_by_port: port id -> provider that its addresses are claimed from.

    classes_by_port: port id -> the resource classes of which it claimed one each; empty: none of its addresses are
    counted; no entry: it had its addresses already, or an older Roost claimed IPv4 alone.
    generations: consumer UUID -> the generation that this claim gave it, which a release of it names.
    addresses_left: port id -> its addresses, which it exchanges for those that are claimed for it here.
    """

    host: str
    providers_by_port: Mapping[str, str]
    generations: Mapping[str, int]
    classes_by_port: Mapping[str, tuple[str, ...]] = {}
    addresses_left: Mapping[str, tuple[str, ...]] = {}


class Plan(Struct, frozen=True, kw_only=True):
    """What a move's stages need of it, kept with it.

    spec, flavor: of the server on its destination; old_spec, old_flavor: on its source. power: the state that the guest
    is to be in. dest_power: that state on the destination, where it is another. was_error: the server's status was
    ERROR before. held: what the server's claim was on its source, once HOLD has read it, without addresses of flat
    networks. addresses: port id -> the addresses that it had then; None where nobody has noted them, as in a move that
    an older Roost began. action_id: of its record. readdress: addresses on routed networks may be exchanged for others.
    """

    spec: RequestSpec
    flavor: Flavor
    old_spec: RequestSpec
    old_flavor: Flavor
    power: str = "running"
    was_error: bool = False
    held: Mapping[str, Mapping[str, int]] | None = None
    addresses: Mapping[str, tuple[str, ...]] | None = None
    action_id: int | None = None
    dest_power: str | None = None
    readdress: bool = False

    @property
    def power_wanted(self) -> str:
        """Return the state of the guest on the destination."""
        return self.dest_power or self.power


class Move(Struct, frozen=True, kw_only=True):
    """A server on its way. uuid: also the consumer that holds what the server had on its source.

    status: as os-migrations shows it. source_host: None where it had none.
    """

    uuid: str
    kind: MoveKind
    status: str
    source_host: str | None
    plan: Plan


class Cause(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which requirement left a server without a host, in one word, and where: a network, or one segment of it.

    is_common: the network is routed or shared, so that figures name it: the others are as many as projects like.
    """

    requirement: str
    network_id: str | None = None
    network: str = ""
    segment_id: str | None = None
    segment: str = ""
    is_common: bool = False


class Failure(Struct, frozen=True, kw_only=True):
    """Why a server cannot be had, for its `fault` and for `explain`.

    message: one sentence for people. funnel: (requirement, hosts left), in order, where hosts ran out. aborted: a user
    asked for it. kind: of what Roost believes of a host, and which the host may show to be wrong; else "". cause: what
    the funnel ended with, None where there is none.
    """

    message: str
    host: str | None = None
    aborted: bool = False
    funnel: tuple[tuple[str, int], ...] = ()
    kind: str = ""
    cause: Cause | None = None


GUEST_LOST = "guest-lost"
"""The server's host has not got its guest."""
HOST_LOST = "host-lost"
"""The server's host is down, and did not do what a move needed."""


class Work(Struct, frozen=True, kw_only=True):
    """A leased work row with what its stages need to know of its server.

    attempt: the fence. epoch: attempts that are drawn are above it. failures: launches that failed or did not begin in
    time, and refused binds.
    active: whether the server ever ran. host: where it is now. move: what it is on its way to. order: None for one that
    is still to be chosen, or that is older than the choice.
    """

    server_id: str
    stage: Stage
    attempt: int
    failures: int
    excluded_hosts: tuple[str, ...]
    placed: Placed | None
    failure: Failure | None
    deleting: bool
    name: str
    project_id: str
    user_id: str
    spec: RequestSpec
    active: bool
    host: str | None = None
    move: Move | None = None
    order: BuildOrder | None = None
    epoch: int = 0

    @property
    def attempt_next(self) -> int:
        """Return the attempt of the next guest: no host can have had one of it."""
        return max(self.attempt, self.epoch) + 1

    @property
    def stages(self) -> BuildOrder:
        """Return the order of its stages."""
        return self.order or EARLY


class Marks(Struct, frozen=True):
    """What others want of a work row while a conductor has it: a delete waits, or the build must end, and why.

    stage: where it stands. kind, source_host, action_id: of the move that it is in; None for a build.
    """

    server_id: str
    stage: Stage
    deleting: bool
    must_fail: Failure | None = None
    action_id: int | None = None
    kind: MoveKind | None = None
    source_host: str | None = None


class Launch(Struct, frozen=True, kw_only=True):
    """A guest that a host was asked to launch: seconds since then, since it began, since the host was heard of.

    unknown_on: a host with a guest of the server, or with one of its addresses, that the records do not know: until it
    is adopted or gone nobody makes another.
    """

    asked_s: float
    begun_s: float | None = None
    heard_s: float | None = None
    host_down: bool = False
    host: str = ""
    reported: str | None = None
    unknown_on: str | None = None


class GuestPlace(Struct, frozen=True, kw_only=True):
    """A guest of a moving server. host_down: nobody hears of it; fenced: its host is known to have no NIC of it up."""

    host: str
    attempt: int
    desired: str
    reported: str | None
    lost: bool
    fenced: bool
    host_down: bool

    @property
    def is_down(self) -> bool:
        """Return whether its NICs are down: its host says so, and was not asked for another state since."""
        return self.desired == self.reported and self.reported in ("stopped", "suspended")


class ServerChange(Struct, frozen=True, kw_only=True):
    """What a change of stage writes on its server.

    fault, network_info, power, flavor, spec: None leaves the one that it has.
    """

    status: str
    task_state: str | None = None
    host: str | None = None
    fault: Failure | None = None
    network_info: tuple[ServerPort, ...] | None = ()
    power: str | None = None
    flavor: Flavor | None = None
    spec: RequestSpec | None = None


class StageChange(Struct, frozen=True, kw_only=True):
    """Where a server's work goes next, and what that changes, written in one transaction under its lease.

    stage: None when the work is done; gone: the server is deleted with it. keep: the lease stays for the next stage;
    without it any conductor may take the row after delay_s. guest_host: the host that is asked to launch it, in the
    state `desired`. guests_wanted: host -> what a guest that is there already is to be. move: what is written of it;
    move_ends: nothing is held for it any more. note: what the event of the stage says, if it went well.
    """

    server_id: str
    stage: Stage | None
    attempt: int = 0
    failures: int = 0
    excluded_hosts: tuple[str, ...] = ()
    placed: Placed | None = None
    failure: Failure | None = None
    keep: bool = False
    delay_s: float = 0.0
    gone: bool = False
    guest_host: str | None = None
    desired: str = "running"
    guests_wanted: Mapping[str, str] = {}
    server: ServerChange | None = None
    move: Move | None = None
    move_ends: bool = False
    note: str | None = None


LAUNCHING = (Stage.LAUNCH, Stage.COPY)
"""Stages that wait until a host has made a guest."""


WAITING = (Stage.DELETE, Stage.FAIL)
"""Stages that wait until no host has a guest of the server."""


class ServerContext(Struct, frozen=True, kw_only=True):
    """What there is of a server beside its row. stage: of its work, None for none. moving: a move of it is not over.

    power_desired: what its guest on its host is to be, None where none is asked for; guest_lost: that guest is gone.
    keeps_disks: its host has the root disks of its guests.
    """

    stage: Stage | None = None
    moving: bool = False
    power_desired: str | None = None
    guest_lost: bool = False
    keeps_disks: bool = False


class Build(Struct, frozen=True, kw_only=True):
    """A server's work as it stands, at the moment it was read.

    leased: a conductor is at work on it. due_s: seconds until the next look, below zero when one is overdue.
    host: where it was placed, or where a guest of it may still be; host_down, cell: of that host.
    guest: None where no host was asked for one; begun: an agent has begun to make it.
    """

    server_id: str
    name: str
    project_id: str
    stage: Stage
    attempt: int
    failures: int
    since: datetime
    leased: bool
    due_s: float
    host: str | None = None
    host_down: bool = False
    cell: str | None = None
    guest: bool = False
    begun: bool = False


class Guest(Struct, frozen=True, kw_only=True):
    """A guest row: what a host should run, or let go of.

    agent_id: who began it, or lists it; None until somebody does. reported: the state it was
    last in, or None. lost: it was there, and its host has not got it. fenced: it is to go before its host makes any
    other. sequence: of the driver's, of the state that counted last. unknown_attempt: of the guest that its host has
    instead, which nobody asked for. since_s: when it was last reported on, in seconds of the database's clock. meeting:
    where it awaits another's memory, or its disk. nics_version: raised with each change of its server's ports;
    nics_reported: as of which of these changes it has its NICs.
    """

    server_id: str
    host: str
    attempt: int
    desired: str
    agent_id: str | None = None
    reported: str | None = None
    lost: bool = False
    fenced: bool = False
    sequence: int = 0
    unknown_attempt: int | None = None
    since_s: float = 0.0
    meeting: MemorySource | None = None
    nics_version: int = 0
    nics_reported: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Return where it is, or is to be."""
        return (self.server_id, self.host)

    @property
    def awaits_disk(self) -> bool:
        """Return whether it is made, and has said where it awaits the disk that it goes on with."""
        return self.meeting is not None and self.reported is None and self.desired not in ("incoming", "absent")


class ServerStanding(Struct, frozen=True, kw_only=True):
    """A locked server, as far as it says whether anything is done to it."""

    id: str
    status: str
    task_state: str | None
    host: str | None


class Retreat(Struct, frozen=True):
    """A launch is over without a guest. counts: it was a failure, and one attempt is used up."""

    failure: Failure
    counts: bool


class WorkState(Struct, frozen=True, kw_only=True):
    """What of a work row decides about a report. moving: the server is there already, and on its way elsewhere."""

    server_id: str
    stage: Stage
    attempt: int
    deleting: bool
    moving: bool = False

    def launches(self, attempt: int) -> bool:
        """Return whether the pipeline waits for the outcome of this very attempt, and still wants it."""
        return self.stage in LAUNCHING and self.attempt == attempt and not self.deleting

    def goes_on_with(self, attempt: int) -> bool:
        """Return whether what became of the guest of that attempt is what a move or an end waits for.

        A launch waits for its own guest alone: it is judged when it is looked at, so nothing else may wake it.
        """
        return self.waits_for_absence() or (self.moving and (self.stage not in LAUNCHING or self.attempt == attempt))

    def waits_for_absence(self) -> bool:
        """Return whether the pipeline goes on as soon as a host has let go of the server."""
        return self.stage in WAITING or self.deleting


class Heartbeat(Struct, frozen=True, kw_only=True):
    """A conductor. cells: none for all. silent_s: how long ago it was heard of."""

    cells: tuple[str, ...]
    credentials: Credentials
    silent_s: float
