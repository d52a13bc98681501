"""The words of servers as clients ask for them and see them, with their actions and migrations."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from roost.compute.model.cloud import Flavor
from roost.compute.model.work import BuildOrder, MoveKind
from roost.seams.compute import RequestSpec, ServerPort


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

    status, vm_state: as clients are shown them. power: the state of its guest. power_state: what its host said of that,
    None where it follows from the state. zone: that a host aggregate puts its
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
    power_state: str | None = None
    locked: bool = False
    locked_reason: str | None = None
    tags: tuple[str, ...] = ()
    request_id: str = ""
    hostname: str = ""
    zone: str | None = None
    order: BuildOrder | None = None

    @property
    def has_crashed(self) -> bool:
        """Return whether its guest is stopped since it crashed."""
        return self.power == "stopped" and self.power_state == "crashed"


class Requester(Struct, frozen=True, kw_only=True):
    """Who asks for an action, as its record says. is_admin: locks do not hold the caller up.

    global_request_id: what the caller calls the request, None where it does not say.
    """

    request_id: str
    project_id: str
    user_id: str
    is_admin: bool = False
    global_request_id: str | None = None


class ServerUpdate(Struct, frozen=True, kw_only=True):
    """What of a server a client says anew; None leaves what it has, an empty description is none."""

    name: str | None = None
    description: str | None = None
    image_ref: str | None = None
    metadata: Mapping[str, str] | None = None
    hostname: str | None = None


class ActionEvent(Struct, frozen=True, kw_only=True):
    """What a host, a conductor or the API did for an action. result: Success or Error, None while it is at it.

    details: why it failed; of one that succeeded, what was decided.
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

    auto: the only network is meant and must exist. flavor_ref: an id or a name. count: how many servers; count_min: how
    many will do, if quotas leave no room for more. host: the only one that will do. hostname: None for one made of the
    name.
    """

    name: str
    flavor_ref: str
    nics: tuple[NicAsked, ...] | None = None
    auto: bool = False
    image_ref: str = ""
    count: int = 1
    count_min: int = 1
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


class ServerNetwork(Struct, frozen=True, kw_only=True):
    """What is kept with a server of its ports, and what of the server that follows from. order: None for the early."""

    id: str
    project_id: str
    spec: RequestSpec
    ports: tuple[ServerPort, ...]
    order: BuildOrder | None = None


class QuietServer(ServerNetwork, frozen=True, kw_only=True):
    """An ACTIVE server that nothing works on. provider_uuid: its host's, None for a host that is not known."""

    name: str
    user_id: str
    host: str | None
    provider_uuid: str | None


class ActionEnded(Struct, frozen=True, kw_only=True):
    """What a host was at, as the log names it. failure: why it was not done."""

    server_id: str
    name: str
    request_id: str
    project_id: str
    user_id: str
    failure: str | None


class ServerSnapshot(Struct, frozen=True, kw_only=True):
    """A server as it is now, and what it is in: the flavor that it is to have, its move, who asked for that."""

    server: Server
    request: Mapping[str, str | None]
    kind: MoveKind | None = None
    source_host: str | None = None
    new_flavor: Flavor | None = None
