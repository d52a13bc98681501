"""What placement lacks of the host aggregates' mirror, and how a run that makes it so ended."""

from collections.abc import Mapping, Sequence
from enum import IntEnum

from msgspec import Struct


class SyncStatus(IntEnum):
    """How a run ended, as an exit status. Source: nova-manage placement sync_aggregates; TO_DO is Roost's own."""

    DONE = 0
    PLACEMENT_FAILED = 2
    HOST_REFUSED = 3
    HOST_UNKNOWN = 5
    PROVIDER_MISSING = 6
    TO_DO = 7


class HostChange(Struct, frozen=True):
    """What differs for one host: names of the aggregates that its provider is to join, or to leave."""

    host: str
    joins: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()


class HostProblem(Struct, frozen=True):
    """Why one host could not be brought right."""

    host: str
    status: SyncStatus
    reason: str


class SyncReport(Struct, frozen=True, kw_only=True):
    """What one run found and did. changes: of hosts; stale: memberships that only --prune removes.

    others: providers of no host in aggregates that were deleted. failure: why the run was cut short.
    """

    changes: tuple[HostChange, ...] = ()
    stale: int = 0
    others: int = 0
    problems: tuple[HostProblem, ...] = ()
    failure: str | None = None
    dry_run: bool = False

    @property
    def status(self) -> SyncStatus:
        """Return the exit status: the gravest problem, else whether something is left to do."""
        if self.failure is not None:
            return SyncStatus.PLACEMENT_FAILED
        if self.problems:
            return max(problem.status for problem in self.problems)
        return SyncStatus.TO_DO if self.dry_run and (self.changes or self.others) else SyncStatus.DONE


class MirrorState(Struct, frozen=True, kw_only=True):
    """What should be, and what placement has, of the aggregates that are looked at: those of `names`, by UUID.

    former: those that were deleted. hosts_by_provider: of all hosts. aggregates_…: provider -> UUIDs of aggregates.
    unknown_hosts: members that are no hosts.
    """

    names: Mapping[str, str]
    former: frozenset[str]
    hosts_by_provider: Mapping[str, str]
    aggregates_wanted: Mapping[str, frozenset[str]]
    aggregates_present: Mapping[str, frozenset[str]]
    unknown_hosts: tuple[str, ...]


def list_changes(state: MirrorState, hosts: Sequence[str], *, prune: bool) -> tuple[HostChange, ...]:
    """Return what differs, by host. hosts: only these; empty: all. prune: also what a provider is to leave."""
    changes = []
    for provider, host in state.hosts_by_provider.items():
        if hosts and host not in hosts:
            continue
        aggregates_wanted, aggregates_present = (
            state.aggregates_wanted.get(provider, frozenset()),
            state.aggregates_present.get(provider, frozenset()),
        )
        joins, leaves = (
            aggregates_wanted - aggregates_present,
            aggregates_present - aggregates_wanted if prune else frozenset[str](),
        )
        if joins or leaves:
            names = [tuple(sorted(state.names[uuid] for uuid in uuids)) for uuids in (joins, leaves)]
            changes.append(HostChange(host, *names))
    return tuple(sorted(changes, key=lambda change: change.host))
