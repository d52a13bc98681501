"""The words of the compute service: flavors, hosts, servers, guests, and the work rows of the pipeline."""

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

    ALLOCATE: it gets its addresses on flat networks; without any it goes from PLACE to BIND.
    LAUNCH waits for the agent; a conductor leases it once its time is over. SETTLE: it is ACTIVE, its reservations of
    ports end. RETRY and
    FAIL follow a failure; FAIL and DELETE wait until no host has a guest of the server any more.
    """

    CREATE_PORTS = "create_ports"
    PLACE = "place"
    ALLOCATE = "allocate"
    BIND = "bind"
    LAUNCH = "launch"
    SETTLE = "settle"
    RETRY = "retry"
    FAIL = "fail"
    DELETE = "delete"


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
    call it. disabled_reason: as its operator gave it.
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


class HostAggregate(Struct, frozen=True, kw_only=True):
    """An operator's group of hosts, or the hosts that reach a segment; mirrored as a placement aggregate."""

    id: int
    uuid: str
    name: str
    metadata: Mapping[str, str]
    hosts: tuple[str, ...]
    created_at: datetime
    updated_at: datetime


class Placed(Struct, frozen=True, kw_only=True):
    """What `place` claimed. providers_by_port: port id -> provider that its addresses are claimed from.

    classes_by_port: port id -> the resource classes of which it claimed one each; empty: none of its addresses are
    counted; no entry: it had its addresses already, or an older Roost claimed IPv4 alone.
    generations: consumer UUID -> the generation that this claim gave it, which a release of it names.
    """

    host: str
    providers_by_port: Mapping[str, str]
    generations: Mapping[str, int]
    classes_by_port: Mapping[str, tuple[str, ...]] = {}


class Failure(Struct, frozen=True, kw_only=True):
    """Why a server cannot be had, for its `fault` and for `explain`.

    message: one sentence for people. funnel: (requirement, hosts left), in order, where hosts ran out.
    """

    message: str
    host: str | None = None
    funnel: tuple[tuple[str, int], ...] = ()


class Work(Struct, frozen=True, kw_only=True):
    """A leased work row with what its stages need to know of its server.

    attempt: the fence. failures: launches that failed or did not begin in time, and refused binds.
    active: whether the server ever ran.
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


class Marks(Struct, frozen=True):
    """What others want of a work row while a conductor has it: a delete waits, or the build must end, and why."""

    server_id: str
    deleting: bool
    must_fail: Failure | None = None


class Launch(Struct, frozen=True, kw_only=True):
    """A guest that a host was asked to launch: seconds since then, since it began, since the host was heard of."""

    asked_s: float
    begun_s: float | None = None
    heard_s: float | None = None
    host_down: bool = False


class ServerFault(Struct, frozen=True, kw_only=True):
    """Why a server is in ERROR, as kept with it: a Failure, whatever else was noted with it left out."""

    message: str = ""
    code: int = 500
    created_at: datetime | None = None
    details: str = ""
    host: str | None = None
    funnel: tuple[tuple[str, int], ...] = ()


class Server(Struct, frozen=True, kw_only=True):
    """A server as people see it. host_down: whether its host is down; ports: as last bound."""

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


class QuietServer(Struct, frozen=True, kw_only=True):
    """An ACTIVE server that nothing works on. provider_uuid: its host's, None for a host that is not known."""

    id: str
    name: str
    project_id: str
    user_id: str
    host: str | None
    provider_uuid: str | None
    spec: RequestSpec
    ports: tuple[ServerPort, ...]


class NicAsked(Struct, frozen=True, kw_only=True):
    """One NIC as a client asks for it: a port, or a network with perhaps an address of it."""

    network_id: str | None = None
    port_id: str | None = None
    fixed_ip: str | None = None
    tag: str | None = None


class ServerRequest(Struct, frozen=True, kw_only=True):
    """What a client asks for. nics None: it named none, so the only network is meant, if there is exactly one.

    auto: the only network is meant and must exist. flavor_ref: an id or a name. count: how many servers. host: the only
    one that will do.
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
    project_id: str
    user_id: str
    flavor: Flavor
    reservation_id: str
    spec: RequestSpec


class ServerFilter(Struct, frozen=True, kw_only=True):
    """Which servers to list; None leaves that condition out.

    name, ip, ip6: regular expressions, as in Nova; ip, ip6 of any address. statuses: one of them.
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


class ServerChange(Struct, frozen=True, kw_only=True):
    """What a change of stage writes on its server; fault: None leaves the one it has."""

    status: str
    task_state: str | None = None
    host: str | None = None
    fault: Failure | None = None
    network_info: tuple[ServerPort, ...] = ()


class StageChange(Struct, frozen=True, kw_only=True):
    """Where a server's work goes next, and what that changes, written in one transaction under its lease.

    stage: None when the work is done; gone: the server is deleted with it. keep: the lease stays for the next stage;
    without it any conductor may take the row after delay_s. guest_host: the host that is asked to launch it.
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
    server: ServerChange | None = None
