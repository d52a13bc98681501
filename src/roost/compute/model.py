"""The words of the compute service, in one file because all its rooms speak them.

Flavors, hosts, servers, their actions, moves, guests, and the pipeline's rows.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from msgspec import Struct

from roost.seams.compute import RequestSpec, ServerPort

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
    """The stages that a server's build goes through, chosen once, at its beginning; `compute/rules/orders.py`.

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


class Flavor(Struct, frozen=True, kw_only=True):
    """A size of servers."""

    id: str
    name: str
    vcpus: int
    ram_mb: int
    disk_gb: int
    description: str | None = None
    extra_specs: Mapping[str, str] = {}
    is_public: bool = True


class FlavorFilter(Struct, frozen=True, kw_only=True):
    """Which flavors to list. is_public: None for all."""

    is_public: bool | None = None
    ram_mb_min: int = 0
    disk_gb_min: int = 0


EVERY_FLAVOR = FlavorFilter()


class Host(Struct, frozen=True, kw_only=True):
    """A hypervisor and its provider. declared: by a cloud file, so an agent's report changes no capacity.

    down: forced down, or noted as silent: not heard of for too long, or never. id: what clients below microversion 2.53
    call it. disabled_reason: as its operator gave it. down_told: the ledger was last told that it is down, so that it
    gets no server yet, also if it is up again. cell_silent: no conductor of its cell is there.
    """

    id: int
    name: str
    provider_uuid: str
    vcpus: int
    ram_mb: int
    disk_gb: int
    physical_networks: tuple[str, ...]
    cell: str
    declared: bool
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    service_version: int
    seen_at: datetime | None
    down: bool = False
    down_told: bool = False
    cell_silent: bool = False


class HostAggregate(Struct, frozen=True, kw_only=True):
    """A group of hosts, mirrored as a placement aggregate.

    of_operator: else it is of the hosts that reach a segment.
    """

    id: int
    uuid: str
    name: str
    metadata: Mapping[str, str]
    hosts: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    of_operator: bool = False


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
    networks. action_id: of its record. readdress: addresses on routed networks may be exchanged for others.
    """

    spec: RequestSpec
    flavor: Flavor
    old_spec: RequestSpec
    old_flavor: Flavor
    power: str = "running"
    was_error: bool = False
    held: Mapping[str, Mapping[str, int]] | None = None
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


class Migration(Struct, frozen=True, kw_only=True):
    """A move as it is on record, the ended ones too."""

    id: int
    uuid: str
    server_id: str
    kind: MoveKind
    status: str
    source_host: str | None
    dest_host: str | None
    project_id: str
    user_id: str
    created_at: datetime
    updated_at: datetime


class MigrationFilter(Struct, frozen=True, kw_only=True):
    """Which migrations to list; None leaves that condition out. host: source or destination. open: under way."""

    server_id: str | None = None
    status: str | None = None
    kind: str | None = None
    host: str | None = None
    source_host: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    open: bool | None = None


class Failure(Struct, frozen=True, kw_only=True):
    """Why a server cannot be had, for its `fault` and for `explain`.

    message: one sentence for people. funnel: (requirement, hosts left), in order, where hosts ran out. aborted: a user
    asked for it.
    """

    message: str
    host: str | None = None
    aborted: bool = False
    funnel: tuple[tuple[str, int], ...] = ()


class Work(Struct, frozen=True, kw_only=True):
    """A leased work row with what its stages need to know of its server.

    attempt: the fence. failures: launches that failed or did not begin in time, and refused binds.
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
    """A guest that a host was asked to launch: seconds since then, since it began, since the host was heard of."""

    asked_s: float
    begun_s: float | None = None
    heard_s: float | None = None
    host_down: bool = False
    host: str = ""
    reported: str | None = None


class GuestPlace(Struct, frozen=True, kw_only=True):
    """A guest of a moving server. host_down: nobody hears of it; fenced: nothing waits for it any more."""

    host: str
    attempt: int
    desired: str
    reported: str | None
    lost: bool
    fenced: bool
    host_down: bool


class ServerFault(Struct, frozen=True, kw_only=True):
    """Why a server is in ERROR, as kept with it: a Failure, whatever else was noted with it left out."""

    message: str = ""
    code: int = 500
    created_at: datetime | None = None
    details: str = ""
    host: str | None = None
    funnel: tuple[tuple[str, int], ...] = ()


class Server(Struct, frozen=True, kw_only=True):
    """A server as people see it. host_down: whether its host is down; ports: as last bound.

    status, vm_state: as clients are shown them. power: the state of its guest. zone: that a host aggregate puts its
    host into, None for none.
    """

    id: str
    name: str
    project_id: str
    user_id: str
    flavor: Flavor
    image_ref: str
    metadata: Mapping[str, str]
    description: str | None
    reservation_id: str
    launch_index: int
    spec: RequestSpec
    ports: tuple[ServerPort, ...]
    status: str
    task_state: str | None
    host: str | None
    host_down: bool
    fault: ServerFault | None
    created_at: datetime
    updated_at: datetime
    launched_at: datetime | None
    vm_state: str
    power: str = "running"
    locked: bool = False
    locked_reason: str | None = None
    tags: tuple[str, ...] = ()
    request_id: str = ""
    hostname: str = ""
    zone: str | None = None
    order: BuildOrder | None = None


class Requester(Struct, frozen=True, kw_only=True):
    """Who asks for an action, as its record says. is_admin: locks do not hold the caller up."""

    request_id: str
    project_id: str
    user_id: str
    is_admin: bool = False


class ServerUpdate(Struct, frozen=True, kw_only=True):
    """What of a server a client says anew; None leaves what it has, an empty description is none."""

    name: str | None = None
    description: str | None = None
    image_ref: str | None = None
    metadata: Mapping[str, str] | None = None
    hostname: str | None = None


class ActionEvent(Struct, frozen=True, kw_only=True):
    """What a host, a conductor or the API did for an action. result: Success or Error, None while it is at it.

    details: why it failed.
    """

    name: str
    started_at: datetime
    finished_at: datetime | None = None
    result: str | None = None
    host: str | None = None
    details: str | None = None


class ServerAction(Struct, frozen=True, kw_only=True):
    """What was asked of a server. project_id, user_id: whose request it was. message: Error where it failed."""

    request_id: str
    name: str
    project_id: str
    user_id: str
    started_at: datetime
    updated_at: datetime
    message: str | None = None
    events: tuple[ActionEvent, ...] = ()


class ActionFilter(Struct, frozen=True, kw_only=True):
    """Which actions of a server to list, by when they were last changed; None leaves that condition out."""

    changed_since: datetime | None = None
    changed_before: datetime | None = None


class NicAsked(Struct, frozen=True, kw_only=True):
    """One NIC as a client asks for it: a port, or a network with perhaps an address of it."""

    network_id: str | None = None
    port_id: str | None = None
    fixed_ip: str | None = None
    tag: str | None = None


class ServerRequest(Struct, frozen=True, kw_only=True):
    """What a client asks for. nics None: it named none, so the only network is meant, if there is exactly one.

    auto: the only network is meant and must exist. flavor_ref: an id or a name. count: how many servers. host: the only
    one that will do. hostname: None for one made of the name.
    """

    name: str
    flavor_ref: str
    nics: tuple[NicAsked, ...] | None = None
    auto: bool = False
    image_ref: str = ""
    count: int = 1
    metadata: Mapping[str, str] = {}
    description: str | None = None
    availability_zone: str | None = None
    host: str | None = None
    tags: tuple[str, ...] = ()
    hostname: str | None = None


class Permissions(Struct, frozen=True, kw_only=True):
    """What servers may use that is not their project's own, or shared.

    others: networks and ports of other projects, and flavors that are not public. external: networks that are external
    only.
    """

    others: bool
    external: bool


class NewServers(Struct, frozen=True, kw_only=True):
    """Servers that one request makes: alike but for id and name; the first has launch_index 0."""

    request: ServerRequest
    server_ids: tuple[str, ...]
    names: tuple[str, ...]
    hostnames: tuple[str, ...]
    project_id: str
    user_id: str
    flavor: Flavor
    reservation_id: str
    spec: RequestSpec
    request_id: str = ""


class ServerFilter(Struct, frozen=True, kw_only=True):
    """Which servers to list; None leaves that condition out.

    name, ip, ip6: regular expressions, as in Nova; ip, ip6 of any address. statuses: one of them. tags: all of them;
    tags_any: one; not_tags: not all; not_tags_any: none. zone: that the server's host is in; default_zone: of hosts
    that no host aggregate puts into one.
    """

    project_id: str | None = None
    user_id: str | None = None
    name: str | None = None
    statuses: tuple[str, ...] | None = None
    task_state: str | None = None
    host: str | None = None
    flavor_id: str | None = None
    image_ref: str | None = None
    ip: str | None = None
    ip6: str | None = None
    reservation_id: str | None = None
    server_id: str | None = None
    vm_state: str | None = None
    locked: bool | None = None
    tags: tuple[str, ...] | None = None
    tags_any: tuple[str, ...] | None = None
    not_tags: tuple[str, ...] | None = None
    not_tags_any: tuple[str, ...] | None = None
    zone: str | None = None
    default_zone: str = ""


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
