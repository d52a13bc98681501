"""Make placement mirror all host aggregates: what `roost-manage sync_placement_aggregates` does.

Placement is asked once for each aggregate, and told only of hosts that differ. It may run beside all else: who changes
members meanwhile publishes them, and a host whose members changed is looked at again after it was written.
"""

from collections.abc import Callable, Sequence

from roost.compute.errors import HostAggregatesBusy
from roost.compute.rules.aggregate_sync import HostProblem, MirrorState, SyncReport, SyncStatus, list_changes
from roost.compute.service.aggregates import mirror_hosts
from roost.compute.service.context import Compute
from roost.compute.service.operator_aggregates import clear_providers
from roost.compute.store import aggregates as store
from roost.compute.store import hosts as hosts_store
from roost.platform.errors import BadRequest, Conflict, NotFound, RoostError

AGGREGATES_PAGE = 100
HOSTS_BATCH = 500

Progress = Callable[[str, int, int], None]
"""(kind of work, done, of so many)."""


async def sync_aggregates(
    compute: Compute,
    *,
    prune: bool = False,
    dry_run: bool = False,
    hosts: Sequence[str] = (),
    aggregates: Sequence[str] = (),
    progress: Progress = lambda kind, done, total: None,
) -> SyncReport:
    """Put every host's provider into the placement aggregates of its host aggregates; with prune, out of the others.

    hosts, aggregates: only these, by name; aggregates also by UUID; empty: all. Raises BadRequest for one that is not.
    """
    try:
        state = await _read(compute, hosts, aggregates, progress)
    except (BadRequest, NotFound):
        raise
    except RoostError as error:
        return SyncReport(failure=str(error), dry_run=dry_run)
    changes = list_changes(state, hosts, prune=prune)
    stale = sum(len(change.leaves) for change in list_changes(state, hosts, prune=True)) if not prune else 0
    strays = {
        provider for provider, uuids in state.aggregates_present.items()
        if provider not in state.hosts_by_provider and uuids & state.former
    } if prune and not hosts else set()  # fmt: skip
    problems = [HostProblem(host, SyncStatus.HOST_UNKNOWN, "no such host") for host in state.unknown_hosts]
    report = SyncReport(changes=changes, stale=stale, others=len(strays), problems=tuple(problems), dry_run=dry_run)
    if dry_run:
        return report
    managed = frozenset(state.names) if prune else frozenset[str]()
    failure = None
    try:
        if strays:
            await clear_providers(compute, sorted(state.former))
        for start in range(0, len(changes), HOSTS_BATCH):
            batch = [change.host for change in changes[start : start + HOSTS_BATCH]]
            problems += await _mirror(compute, batch, managed, frozenset(state.names))
            progress("hosts written", min(start + HOSTS_BATCH, len(changes)), len(changes))
        if changes:
            refused = {problem.host for problem in problems}
            changes_left = list_changes(await _read(compute, hosts, aggregates, progress), hosts, prune=False)
            missing = [change.host for change in changes_left if change.host not in refused]
            problems += [
                HostProblem(host, SyncStatus.PROVIDER_MISSING, "placement has no provider of it") for host in missing
            ]
    except RoostError as error:
        failure = str(error)
    return SyncReport(changes=changes, stale=stale, others=len(strays), problems=tuple(problems), failure=failure)


async def _mirror(
    compute: Compute, hosts: Sequence[str], managed: frozenset[str], joined: frozenset[str]
) -> list[HostProblem]:
    """Write one batch; a host that is refused is named and holds up no other."""
    try:
        await mirror_hosts(compute, hosts, managed=joined, leave=managed)
    except HostAggregatesBusy:
        return []  # whoever keeps changing them publishes them
    except (Conflict, BadRequest, NotFound) as refusal:
        if len(hosts) == 1:
            return [HostProblem(hosts[0], SyncStatus.HOST_REFUSED, str(refusal))]
        half = len(hosts) // 2
        return [
            *await _mirror(compute, hosts[:half], managed, joined),
            *await _mirror(compute, hosts[half:], managed, joined),
        ]
    return []


async def _read(compute: Compute, hosts: Sequence[str], aggregates: Sequence[str], progress: Progress) -> MirrorState:
    async with compute.database.transaction(snapshot=True) as tx:
        mirrored = await store.list_mirrored(tx)
        members = await store.list_host_aggregates(tx)
        rows = await hosts_store.list_hosts(tx)
    providers_by_host = {row.name: row.provider_uuid for row in rows}
    if unknown := sorted(set(hosts) - providers_by_host.keys()):
        raise BadRequest(f"--host {', '.join(unknown)}: there is no such host")
    chosen = {uuid: name for uuid, name in mirrored.items() if not aggregates or {uuid, name} & set(aggregates)}
    if missing := sorted(set(aggregates) - chosen.keys() - set(chosen.values())):
        raise BadRequest(f"--aggregate {', '.join(missing)}: there is no such host aggregate")
    aggregates_wanted: dict[str, set[str]] = {}
    unknown_hosts = set()
    for aggregate in members:
        for host in aggregate.hosts if aggregate.uuid in chosen else ():
            if host not in providers_by_host:
                unknown_hosts.add(host)
            else:
                aggregates_wanted.setdefault(providers_by_host[host], set()).add(aggregate.uuid)
    aggregates_present: dict[str, set[str]] = {}
    uuids = sorted(chosen)
    for start in range(0, len(uuids), AGGREGATES_PAGE):
        page = await compute.placement.list_aggregate_providers(uuids[start : start + AGGREGATES_PAGE])
        for uuid, provider_uuids in page.items():
            for provider_uuid in provider_uuids:
                aggregates_present.setdefault(provider_uuid, set()).add(uuid)
        progress("aggregates read", min(start + AGGREGATES_PAGE, len(uuids)), len(uuids))
    return MirrorState(
        names=chosen,
        former=frozenset(chosen) - {aggregate.uuid for aggregate in members},
        hosts_by_provider={uuid: host for host, uuid in providers_by_host.items()},
        aggregates_wanted={provider: frozenset(uuids) for provider, uuids in aggregates_wanted.items()},
        aggregates_present={provider: frozenset(uuids) for provider, uuids in aggregates_present.items()},
        unknown_hosts=tuple(sorted(unknown_hosts)) if not hosts else (),
    )
