"""Hosts: what they have, whether they are there, and that placement and the network service know it.

A host's row says which state is wanted and which was published, so a crash between the two heals at the next look.
"""

import uuid
from collections.abc import Mapping, Sequence

import structlog
from msgspec import Struct
from msgspec.structs import asdict

from roost.compute.errors import HostHeld, HostNotFound
from roost.compute.model.cloud import Host, HostRow, HostUpsert
from roost.compute.model.server import Requester
from roost.compute.model.work import WORK_CHANNEL
from roost.compute.rules.agent_tokens import EVERY_HOST, HostPatterns
from roost.compute.rules.aggregates import ratios_by_host
from roost.compute.rules.events import of_operator, of_returned, of_waiting
from roost.compute.rules.leases import list_held_elsewhere
from roost.compute.rules.waiting_hosts import WAITING_REASON, check_reports
from roost.compute.service.agents import admit_call, log_older_agents
from roost.compute.service.aggregates import mirror_hosts
from roost.compute.service.context import Compute
from roost.compute.service.events import record, requested_now
from roost.compute.service.notifications import announce_hosts
from roost.compute.store import aggregates as aggregates_store
from roost.compute.store import hosts as store
from roost.compute.store import leases as leases_store
from roost.compute.store import waiting_hosts as waiting_store
from roost.platform.database import Connection, reading
from roost.platform.errors import BadRequest, Conflict
from roost.platform.repeat import at_once
from roost.seams.agent import AgentIdentity, HostReport
from roost.seams.placement import DISABLED, DISK_GB, MEMORY_MB, VCPU, Inventory, ProviderState

HOSTS_BATCH_MAX = 1000
NAMES_LOGGED_MAX = 20
PUBLISH_ROUNDS_MAX = 3
ALLOCATION_RATIO = 1.0
PROVIDER_NAMESPACE = uuid.UUID("6f1a6b1c-7c0e-5b52-9d53-2f6a4be0d1c7")
"""With the host's name it fixes its provider's UUID, so a crash before the row is written changes nothing."""

log = structlog.get_logger()


def provider_uuid_of(host: str) -> str:
    """Return the UUID of the provider that stands for a host."""
    return str(uuid.uuid5(PROVIDER_NAMESPACE, host))


async def register_hosts(
    compute: Compute, reports: Sequence[HostReport], *, agent: AgentIdentity | None, covered: HostPatterns = EVERY_HOST
) -> list[Host]:
    """Write these hosts, with their providers and networks; return them in the order of the names.

    agent: who serves them and takes the lease on each; None where a cloud file declares them, which no later report
    of an agent overrules. Of two reports of one host the later counts. covered: what the agent's token is for; a host
    that is new then waits until it is accepted. EVERY_HOST itself: agents have no tokens.
    Raises AgentRefused, BadRequest and TooManyWaitingHosts as check_reports says, and HostHeld, which names the first
    host that another agent serves; hosts of its set are left as they were.
    """
    has_token = agent is not None and covered is not EVERY_HOST
    has_new = False
    if has_token:
        async with compute.database.connection() as connection:
            has_new = await _check_reports(compute, connection, reports, covered)
    if agent is not None:
        await admit_call(compute, agent, takes_leases=True)
    upserts = {report.name: _upsert(report) for report in reports}
    names = sorted(upserts)
    rows: list[HostRow] = []
    version_min = compute.settings.service_version_min
    for start in range(0, len(names), HOSTS_BATCH_MAX):
        batch = [upserts[name] for name in names[start : start + HOSTS_BATCH_MAX]]
        async with compute.database.transaction() as tx:
            if has_new:
                await waiting_store.lock_registrations(tx)
                await _check_reports(compute, tx, reports, covered)
            # The leases first: an agent without the lease changes nothing of the host.
            names_new, returned = await _take_leases(compute, tx, [host.name for host in batch], agent)
            rows_written = await store.upsert_hosts(
                tx,
                batch,
                declared=agent is None,
                version_min=version_min,
                waiting_reason=WAITING_REASON if has_token else None,
            )
            if names_new:
                await _take_leases(compute, tx, names_new, agent)
            await announce_hosts(compute, tx, "create", [row.host for row in rows_written if row.created])
            waiting = [row.host.name for row in rows_written if row.created and row.host.waiting]
            recorded = await record(tx, [*of_returned(returned), *of_waiting(waiting)])
            rows += rows_written
        recorded.tell()
    names_behind = [row.host.name for row in rows if row.state_published < row.state_wanted]
    if names_behind:
        await publish_hosts(compute, names_behind)
    return sorted((row.host for row in rows), key=lambda host: host.name)


async def _check_reports(
    compute: Compute, tx: Connection, reports: Sequence[HostReport], covered: HostPatterns
) -> bool:
    """Return whether any of the hosts is new. Raises what check_reports raises."""
    names, cells = {report.name for report in reports}, {report.cell for report in reports}
    known = await waiting_store.read_known(tx, names, cells)
    check_reports(reports, known, covered=covered, waiting_hosts_max=compute.settings.waiting_hosts_max)
    return bool(names - known.names)


async def _take_leases(
    compute: Compute, tx: Connection, names: Sequence[str], agent: AgentIdentity | None
) -> tuple[list[str], frozenset[str]]:
    """Take or renew the agent's leases; return the hosts that do not exist yet, and those that are back.

    Raises HostHeld.
    """
    if agent is None:
        return [], frozenset()
    down_after_s, renew_after_s = compute.settings.host_down_after_s, compute.settings.heard_again_s
    read = await leases_store.renew_leases(
        tx, dict.fromkeys(names, agent), renew_after_s=renew_after_s, lease_length_s=down_after_s
    )
    log_older_agents(read.hosts_fallen, read.leases_by_host)
    if refused := list_held_elsewhere(read.leases_by_host.values(), agent, host_down_after_s=down_after_s):
        raise HostHeld(refused[0].sentence(), refused[0].ends_in_s)
    return [name for name in names if name not in read.leases_by_host], read.hosts_returned


def _upsert(report: HostReport) -> HostUpsert:
    networks = tuple(sorted(set(report.physical_networks)))
    return HostUpsert(
        **asdict(report) | {"provider_uuid": provider_uuid_of(report.name), "physical_networks": networks}
    )


async def publish_hosts(compute: Compute, names: Sequence[str] | None = None) -> int:
    """Bring providers and host ↔ network mapping of hosts that are behind up to date; return how many there were.

    names None: all that are behind, as the periodic look does. Doing it twice, or in two processes at once, is fine.
    """
    seen = 0
    for _ in range(PUBLISH_ROUNDS_MAX):
        after, names_behind = "", set[str]()
        while True:
            async with compute.database.connection() as connection:
                rows = await store.list_unpublished_hosts(connection, after=after, limit=HOSTS_BATCH_MAX, names=names)
            if not rows:
                break
            after, seen = rows[-1].host.name, seen + len(rows)
            names_behind |= await _publish(compute, rows)
        if not names_behind:
            break
    return seen


publish_hosts_now = at_once(publish_hosts, "publishing hosts")


async def _publish(compute: Compute, rows: Sequence[HostRow]) -> set[str]:
    """Publish one batch; returns who is behind again since. A host that is refused holds up no other."""
    names = [row.host.name for row in rows]
    async with compute.database.connection() as connection:
        ratios = ratios_by_host(names, await aggregates_store.list_with_metadata(connection))
    try:
        await compute.placement.ensure_providers([provider_state(row.host, ratios[row.host.name]) for row in rows])
    except (Conflict, BadRequest) as refusal:
        if len(rows) == 1:
            log.warning("the ledger refuses a host, so no server goes there", host=names[0], reason=str(refusal))
            return set()
        half = len(rows) // 2
        return await _publish(compute, rows[:half]) | await _publish(compute, rows[half:])
    await mirror_hosts(compute, names)
    await compute.network.set_hosts(
        {row.host.name: row.host.physical_networks for row in rows},
        cells_by_host={row.host.name: row.host.cell for row in rows},
    )
    async with compute.database.connection() as connection:
        behind_by_name = await store.mark_hosts_published(connection, rows)
    if removed := [row.host for row in rows if row.host.name not in behind_by_name]:
        await withdraw_hosts(compute, removed)
    return {name for name, is_behind in behind_by_name.items() if is_behind}


async def withdraw_hosts(compute: Compute, hosts: Sequence[Host]) -> None:
    """Delete what the ledger and the network service know of removed hosts, which a publisher may have told late (R36).

    A host that its agent has registered again meanwhile is published again.
    """
    await compute.placement.delete_providers([host.provider_uuid for host in hosts])
    await compute.network.set_hosts({host.name: () for host in hosts}, cells_by_host={h.name: h.cell for h in hosts})
    async with compute.database.transaction() as tx:
        await aggregates_store.want_hosts(tx, [host.name for host in hosts])


def provider_state(host: Host, ratios: Mapping[str, float]) -> ProviderState:
    """Return what the ledger is to have of a host, but for its placement aggregates.

    ratios: resource class -> the allocation ratio that its aggregates say; others have ALLOCATION_RATIO.
    """
    amounts = {VCPU: host.vcpus, MEMORY_MB: host.ram_mb, DISK_GB: host.disk_gb}
    is_closed = host.disabled or host.down or host.cell_silent or host.too_old or host.idle
    return ProviderState(
        uuid=host.provider_uuid,
        name=host.name,
        inventories={
            name: Inventory(total=total, max_unit=total, allocation_ratio=ratios.get(name, ALLOCATION_RATIO))
            for name, total in amounts.items()
            if total > 0
        },
        # Other inventories are an operator's, such as CUSTOM_GPU, for flavors that ask for them.
        managed_classes=frozenset(amounts),
        # Every search forbids this trait, so that a closed or silent host gets no server.
        traits=frozenset({DISABLED}) if is_closed else frozenset(),
        managed_traits=frozenset({DISABLED}),
    )


async def list_quiet_hosts(compute: Compute) -> set[str]:
    """Return hosts that were not heard of for longer than one that lives goes without a poll, down or not yet."""
    async with compute.database.connection() as connection:
        return await store.list_quiet_hosts(connection, quiet_after_s=compute.settings.quiet_after_s)


list_behind = reading(store.list_behind)
count_closed_hosts = reading(store.count_closed_hosts)
count_promising = reading(store.count_promising)
count_host_states = reading(store.count_states)
list_empty_aggregates = reading(store.list_empty_aggregates)
has_enabled_host = reading(store.has_enabled_host)
list_hosts = reading(store.list_hosts)
list_hosts_below = reading(store.list_hosts_below)
find_host = reading(store.find_host)
list_servers_on = reading(store.list_servers_on)
count_servers = reading(store.count_servers)


async def disable_host(compute: Compute, name: str, *, reason: str | None = None, by: Requester | None = None) -> Host:
    """Keep new servers off it, and tell who asks the reason. Raises HostNotFound."""
    return await _set_state(compute, name, disabled=True, disabled_reason=reason, by=by)


async def enable_host(compute: Compute, name: str, *, by: Requester | None = None) -> Host:
    """Enable the host, so that it takes servers again. Raises HostNotFound."""
    return await _set_state(compute, name, disabled=False, by=by)


async def force_down(compute: Compute, name: str, forced_down: bool, *, by: Requester | None = None) -> Host:
    """Record that nothing runs there any more, as an operator vouches, or take that back; it takes no server meanwhile.

    Raises HostNotFound.
    """
    host = await _set_state(compute, name, forced_down=forced_down, by=by)
    compute.wake(WORK_CHANNEL)
    return host


async def _set_state(
    compute: Compute,
    name: str,
    *,
    disabled: bool | None = None,
    forced_down: bool | None = None,
    disabled_reason: str | None = None,
    by: Requester | None = None,
) -> Host:
    async with compute.database.transaction() as tx:
        change = await store.set_host_state(
            tx, name, disabled=disabled, forced_down=forced_down, disabled_reason=disabled_reason
        )
        if change is None:
            raise HostNotFound(f"Compute host {name} could not be found.")
        await announce_hosts(compute, tx, "update", [change.host], by)
        recorded = await record(tx, of_operator(change, by=requested_now()))
    recorded.tell()
    await publish_hosts(compute, [name])
    return (await list_hosts(compute, [name]))[0]


class HostLoad(Struct, frozen=True, kw_only=True):
    """What of a host is claimed, and how many servers are on it."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    servers: int


async def list_loads(compute: Compute, hosts: Sequence[Host]) -> dict[str, HostLoad]:
    """Return host name -> its load, by the ledger."""
    usages = await compute.placement.list_usages([host.provider_uuid for host in hosts])
    servers = await count_servers(compute, [host.name for host in hosts])
    loads = {}
    for host in hosts:
        used = {name: amount for name, (_, amount) in usages.get(host.provider_uuid, {}).items()}
        loads[host.name] = HostLoad(
            vcpus=used.get(VCPU, 0),
            memory_mb=used.get(MEMORY_MB, 0),
            disk_gb=used.get(DISK_GB, 0),
            servers=servers.get(host.name, 0),
        )
    return loads
