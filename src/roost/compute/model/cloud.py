"""The words of what a cloud has for servers: flavors, hosts and their aggregates."""

from collections.abc import Mapping
from datetime import date, datetime
from enum import Enum

from msgspec import Struct

from roost.seams.agent import AgentIdentity, HostReport


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
    gets no server yet, also if it is up again. cell_silent: no conductor of its cell is there. too_old: its agent is of
    a lower service version than [compute] service_version_min. waiting: registered by an agent with a token, and
    disabled until an operator accepts it. idle: its agent polls, and began none of the launches that it was asked for.
    fence_after_s: its agent promises that its guests' NICs are down so long after the last lease ended; None: it
    promises nothing. promise_kept: the host is silent, and so long has passed.
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
    too_old: bool = False
    waiting: bool = False
    idle: bool = False
    fence_after_s: float | None = None
    promise_kept: bool = False


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


class AgentToken(Struct, frozen=True, kw_only=True):
    """A token as it is kept and listed: without itself and without its hash.

    hosts: names and patterns. last_used_on: a day in UTC, None for never. revoked_at: None while the token counts.
    """

    id: str
    name: str
    hosts: tuple[str, ...]
    created_at: datetime
    last_used_on: date | None
    revoked_at: datetime | None


class LiveToken(Struct, frozen=True, kw_only=True):
    """A token that counts, as requests are compared with it. used_today: whether `last_used_on` is today."""

    id: str
    token_sha256: bytes
    hosts: tuple[str, ...]
    used_today: bool


class HostLease(Struct, frozen=True, kw_only=True):
    """The lease on a host that an agent asks for. taken: the agent has it, by this or an earlier renewal.

    holder, since: who had it before this renewal; None for nobody. heard_s: seconds since another holder was heard of.
    """

    host: str
    taken: bool
    holder: AgentIdentity | None
    since: datetime | None
    heard_s: float | None = None


class HostRow(Struct, frozen=True):
    """A host, and which state of it was wanted and published when it was read. created: by this very statement."""

    host: Host
    state_wanted: int
    state_published: int
    created: bool = False


class HostStateChange(Struct, frozen=True, kw_only=True):
    """A host as an operator's change left it, and what it was before."""

    host: Host
    was_disabled: bool
    was_forced_down: bool


class KnownHosts(Struct, frozen=True):
    """What is known of the hosts that an agent registers. names: of those that exist already.

    waiting: all hosts that wait, whosesoever. cells: those of the reports that a conductor or an accepted host is of.
    """

    names: frozenset[str]
    waiting: frozenset[str]
    cells: frozenset[str]


class HostUpsert(HostReport, frozen=True, kw_only=True):
    """A reported host as a row; physical_networks sorted, each once."""

    provider_uuid: str


class LaunchRecord(Struct, frozen=True, kw_only=True):
    """How a host took the launches that it was asked for lately.

    unbegun: those that it did not begin, one after another. unbegun_at: when the last of them was given up. idle: it is
    closed for that. probe_at: when it is, or was, opened for one launch; probe_after_s: how long after it was closed, 0
    for a host that was not. begun_at: when it last began one. asked_at: when it was last asked for one that it has not
    begun. networks: the physical networks that it reaches.
    """

    host: str
    unbegun: int = 0
    unbegun_at: datetime | None = None
    idle: bool = False
    probe_at: datetime | None = None
    probe_after_s: float = 0.0
    begun_at: datetime | None = None
    asked_at: datetime | None = None
    networks: tuple[str, ...] = ()


class HostUse(Enum):
    """What keeps a host from being removed."""

    SERVERS = "servers"
    MOVES = "moves"
    NOTHING = "nothing"
