"""Audit of servers: their claims, their ports, and their hosts' places in the ledger.

There is no lock over two services: what differs is read a second time, and is drift where nobody worked on the server
or its ports before, in between and after.
"""

from collections.abc import Mapping, Sequence

import msgspec

from roost.compute.model import GUEST_CHANNEL
from roost.compute.rules import drift as rules
from roost.compute.rules.drift import QuietServer
from roost.compute.service.aggregates import mirror_hosts
from roost.compute.service.context import Compute
from roost.compute.service.hosts import provider_state, publish_hosts
from roost.compute.service.work import list_claiming
from roost.compute.store import audit as store
from roost.compute.store import hosts as host_rows
from roost.platform.crash import crash_point
from roost.seams.audit import Drift, Kind, Repairs
from roost.seams.network import AttachedPort
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, ConsumerState, ConsumerType

CONSUMERS_PAGE = 1000
SERVERS_PAGE = 500
HOSTS_PAGE = 1000
GUESTS_MAX = 10_000


async def audit(compute: Compute, *, repairs: Repairs) -> list[Drift]:
    """All drift of servers and hosts, in pages."""
    found: list[Drift] = []
    for look in (audit_hosts, audit_guests, audit_consumers, audit_servers):
        found += await look(compute, repairs=repairs)
    return found


async def audit_guests(compute: Compute, *, repairs: Repairs) -> list[Drift]:
    """Guests of no server, which keep its claims and ports until they are gone; servers without a guest; and guests
    that hosts list and nobody asked for.
    """
    repairing = repairs.include(Kind.GUEST_STRAY.mend)
    async with compute.database.transaction() as tx:
        strays = await store.list_stray_guests(tx, limit=GUESTS_MAX)
        missing = await store.list_missing_guests(tx, limit=GUESTS_MAX)
        unknown = await store.list_unknown_guests(tx, limit=GUESTS_MAX)
        if strays and repairing:
            await store.withdraw_stray_guests(tx, [server_id for server_id, _ in strays])
    if strays and repairing:
        compute.wake(GUEST_CHANNEL)
    return [
        *(
            Drift(kind=Kind.GUEST_STRAY, key=server_id, says=f"host {host} has it", repaired=repairing)
            for server_id, host in strays
        ),
        *(
            Drift(kind=Kind.GUEST_MISSING, key=server_id, name=name, says=f"host {host or 'none'} has not got it")
            for server_id, name, host in missing
        ),
        *(
            Drift(kind=Kind.GUEST_UNKNOWN, key=server_id, says=f"host {host} has it, made by attempt {attempt}")
            for server_id, host, attempt in unknown
        ),
    ]


async def audit_consumers(compute: Compute, *, repairs: Repairs) -> list[Drift]:
    """INSTANCE claims of servers that may hold none: a server's row is there before its claim."""
    found: list[Drift] = []
    after = ""
    while page := await compute.placement.list_consumers(
        ConsumerType.INSTANCE.value, after=after, limit=CONSUMERS_PAGE
    ):
        after = page[-1]
        claiming = await list_claiming(compute, page)
        suspects = [uuid for uuid in page if uuid not in claiming]
        if not suspects:
            continue
        # Their generation first, then a second look: who claims in between changes the one or is seen by the other.
        held = await compute.placement.get_consumers(suspects)
        claiming = await list_claiming(compute, suspects)
        stray = {uuid: state for uuid, state in held.items() if uuid not in claiming}
        if repairs is not Repairs.NONE:
            crash_point("reconcile.before-release")
            generations = {uuid: state.generation for uuid, state in stray.items()}
            await compute.placement.release(list(stray), generations=generations)
            crash_point("reconcile.after-release")
        found += [
            Drift(
                kind=Kind.SERVER_CLAIM_STRAY,
                key=uuid,
                says=f"holds {sum(map(len, state.allocations.values()))} allocations",
                repaired=repairs is not Repairs.NONE,
            )
            for uuid, state in stray.items()
        ]
    return found


async def audit_servers(compute: Compute, *, repairs: Repairs) -> list[Drift]:
    """ACTIVE servers whose claim or ports are not what they should be."""
    found: list[Drift] = []
    after = ""
    while True:
        async with compute.database.connection() as connection:
            page = await store.list_quiet(connection, after=after, limit=SERVERS_PAGE)
        found += await _audit_page(compute, page, repairs) if page else []
        if len(page) < SERVERS_PAGE:
            return found
        after = page[-1].id


async def _audit_page(compute: Compute, page: Sequence[QuietServer], repairs: Repairs) -> list[Drift]:
    held, ports = await _read(compute, page)
    suspects = [server for server in page if _judge(server, held, ports)]
    if not suspects:
        return []
    # A second look, in the same order: a change that was under way is done, or shows as work or as a revision. Ports
    # that were changed have a notice from before they were read until the server is told, which it is not at this look.
    ids = [server.id for server in suspects]
    noticed = await compute.network.list_noticed_servers(ids)
    async with compute.database.connection() as connection:
        quiet = {server.id: server for server in await store.list_quiet(connection, after="", limit=len(ids), ids=ids)}
    held_now, ports_now = await _read(compute, suspects)
    found: list[Drift] = []
    for server in suspects:
        same = quiet.get(server.id) == server and held.get(server.id) == held_now.get(server.id)
        if not same or server.id in noticed or ports.get(server.id) != ports_now.get(server.id):
            continue
        for drift in _judge(server, held_now, ports_now):
            repaired = False
            if repairs.include(drift.kind.mend) and drift.kind is Kind.SERVER_CLAIM_WRONG:
                repaired = await _claim(compute, server, held_now.get(server.id))
            elif repairs.include(drift.kind.mend) and drift.kind is Kind.SERVER_PORTS_WRONG:
                repaired = await _keep_ports(compute, server, ports_now.get(server.id, ()))
            found.append(msgspec.structs.replace(drift, repaired=repaired))
    return found


async def _read(
    compute: Compute, servers: Sequence[QuietServer]
) -> tuple[dict[str, ConsumerState], dict[str, tuple[AttachedPort, ...]]]:
    ids = [server.id for server in servers]
    held, attached = await compute.placement.get_consumers(ids), await compute.network.list_attached_ports(ids)
    return held, {server.id: rules.own_ports(server.project_id, attached.get(server.id, ())) for server in servers}


def _judge(
    server: QuietServer, held: Mapping[str, ConsumerState], ports: Mapping[str, tuple[AttachedPort, ...]]
) -> list[Drift]:
    claim = rules.judge_claim(server, held[server.id].allocations if server.id in held else {})
    return ([claim] if claim else []) + rules.judge_ports(server, ports.get(server.id, ()))


async def _claim(compute: Compute, server: QuietServer, held: ConsumerState | None) -> bool:
    """Claim for the server what it asked for, where it is; False when there is no room."""
    claim = ConsumerClaim(
        consumer_uuid=server.id,
        generation=held.generation if held else None,
        consumer_type=ConsumerType.INSTANCE.value,
        project_id=server.project_id,
        user_id=server.user_id,
        allocations=rules.claim_of(server, held.allocations if held else {}),
    )
    (answer,) = await compute.placement.claim([ClaimGroup((claim,))])
    return isinstance(answer, Claimed)


async def _keep_ports(compute: Compute, server: QuietServer, ports: Sequence[AttachedPort]) -> bool:
    async with compute.database.transaction() as tx:
        new = rules.network_information(server.ports, ports)
        return await store.set_network_info(tx, server.id, old=server.ports, new=new)


async def audit_hosts(compute: Compute, *, repairs: Repairs) -> list[Drift]:
    """Hosts that the ledger or the network service has otherwise than they are, or in other aggregates."""
    first = await _look_at_hosts(compute)
    found = [drift for drift in await _look_at_hosts(compute) if drift in first] if first else []
    if repairs is Repairs.NONE or not found:
        return found
    names = sorted({drift.key for drift in found})
    async with compute.database.transaction() as tx:
        await store.want_hosts(tx, names)
        managed = frozenset(await store.list_aggregate_names(tx))
    await publish_hosts(compute, names)
    await mirror_hosts(compute, names, managed=managed)
    return [msgspec.structs.replace(drift, repaired=True) for drift in found]


async def _look_at_hosts(compute: Compute) -> list[Drift]:
    """What is wrong with hosts that are published; aggregates that just get their hosts are left out."""
    unsettled = await compute.network.list_unsettled_aggregates()
    found: list[Drift | None] = []
    after = ""
    while True:
        async with compute.database.transaction(snapshot=True) as tx:
            page = await store.list_host_aggregates(tx, after=after, limit=HOSTS_PAGE)
            hosts = await host_rows.list_hosts(tx, after="", limit=None, names=list(page))
            names = await store.list_aggregate_names(tx)
        there = await compute.placement.get_providers([host.provider_uuid for host in hosts])
        told = await compute.network.get_hosts(list(page))
        settled = names.keys() - unsettled - await compute.network.list_unsettled_aggregates()
        for host in hosts:
            state = there.get(host.provider_uuid)
            found.append(rules.judge_host(host, provider_state(host), state, told.get(host.name)))
            if state is not None:
                has = (state.placement_aggregates or frozenset()) & settled
                found.append(rules.judge_mirror(host.name, page[host.name] & settled, has, names))
        if len(page) < HOSTS_PAGE:
            return [drift for drift in found if drift is not None]
        after = list(page)[-1]
